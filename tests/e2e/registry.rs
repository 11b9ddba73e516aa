//! Where images of nodes come from: a registry of the cluster's own, mirrors, proxies.

use bollard::query_parameters::{PushImageOptionsBuilder, TagImageOptionsBuilder};
use futures_util::TryStreamExt as _;
use serde_json::json;

use crate::support::{Hoist, block, containers, engine, exec, inspect, remove_image, things};

/// Anything small that goes on running.
const PAUSE: &str = "localhost/hoist/pause:v1.36.3";

/// Of a proxy, and meant for nobody's eyes.
const PASSWORD: &str = "n0t-for-logs";

/// What its containerd has in its environment.
fn containerd_of(machine: &str) -> String {
    let read = "tr '\\0' '\\n' </proc/$(systemctl show --value --property MainPID containerd)/environ";
    let output = exec(machine, &["/bin/sh", "-euc", read]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    output.stdout
}

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
    // A proxy that nobody is at: what goes there fails, and nothing of the cluster's own does.
    let proxy = format!("http://me:{PASSWORD}@192.0.2.1:3128");
    let config = hoist.config(&format!(
        "registry: {{enabled: true}}\nimages: {{mirrors: {{docker.io: ['http://registry:5000']}}}}\nproxy: {{http: '{proxy}', noProxy: [mirror.example]}}\n"
    ));
    let up = hoist.run(&["-vv", "up", "--config", &config]);
    assert!(up.code == Some(0) && !up.stderr.contains(PASSWORD), "{}", up.stderr);
    let machine = format!("hoist-{}-node01", hoist.name);
    let environment = containerd_of(&machine);
    assert!(environment.contains(&format!("HTTP_PROXY={proxy}\n")), "{environment}");
    let direct = "NO_PROXY=mirror.example,localhost,127.0.0.0/8,::1,.svc,.cluster.local,registry,192.168.66.0/24,\
                  10.244.0.0/16,10.96.0.0/12\n";
    assert!(environment.contains(direct), "{environment}");
    // Components have none of it, and nobody's labels or arguments have the password.
    for container in containers(&hoist.name) {
        let all = inspect(&container.name).to_string();
        assert!(
            !all.contains(PASSWORD) && !all.to_lowercase().contains("proxy="),
            "{}: {all}",
            container.name
        );
    }
    let units = exec(&machine, &["systemctl", "show", "containerd"]).stdout;
    assert!(units.contains("50-hoist-proxy.conf") && !units.contains(PASSWORD), "{units}");
    let hosting = hoist.get(&["configmap", "--namespace=kube-public", "local-registry-hosting"]);
    let hosting = hosting["data"]["localRegistryHosting.v1"].as_str().expect("KEP-1755's key");
    let pushed_to =
        hosting.lines().find_map(|line| line.strip_prefix("host: ")).expect("a host").trim_matches('"');
    let published = inspect(&format!("hoist-{}-owner", hoist.name));
    assert_eq!(published["NetworkSettings"]["Ports"]["5000/tcp"][0]["HostIp"], "127.0.0.1");

    crate::security::ports_are_as_told(&hoist, &["registry"]);
    push(&format!("{pushed_to}/e2e/pause"));
    let pods = json!({ "apiVersion": "v1", "kind": "List", "items": [
        pod("by-host", &format!("{pushed_to}/e2e/pause:1")),
        pod("by-name", "registry:5000/e2e/pause:1"),
        pod("by-mirror", "docker.io/e2e/pause:1"),
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
