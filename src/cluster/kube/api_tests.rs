//! The client over a fake API server: a map of objects that answers as the real one does.

use std::error::Error;
use std::sync::Arc;

use http::{Request, Response};
use kube::client::Body;

use super::*;

/// Objects by path, what was asked, and answers that a test puts in the way.
#[derive(Default)]
struct Server {
    objects: BTreeMap<String, Value>,
    calls: Vec<String>,
    /// `METHOD` and the answer given once in the map's stead.
    interruptions: Vec<(Method, u16, Value)>,
}

impl Server {
    fn answer(&mut self, method: &Method, path: &str, body: Value) -> (u16, Value) {
        self.calls.push(format!("{method} {path}"));
        if let Some(at) = self.interruptions.iter().position(|(which, ..)| which == method) {
            let (_, code, value) = self.interruptions.remove(at);
            return (code, value);
        }
        match method.as_str() {
            "POST" => {
                let path = format!("{path}/{}", body["metadata"]["name"].as_str().unwrap_or_default());
                if self.objects.contains_key(&path) {
                    return (409, json!({"reason": "AlreadyExists", "message": "already exists"}));
                }
                self.objects.insert(path, body.clone());
                (201, body)
            }
            "PUT" => {
                self.objects.insert(path.to_owned(), body.clone());
                (200, body)
            }
            // Server-side apply, of an object that nobody else has fields of.
            "PATCH" => {
                let before = self.objects.get(path);
                let version = before.and_then(|b| b["metadata"]["resourceVersion"].as_str()?.parse().ok());
                let same = before.is_some_and(|before| before["data"] == body["data"]);
                let version = version.unwrap_or(0_u32) + u32::from(!same);
                let code = if before.is_some() { 200 } else { 201 };
                let mut after = body;
                after["metadata"]["resourceVersion"] = json!(version.to_string());
                self.objects.insert(path.to_owned(), after.clone());
                (code, after)
            }
            "DELETE" if self.objects.remove(path).is_some() => (200, json!({"status": "Success"})),
            "GET" if self.objects.contains_key(path) => (200, self.objects[path].clone()),
            _ => (404, json!({"reason": "NotFound", "message": "not found"})),
        }
    }
}

fn serve() -> (Arc<Mutex<Server>>, Api) {
    let server = Arc::new(Mutex::new(Server::default()));
    let shared = Arc::clone(&server);
    let service = tower::service_fn(move |request: Request<Body>| {
        let server = Arc::clone(&shared);
        async move {
            let (parts, body) = request.into_parts();
            let body = serde_json::from_slice(&body.collect_bytes().await?).unwrap_or_default();
            let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
            let (code, answer) = server.answer(&parts.method, parts.uri.path(), body);
            let response = Response::builder().status(code).body(Body::from(answer.to_string().into_bytes()));
            response.map_err(kube::Error::HttpError)
        }
    });
    (server, Api::new(kube::Client::new(service, "default")))
}

fn asked(server: &Mutex<Server>) -> Vec<String> {
    std::mem::take(&mut server.lock().unwrap_or_else(PoisonError::into_inner).calls)
}

fn config(value: &str) -> Result<Object, hoist_phases::object::ObjectError> {
    Object::new(&json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "b"}, "data": {"k": value},
    }))
}

const HOME: &str = "/api/v1/namespaces/b/configmaps";

#[tokio::test]
async fn created_at_once_then_left_then_updated() -> Result<(), Box<dyn Error>> {
    let (server, api) = serve();
    assert_eq!(api.apply(&config("one")?).await?, Applied::Created);
    assert_eq!(asked(&server), [format!("POST {HOME}")], "a fresh cluster costs one request");
    assert_eq!(api.apply(&config("one")?).await?, Applied::Unchanged);
    assert_eq!(asked(&server), [format!("POST {HOME}"), format!("GET {HOME}/a")]);
    assert_eq!(api.apply(&config("two")?).await?, Applied::Updated);
    assert_eq!(asked(&server).last(), Some(&format!("PUT {HOME}/a")));
    assert_eq!(api.apply(&config("two")?).await?, Applied::Unchanged);
    Ok(())
}

