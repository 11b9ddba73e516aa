//! What the API tells: all objects of all kinds, events once more as lines, and what pods wrote.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hoist_phases::causes;
use hoist_phases::ports::KubeApi;
use serde_json::Value;

use super::super::doctor::Known;
use super::{Content, Piece, Sources, file_name, within};

/// Groups that only say again what others do, or change with every look.
const PASSED_OVER: [&str; 2] = ["events.k8s.io", "metrics.k8s.io"];

/// For the kinds of one group: less than for all.
const GROUP: Duration = Duration::from_secs(5);

/// Lines of each container of a pod.
const TAIL: u32 = 5000;

/// A kind that can be listed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kind {
    /// `pods`, `deployments.apps`.
    name: String,
    path: String,
}

fn api<'a>(sources: &'a Sources<'_>) -> Known<&'a Arc<dyn KubeApi>> {
    sources.api.as_ref().map_err(Clone::clone)
}

/// All Secrets, to know what must be told nowhere.
pub(super) async fn secrets(sources: &Sources<'_>) -> Known<Vec<Value>> {
    api(sources)?.list("v1", "Secret", None).await.map_err(|error| causes(&error))
}

async fn get(api: &Arc<dyn KubeApi>, path: &str) -> Known<Value> {
    let text = text(api, path).await?;
    serde_json::from_str(&text).map_err(|error| format!("GET {path}: {error}"))
}

async fn text(api: &Arc<dyn KubeApi>, path: &str) -> Known<String> {
    let (code, text) = api.get_path(path).await.map_err(|error| causes(&error))?;
    if code == 200 { Ok(text) } else { Err(format!("GET {path}: {code} {}", text.trim())) }
}

/// A group of kinds that doesn't answer, by its path, and why.
type Silent = (String, String);

/// All kinds that this API server lists, whoever brought them.
pub(super) async fn kinds(sources: &Sources<'_>) -> Known<(Vec<Kind>, Vec<Silent>)> {
    let api = api(sources)?;
    let groups = get(api, "/apis").await?;
    let groups = groups["groups"].as_array().cloned().unwrap_or_default();
    let version = |group: &Value| group["preferredVersion"]["groupVersion"].as_str().map(str::to_owned);
    let wanted = groups.iter().filter(|group| !PASSED_OVER.iter().any(|name| group["name"] == *name));
    let paths = wanted.filter_map(version).map(|version| format!("/apis/{version}"));
    let paths: Vec<_> = ["/api/v1".to_owned()].into_iter().chain(paths).collect();
    // A group of somebody's whose server is dead hides no other.
    let lists = join_all(paths.iter().map(|path| within(GROUP, get(api, path)))).await;
    let (mut kinds, mut silent) = (Vec::new(), Vec::new());
    for (path, list) in paths.into_iter().zip(lists) {
        match list {
            Ok(list) => kinds.extend(listed(&path, &list)),
            Err(why) => silent.push((path, why)),
        }
    }
    Ok((kinds, silent))
}

/// The kinds of an APIResourceList.
fn listed(path: &str, list: &Value) -> Vec<Kind> {
    let group = path.strip_prefix("/apis/").and_then(|path| path.split('/').next());
    let can_list = |resource: &&Value| {
        let verbs = resource["verbs"].as_array().into_iter().flatten();
        verbs.into_iter().any(|verb| verb == "list") && resource["name"] != "componentstatuses"
    };
    let resources = list["resources"].as_array().into_iter().flatten().filter(can_list);
    let kind = |resource: &Value| {
        let plural = resource["name"].as_str()?;
        let name = group.map_or_else(|| plural.to_owned(), |group| format!("{plural}.{group}"));
        Some(Kind { name, path: format!("{path}/{plural}") })
    };
    resources.filter_map(kind).collect()
}

/// All pods, whose containers' logs are to be had.
pub(super) async fn pods(sources: &Sources<'_>) -> Known<Vec<Value>> {
    api(sources)?.list("v1", "Pod", None).await.map_err(|error| causes(&error))
}

/// What the API server says of itself.
pub(super) fn of_server<'a>(sources: &'a Sources<'_>) -> Vec<Piece<'a>> {
    let Ok(api) = api(sources) else { return Vec::new() };
    let piece = |(file, path): (&str, &'static str)| {
        // It is worth having whether or not it is ready.
        let answer = async move { api.get_path(path).await.map_err(|error| causes(&error)) };
        Piece::new(format!("api-{file}"), async { answer.await.map(|(_, text)| Content::Text(text)) })
    };
    [("version.json", "/version"), ("readyz.txt", "/readyz?verbose")].map(piece).into()
}

