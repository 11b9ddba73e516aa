//! Where images of nodes come from: a registry of the cluster's own, mirrors, proxies.

use bollard::query_parameters::{PushImageOptionsBuilder, TagImageOptionsBuilder};
use futures_util::TryStreamExt as _;
use serde_json::json;

use crate::support::{Hoist, block, engine, inspect, remove_image, things};

/// Anything small that goes on running.
const PAUSE: &str = "localhost/hoist/pause:v1.36.3";

/// Pushes the image as somebody at the engine's host would, and forgets its name there.
fn push(repository: &str) {
    let docker = engine().docker();
    let options = TagImageOptionsBuilder::new().repo(repository).tag("1").build();
    block(docker.tag_image(PAUSE, Some(options))).expect("the image can be named");
    let options = PushImageOptionsBuilder::new().tag("1").build();
    let pushed: Result<Vec<_>, _> = block(docker.push_image(repository, Some(options), None).try_collect());
    remove_image(&format!("{repository}:1"));
    pushed.unwrap_or_else(|error| panic!("push of {repository}: {error}"));
}

fn pod(name: &str, image: &str) -> serde_json::Value {
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name },
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [{ "name": "main", "image": image, "imagePullPolicy": "Always" }],
        },
    })
}

#[test]
fn nodes_pull_what_was_pushed_to_the_host_and_down_leaves_nothing() {
    let hoist = Hoist::new("registry");
    hoist.ok(&["up", "--registry"]);
    let hosting = hoist.get(&["configmap", "--namespace=kube-public", "local-registry-hosting"]);
    let hosting = hosting["data"]["localRegistryHosting.v1"].as_str().expect("KEP-1755's key");
    let pushed_to =
        hosting.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host").trim_matches('"');
    let published = inspect(&format!("hoist-{}-owner", hoist.name));
    assert_eq!(published["NetworkSettings"]["Ports"]["5000/tcp"][0]["HostIp"], "127.0.0.1");

    push(&format!("{pushed_to}/e2e/pause"));
    let pods = json!({ "apiVersion": "v1", "kind": "List", "items": [
        pod("by-host", &format!("{pushed_to}/e2e/pause:1")),
        pod("by-name", "registry:5000/e2e/pause:1"),
    ] });
    hoist.apply(&pods.to_string());
    hoist.kubectl(&["wait", "--for=condition=Ready", "pod", "--all", "--timeout=120s"]);

    // Another run changes nothing; what was pushed outlives the registry's container.
    let again = hoist.run(&["up", "--progress", "plain"]);
    assert!(again.code == Some(0) && again.stderr.contains("was up already"), "{}", again.stderr);
    let registry = format!("hoist-{}-registry", hoist.name);
    block(engine().docker().remove_container(&registry, Some(force()))).expect("it ran");
    hoist.ok(&["up"]);
    hoist.apply(&pod("afterwards", "registry:5000/e2e/pause:1").to_string());
    hoist.kubectl(&["wait", "--for=condition=Ready", "pod/afterwards", "--timeout=120s"]);

    hoist.ok(&["down"]);
    assert_eq!(things(&hoist.name), Vec::<String>::new());
}

fn force() -> bollard::query_parameters::RemoveContainerOptions {
    bollard::query_parameters::RemoveContainerOptionsBuilder::new().force(true).build()
}