#[tokio::test]
async fn what_users_apply_is_told_apart_and_gets_no_mark() -> Result<(), Box<dyn Error>> {
    let (server, api) = serve();
    let object = |value: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}, "data": {"k": value}});
    let reference = ObjectRef::of(&object(""))?;
    for (value, wanted) in [("one", Applied::Created), ("one", Applied::Unchanged), ("two", Applied::Updated)]
    {
        assert_eq!(api.server_side_apply(&reference, &object(value), None).await?, wanted, "{value}");
    }
    assert_eq!(asked(&server)[..2], [format!("GET {HOME}/a"), format!("PATCH {HOME}/a")]);
    let server = server.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(server.objects[&format!("{HOME}/a")]["metadata"].get("labels"), None);
    Ok(())
}

#[tokio::test]
async fn an_object_of_ours_that_was_edited_is_put_right() -> Result<(), Box<dyn Error>> {
    let (server, api) = serve();
    api.apply(&config("one")?).await?;
    let edit = |value: &str, version: Option<&str>| {
        let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(object) = server.objects.get_mut(&format!("{HOME}/a")) {
            object["data"]["k"] = json!(value);
            if let Some(version) = version {
                object["metadata"]["resourceVersion"] = json!(version);
            }
        }
    };
    edit("edited", None);
    assert_eq!(api.apply(&config("one")?).await?, Applied::Updated);
    assert_eq!(api.apply(&config("one")?).await?, Applied::Unchanged);
    // As the fake keeps the version, so does a server that finds nothing changed by an update.
    edit("written otherwise", Some("7"));
    assert_eq!(api.apply(&config("one")?).await?, Applied::Unchanged);
    Ok(())
}

#[tokio::test]
async fn replicas_that_are_not_ours_to_say_are_given_once() -> Result<(), Box<dyn Error>> {
    let (server, api) = serve();
    let path = "/apis/apps/v1/namespaces/b/deployments/a";
    let deployment = |image: &str| {
        Object::new(&json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a", "namespace": "b"}, "spec": {"image": image},
        }))
    };
    let placed = |object: &Object| {
        let mut value = object.value().clone();
        value["spec"]["apart"] = json!(true);
        object.with_additions(value, Some(3))
    };
    let spec = || server.lock().unwrap_or_else(PoisonError::into_inner).objects[path]["spec"].clone();
    assert_eq!(api.apply(&placed(&deployment("one")?)).await?, Applied::Created);
    assert_eq!(spec(), json!({"image": "one", "apart": true, "replicas": 3}));
    let scale = |replicas: u32| {
        let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(object) = server.objects.get_mut(path) {
            object["spec"]["replicas"] = json!(replicas);
        }
    };
    scale(5);
    assert_eq!(api.apply(&placed(&deployment("one")?)).await?, Applied::Unchanged);
    assert_eq!(api.apply(&placed(&deployment("two")?)).await?, Applied::Updated);
    assert_eq!(spec(), json!({"image": "two", "apart": true, "replicas": 5}));
    // What is added no more stays until there is another reason to write the object.
    assert_eq!(api.apply(&deployment("two")?).await?, Applied::Unchanged);
    assert_eq!(api.apply(&deployment("three")?).await?, Applied::Updated);
    assert_eq!(spec(), json!({"image": "three", "replicas": 5}));
    Ok(())
}

#[tokio::test]
async fn an_object_of_the_users_is_left_alone() -> Result<(), Box<dyn Error>> {
    let (server, api) = serve();
    let mine = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "b"}});
    api.create(&mine).await?;
    asked(&server);
    assert_eq!(api.apply(&config("one")?).await?, Applied::Foreign);
    assert!(asked(&server).iter().all(|call| !call.starts_with("PUT")));
    Ok(())
}