pub(super) fn pieces<'a>(sources: &'a Sources<'_>, kinds: &'a [Kind], pods: &[Value]) -> Vec<Piece<'a>> {
    let Ok(api) = api(sources) else { return Vec::new() };
    let mut pieces: Vec<_> = kinds
        .iter()
        .map(|kind| Piece::new(format!("objects/{}.json", file_name(&kind.name)), list(api, &kind.path)))
        .collect();
    pieces.push(Piece::new("events.txt", events(api)));
    for (file, path) in pods.iter().flat_map(logs) {
        pieces.push(Piece::new(file, async move { text(api, &path).await.map(Content::Text) }));
    }
    pieces
}

async fn list(api: &Arc<dyn KubeApi>, path: &str) -> Known<Content> {
    let mut list = get(api, path).await?;
    let kind =
        list["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).unwrap_or_default().to_owned();
    let Value::Array(mut items) = list["items"].take() else { return Err(format!("GET {path}: no list")) };
    for item in &mut items {
        // Left out within lists; whether it is a Secret has to be known.
        item["kind"] = kind.clone().into();
    }
    Ok(Content::Json(items.into()))
}

/// As `kubectl events` tells them, in their order.
async fn events(api: &Arc<dyn KubeApi>) -> Known<Content> {
    let mut events = api.list("v1", "Event", None).await.map_err(|error| causes(&error))?;
    let last = |event: &Value| {
        let moments = [&event["lastTimestamp"], &event["eventTime"], &event["metadata"]["creationTimestamp"]];
        moments.iter().find_map(|moment| moment.as_str()).unwrap_or_default().to_owned()
    };
    events.sort_by_key(last);
    let line = |event: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let object = &event["involvedObject"];
        format!(
            "{} {} {} {}/{}/{} {}\n",
            last(event),
            text(&event["type"]),
            text(&event["reason"]),
            text(&object["namespace"]),
            text(&object["kind"]),
            text(&object["name"]),
            text(&event["message"]).replace('\n', " ")
        )
    };
    Ok(Content::Text(events.iter().map(line).collect()))
}

/// File and path of the log of each container of a pod, and of its run before the present one.
fn logs(pod: &Value) -> Vec<(String, String)> {
    let text = |field: &str| pod["metadata"][field].as_str().unwrap_or_default().to_owned();
    let (namespace, name) = (text("namespace"), text("name"));
    let statuses = ["initContainerStatuses", "containerStatuses"].into_iter();
    let statuses = statuses.flat_map(|field| pod["status"][field].as_array().into_iter().flatten());
    let mut logs = Vec::new();
    for status in statuses {
        let Some(container) = status["name"].as_str() else { continue };
        let file = format!("pods/{}/{}/{}", file_name(&namespace), file_name(&name), file_name(container));
        let path =
            format!("/api/v1/namespaces/{namespace}/pods/{name}/log?container={container}&tailLines={TAIL}");
        if status["restartCount"].as_u64().unwrap_or_default() > 0 {
            logs.push((format!("{file}.before.log"), format!("{path}&previous=true")));
        }
        // One that waits has written nothing yet.
        if status["state"].get("waiting").is_none() {
            logs.push((format!("{file}.log"), path));
        }
    }
    logs
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn kinds_are_named_as_kubectl_names_them() {
        let list = json!({"resources": [
            {"name": "deployments", "verbs": ["get", "list"]}, {"name": "deployments/scale", "verbs": ["get"]}]});
        let kind = |name: &str, path: &str| vec![Kind { name: name.to_owned(), path: path.to_owned() }];
        assert_eq!(listed("/apis/apps/v1", &list), kind("deployments.apps", "/apis/apps/v1/deployments"));
        let list = json!({"resources": [{"name": "pods", "verbs": ["list"]}, {"name": "componentstatuses", "verbs": ["list"]}]});
        assert_eq!(listed("/api/v1", &list), kind("pods", "/api/v1/pods"));
    }

    #[test]
    fn a_container_that_was_started_again_has_two_logs() {
        let pod = json!({"metadata": {"namespace": "n", "name": "p"}, "status": {
            "initContainerStatuses": [{"name": "i", "restartCount": 0, "state": {"terminated": {}}}],
            "containerStatuses": [{"name": "c", "restartCount": 2, "state": {"waiting": {}}}]}});
        let files: Vec<_> = logs(&pod).into_iter().map(|(file, _)| file).collect();
        assert_eq!(files, ["pods/n/p/i.log", "pods/n/p/c.before.log"]);
    }
}
