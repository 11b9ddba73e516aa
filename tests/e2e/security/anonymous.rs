//! What is answered to whoever doesn't say who he is.

use std::collections::BTreeSet;

use futures_util::StreamExt as _;
use hoist::cluster::kube::{Access, Api};
use hoist_phases::ports::KubeApi as _;
use serde_json::Value;

use super::document::list;
use crate::support::{Hoist, block, calm, within};

async fn read(api: &Api, path: &str) -> Value {
    let (code, body) = api.get_path(path).await.expect("the API server answers");
    assert_eq!(code, 200, "{path}: {body}");
    serde_json::from_str(&body).expect("JSON")
}

/// Every path that the API server names, and every kind of object that it can list.
async fn everything(admin: &Api) -> BTreeSet<String> {
    let root = read(admin, "/").await;
    let mut paths: BTreeSet<String> = root["paths"]
        .as_array()
        .expect("paths")
        .iter()
        .filter_map(|path| path.as_str().map(str::to_owned))
        .collect();
    let versions: Vec<_> = paths
        .iter()
        .filter(|path| *path == "/api/v1" || path.matches('/').count() == 3 && path.starts_with("/apis/"))
        .cloned()
        .collect();
    for version in versions {
        let resources = read(admin, &version).await["resources"].clone();
        let lists = resources.as_array().expect("resources").iter().filter(|resource| {
            resource["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|verb| verb == "list"))
        });
        paths.extend(
            lists.map(|resource| format!("{version}/{}", resource["name"].as_str().expect("a name"))),
        );
    }
    paths
}

#[test]
fn the_api_server_tells_nobody_more_than_the_list_says() {
    let (shared, _calm) = calm();
    let kubeconfig = std::fs::read_to_string(shared.hoist.state().join("kubeconfig")).expect("a kubeconfig");
    let access = Access::from_kubeconfig(&kubeconfig).expect("a kubeconfig");
    let told: BTreeSet<_> = list("Without credentials").into_iter().collect();
    block(async {
        let (admin, nobody) =
            (access.connect().expect("a client"), access.anonymous().connect().expect("a client"));
        let paths: BTreeSet<_> = everything(&admin).await.union(&told).cloned().collect();
        assert!(paths.len() > 100 && paths.contains("/api/v1/secrets"), "{paths:?}");
        let ask = |path: String| async {
            let (code, _) = nobody.get_path(&path).await.expect("the API server answers");
            (path, code)
        };
        let codes: Vec<_> = futures_util::stream::iter(paths).map(ask).buffer_unordered(16).collect().await;
        let answered: BTreeSet<_> =
            codes.iter().filter(|(_, code)| !matches!(code, 401 | 403)).cloned().collect();
        assert_eq!(answered, told.into_iter().map(|path| (path, 200)).collect());
    });
}

/// Asks a server without a certificate or token, from within a container's network; gives the code of its
/// answer, or why there is none.
fn ask(hoist: &Hoist, container: &str, url: &str) -> Result<u16, String> {
    let (server, path) = url.rsplit_once('/').expect("a path");
    let asked = || async {
        let mut config = kube::Config::new(server.parse().expect("a URL"));
        // Who it is doesn't matter, but what it lets others do.
        config.accept_invalid_certs = true;
        config.default_retry = false;
        let client = kube::Client::try_from(config).expect("a client");
        let request =
            http::Request::get(format!("/{path}")).body(kube::client::Body::empty()).expect("a request");
        let answer = client.send(request).await.map_err(|error| format!("{error:?}"))?;
        Ok(answer.status().as_u16())
    };
    // Sockets are made by the thread that is within.
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    within(&format!("hoist-{}-{container}", hoist.name), || runtime().block_on(asked()))
}

#[test]
fn the_other_components_tell_nobody_but_their_health() {
    let (shared, _calm) = calm();
    for (container, url, code) in [
        ("node01", "https://192.168.66.102:10250/pods", 401),
        ("node01", "https://192.168.66.102:10250/metrics", 401),
        ("node02", "https://127.0.0.1:10250/healthz", 401),
        ("owner", "https://127.0.0.1:10257/metrics", 403),
        ("owner", "https://127.0.0.1:10257/healthz", 200),
        ("owner", "https://127.0.0.1:10259/metrics", 403),
        ("owner", "https://127.0.0.1:10259/healthz", 200),
    ] {
        assert_eq!(ask(&shared.hoist, container, url), Ok(code), "{url}");
    }
    for url in ["https://127.0.0.1:2379/version", "https://127.0.0.1:2380/members"] {
        let answer = ask(&shared.hoist, "owner", url);
        assert!(
            answer.as_ref().is_err_and(|error| error.contains("CertificateRequired")),
            "{url}: {answer:?}"
        );
    }
}