#[tokio::test]
async fn an_update_that_collides_is_done_again_on_what_is_there_then() -> Result<(), Box<dyn Error>> {
    let (server, api) = serve();
    api.apply(&config("one")?).await?;
    asked(&server);
    let conflict = json!({"reason": "Conflict", "message": "the object has been modified"});
    let interrupt = |times: usize| {
        let mut server = server.lock().unwrap_or_else(PoisonError::into_inner);
        server.interruptions = vec![(Method::PUT, 409, conflict.clone()); times];
    };
    interrupt(1);
    assert_eq!(api.apply(&config("two")?).await?, Applied::Updated);
    let puts = asked(&server).iter().filter(|call| call.starts_with("PUT")).count();
    assert_eq!(puts, 2);

    interrupt(100);
    let error = api.apply(&config("three")?).await;
    assert!(matches!(error, Err(KubeError::Status { operation: "update", code: 409, .. })), "{error:?}");
    Ok(())
}

#[tokio::test]
async fn an_invalid_object_that_is_not_there_is_refused() -> Result<(), Box<dyn Error>> {
    let (server, api) = serve();
    let invalid =
        (Method::POST, 422, json!({"reason": "Invalid", "message": "spec.clusterIPs: already allocated"}));
    server.lock().unwrap_or_else(PoisonError::into_inner).interruptions.push(invalid);
    let error = api.apply(&config("one")?).await.map_err(|error| (error.is_transient(), error.to_string()));
    let wanted = "create ConfigMap b/a: 422 spec.clusterIPs: already allocated";
    assert_eq!(error, Err((false, wanted.to_owned())));
    Ok(())
}

#[tokio::test]
async fn what_is_gone_is_deleted() -> Result<(), Box<dyn Error>> {
    let (_, api) = serve();
    let object = config("one")?;
    api.apply(&object).await?;
    api.delete(object.reference()).await?;
    assert_eq!(api.get(object.reference()).await?, None);
    api.delete(object.reference()).await?;
    Ok(())
}

#[tokio::test]
async fn an_unknown_kind_is_asked_for_once() -> Result<(), Box<dyn Error>> {
    let (server, api) = serve();
    let widget = |name: &str| {
        Object::new(&json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}}))
    };
    let unknown = api.apply(&widget("a")?).await;
    assert!(matches!(unknown, Err(KubeError::Status { code: 404, .. })), "{unknown:?}");
    let list = json!({"resources": [{"name": "widgets", "kind": "Widget", "namespaced": false}]});
    let group = "/apis/example.com/v1";
    server.lock().unwrap_or_else(PoisonError::into_inner).objects.insert(group.to_owned(), list);
    asked(&server);
    api.apply(&widget("a")?).await?;
    api.apply(&widget("b")?).await?;
    assert_eq!(
        asked(&server),
        [format!("GET {group}"), format!("POST {group}/widgets"), format!("POST {group}/widgets")]
    );
    Ok(())
}

#[test]
fn an_update_keeps_what_others_added() {
    let wanted = json!({"metadata": {"name": "a", "labels": {"ours": "new"}}, "data": {"k": "v"}});
    let live = json!({
        "metadata": {
            "name": "a", "resourceVersion": "7", "uid": "u", "finalizers": ["f"],
            "labels": {"ours": "old", "theirs": "x"}, "annotations": {"note": "y"},
        },
        "data": {"k": "old", "gone": "z"},
    });
    let merged = replacement(&wanted, &live);
    assert_eq!(merged["metadata"]["labels"], json!({"ours": "new", "theirs": "x"}));
    assert_eq!(merged["metadata"]["annotations"], json!({"note": "y"}));
    assert_eq!(merged["metadata"]["resourceVersion"], "7");
    assert_eq!(merged["metadata"]["finalizers"], json!(["f"]));
    assert_eq!(merged["data"], json!({"k": "v"}));
}

#[test]
fn a_discovered_kind_is_not_its_subresource() {
    let list = json!({"resources": [
        {"name": "widgets/status", "kind": "Widget", "namespaced": true},
        {"name": "widgets", "kind": "Widget", "namespaced": true},
    ]});
    assert_eq!(find_kind(&list, "Widget"), Some(Resource { plural: "widgets".into(), namespaced: true }));
    assert_eq!(find_kind(&list, "Gadget"), None);
}
