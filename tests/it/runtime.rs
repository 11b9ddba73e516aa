//! The runtime adapter over a fake engine: what it asks for, and what it makes of the answers.

use hoist::runtime::connect::{AttemptError, ConnectError};
use hoist::runtime::{Endpoint, Engine, Look, Where};
use hoist_phases::ports::{
    ContainerPort, ContainerSpec, FileEntry, Mount, MountKind, Network, Runtime, RuntimeError, Status, label,
};
use serde_json::json;

use crate::fake_engine::{FakeEngine, volume};

fn mounted(target: &str, kind: MountKind) -> Mount {
    Mount { target: target.to_owned(), kind }
}

fn file(path: &str, mode: u32) -> FileEntry {
    FileEntry { path: path.to_owned(), mode, content: b"content".to_vec() }
}

fn spec(name: &str) -> ContainerSpec {
    let mut spec = ContainerSpec::new(name, "localhost/hoist/any:v1", Network::Own);
    spec.labels.insert(label::CLUSTER.to_owned(), "c".to_owned());
    spec
}

fn component() -> ContainerSpec {
    let mut spec = spec("hoist-c-etcd");
    spec.network = Network::Container("hoist-c-owner".to_owned());
    spec.args = vec!["etcd".to_owned(), "--name=c".to_owned()];
    spec.env.insert("GOMAXPROCS".to_owned(), "2".to_owned());
    spec.user = Some("65532:65532".to_owned());
    spec.capabilities = vec!["NET_BIND_SERVICE".to_owned()];
    spec.mounts = vec![
        mounted("/etc/hoist", MountKind::Anonymous),
        mounted("/data", MountKind::TmpfsVolume { name: "hoist-c-etcd".to_owned(), bytes: 1 << 30 }),
        mounted("/tmp", MountKind::Tmpfs { bytes: Some(1 << 20), exec: false }),
    ];
    spec.files = vec![file("/etc/hoist/pki/etcd/server.key", 0o600), file("/etc/hoist/conf", 0o644)];
    spec.memory_bytes = Some(3 << 30);
    spec.cpu_millis = Some(16_000);
    spec.nofile = Some(20_000);
    spec.restart = true;
    spec
}

fn node() -> ContainerSpec {
    let mut spec = spec("hoist-c-node01");
    spec.labels.insert(label::NODE.to_owned(), "node01".to_owned());
    spec.network = Network::None;
    spec.hostname = Some("node01".to_owned());
    spec.capabilities = vec!["SYS_ADMIN".to_owned(), "NET_ADMIN".to_owned()];
    spec.read_only_root = false;
    spec.unconfined = true;
    spec.mounts = vec![
        mounted("/var/lib/containerd", MountKind::Volume("hoist-c-node01-containerd".to_owned())),
        mounted("/run", MountKind::Tmpfs { bytes: None, exec: true }),
    ];
    spec.files = vec![file("/etc/kubernetes/x.yaml", 0o600)];
    spec.stop_signal = Some("SIGRTMIN+3".to_owned());
    spec
}

fn inspected(id: &str, state: serde_json::Value) -> serde_json::Value {
    json!({
        "Id": id, "Name": format!("/{id}"), "RestartCount": 2, "State": state,
        "HostConfig": {"NetworkMode": "container:id-of-owner"},
        "Config": {"Labels": {"dev.hoist.cluster": "c"}},
        "NetworkSettings": {"Ports": {"6443/tcp": [{"HostIp": "127.0.0.1", "HostPort": "49153"}], "53/udp": null}},
    })
}

async fn asked(fake: &FakeEngine, spec: &ContainerSpec) -> Vec<serde_json::Value> {
    let engine = fake.connect().await;
    assert_eq!(engine.create(spec).await.unwrap(), "id-of-new");
    let mut requests: Vec<_> = fake.requests().iter().map(crate::fake_engine::Request::value).collect();
    // What is asked side by side comes in any order.
    let uploads = requests.iter().position(|r| r.to_string().contains("containers/create")).unwrap();
    requests[..uploads].sort_by_key(ToString::to_string);
    requests
}

#[tokio::test]
async fn a_component_is_asked_for_like_this() {
    let fake = FakeEngine::start();
    fake.answer(
        "GET /containers/hoist-c-owner/json",
        200,
        inspected("id-of-owner", json!({"Status": "running"})),
    );
    insta::assert_json_snapshot!("engine_component", asked(&fake, &component()).await);
}

#[tokio::test]
async fn a_node_is_asked_for_like_this() {
    insta::assert_json_snapshot!("engine_node", asked(&FakeEngine::start(), &node()).await);
}

/// A durable volume of a user other than root: its root is handed over by a second container.
#[tokio::test]
async fn an_owner_is_asked_for_like_this() {
    let mut owner = spec("hoist-c-owner");
    owner.publish = vec![ContainerPort::on_loopback(6443)];
    owner.user = Some("65532:65532".to_owned());
    owner.sysctls.insert("net.ipv4.ip_forward".to_owned(), "1".to_owned());
    owner.mounts = vec![mounted("/data", MountKind::Volume("hoist-c-etcd".to_owned()))];
    insta::assert_json_snapshot!("engine_owner", asked(&FakeEngine::start(), &owner).await);
}

/// Neither kernels without swap accounting nor Podman get settings they refuse.
#[tokio::test]
async fn engines_are_not_asked_for_more_than_they_can() {
    let fake = FakeEngine::start();
    fake.answer("GET /info", 200, json!({"NCPU": 1, "SwapLimit": false}));
    fake.answer("GET /version", 200, json!({"ApiVersion": "1.41", "Version": "4.3.1", "Components": [{"Name": "Podman Engine", "Version": "4.3.1"}]}));
    fake.answer("GET /containers/id-of-new/json", 200, inspected("id-of-new", json!({})));
    let mut limited = spec("a");
    limited.memory_bytes = Some(1 << 20);
    limited.cpu_millis = Some(1500);
    let created = asked(&fake, &limited).await.pop().unwrap();
    let host = &created["POST /containers/create?name=a"]["HostConfig"];
    assert_eq!((&host["Memory"], &host["NanoCpus"]), (&json!(1 << 20), &json!(1_000_000_000)), "{created}");
    assert!(
        host.get("MemorySwap").is_none() && host["LogConfig"]["Config"].get("max-file").is_none(),
        "{host}"
    );
}

/// An engine that chooses limits by itself, and more than it can give, is given what it can; one that
/// loses rules for devices gets the device.
#[tokio::test]
async fn what_an_engine_can_not_do_is_found_out() {
    let fake = FakeEngine::start();
    fake.answer("GET /version", 200, json!({"ApiVersion": "1.41", "Version": "4.3.1", "Components": [{"Name": "Podman Engine", "Version": "4.3.1"}]}));
    fake.answer("GET /containers/id-of-new/json", 200, inspected("id-of-new", json!({})));
    // The engine's own choice alone: of those tried after it the first is the most.
    let refusal = json!({"message": "error setting rlimit type 7: operation not permitted"});
    fake.answer_next(1, "POST /containers/id-of-new/start", 500, refusal);
    let created = asked(&fake, &node()).await;
    let host = |request: &serde_json::Value| {
        request.as_object().and_then(|all| {
            all.iter()
                .find_map(|(line, body)| line.contains("/create?name=").then(|| body["HostConfig"].clone()))
        })
    };
    let host = created.iter().find_map(host).unwrap();
    assert_eq!(host["Ulimits"][0]["Hard"], 524_288, "{host}");
    assert_eq!(host["Devices"][0]["PathOnHost"], "/dev/kmsg", "{host}");
    let tried = created.iter().filter(|request| request.to_string().contains("/containers/create\"")).count();
    assert_eq!(tried, 7, "{created:?}");
}

/// A trial that fails tells nothing of what the engine grants: it isn't remembered.
#[tokio::test]
async fn a_trial_that_fails_is_tried_again() {
    let fake = FakeEngine::start();
    fake.answer("GET /version", 200, json!({"ApiVersion": "1.41", "Version": "4.3.1", "Components": [{"Name": "Podman Engine", "Version": "4.3.1"}]}));
    let trial = "POST /containers/create";
    let engine = fake.connect().await;
    fake.answer_next(1, trial, 500, json!({"message": "no space left on device"}));
    let error = engine.create(&spec("a")).await.unwrap_err();
    assert_eq!(error.to_string(), "try the engine's limits with localhost/hoist/any:v1");
    fake.answer_next(1, trial, 404, json!({"message": "No such image: localhost/hoist/any:v1"}));
    let error = engine.create(&spec("a")).await.unwrap_err();
    assert!(matches!(&error, RuntimeError::ImageMissing(_)), "{error:?}");
    fake.answer("GET /containers/id-of-new/json", 500, json!({"message": "oops"}));
    engine.create(&spec("a")).await.unwrap_err();
    fake.answer("GET /containers/id-of-new/json", 200, inspected("id-of-new", json!({})));
    fake.requests();
    engine.create(&spec("a")).await.unwrap();
    let tried = fake.lines().iter().filter(|line| line.as_str() == trial).count();
    assert_eq!(tried, 1, "the first that answered");
}

fn look() -> Look<'static> {
    Look {
        image: "localhost/hoist/any:v1",
        command: &["/probe"],
        of_image: true,
        into: Where::Host,
        capabilities: &[],
        devices: &[],
        deadline: std::time::Duration::from_secs(30),
    }
}

/// Two hoists, each the first process of a container, have one process id.
#[tokio::test]
async fn a_look_is_named_by_its_run_and_removed_by_its_id() {
    let fake = FakeEngine::start();
    let engine = fake.connect().await;
    let old = json!([{"Id": "id-of-new", "Created": 9_000}, {"Id": "left", "Created": 1}]);
    fake.answer("GET /containers/json", 200, old);
    let error = engine.look(&look()).await.unwrap_err();
    assert_eq!(error.to_string(), "look by a container of localhost/hoist/any:v1", "the fake can't attach");
    let lines = fake.lines();
    let named = format!("POST /containers/create?name=hoist-look-{}-", hoist::run::id());
    assert!(lines.iter().any(|line| line.starts_with(&named)), "{lines:?}");
    let removed = |id: &str| lines.iter().any(|line| line.starts_with(&format!("DELETE /containers/{id}?")));
    assert!(removed("id-of-new") && removed("left"), "{lines:?}");
    assert_eq!(lines.iter().filter(|line| line.starts_with("DELETE")).count(), 2, "{lines:?}");

    // Another's container has the name: it stays.
    fake.answer_next(1, "POST /containers/create", 409, json!({"message": "Conflict. The name is in use"}));
    engine.look(&look()).await.unwrap_err();
    assert!(!fake.lines().iter().any(|line| line.starts_with("DELETE")));
    // What is shared isn't there, the image is.
    fake.answer_next(1, "POST /containers/create", 404, json!({"message": "No such container: c"}));
    let error = engine.look(&look()).await.unwrap_err();
    assert!(matches!(error, RuntimeError::Failed { .. }), "{error:?}");
}

#[tokio::test]
async fn a_look_is_removed_when_its_caller_is_gone() {
    let fake = FakeEngine::start();
    let engine = fake.connect().await;
    fake.answer("GET /containers/json", 200, json!([]));
    let gate = fake.hold("POST /containers/id-of-new/attach");
    let caller = tokio::spawn(async move { engine.look(&look()).await });
    fake.was_asked("POST /containers/id-of-new/attach").await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    gate.notify_one();
    fake.was_asked("DELETE /containers/id-of-new").await;
}

#[tokio::test]
async fn a_look_ends_at_its_deadline() {
    let fake = FakeEngine::start();
    let engine = fake.connect().await;
    let _gate = fake.hold("POST /containers/create");
    let brief = Look { deadline: std::time::Duration::from_millis(50), ..look() };
    let error = engine.look(&brief).await.unwrap_err();
    assert!(std::error::Error::source(&error).unwrap().to_string().contains("has not ended"), "{error:?}");
    // Nobody else can have the name, and the engine may go on.
    fake.was_asked("DELETE /containers/hoist-look-").await;
}

#[tokio::test]
async fn the_engine_is_described_and_its_version_agreed_on() {
    let fake = FakeEngine::start();
    let networks = json!([
        {"Name": "bridge", "IPAM": {"Config": [{"Subnet": "172.17.0.0/16"}, {"Subnet": "fd00::/64"}]}},
        {"Name": "host", "IPAM": {"Config": null}},
    ]);
    fake.answer("GET /networks", 200, networks);
    let info = fake.connect().await.info().await.unwrap();
    assert_eq!(
        (info.product.as_str(), info.version.as_str(), info.api_version.as_str()),
        ("docker", "20.10.24", "1.41")
    );
    assert_eq!((info.cpus, info.memory_bytes), (4, 8 << 30));
    let bridge = |net: &str| ("bridge".to_owned(), net.parse().unwrap());
    assert_eq!(info.networks, [bridge("172.17.0.0/16"), bridge("fd00::/64")]);

    // A newer engine is spoken to in the version the client knows.
    fake.answer("GET /version", 200, json!({"ApiVersion": "1.99"}));
    let newer = fake.connect().await.info().await.unwrap();
    assert!(newer.api_version.starts_with("1.") && newer.api_version != "1.99", "{}", newer.api_version);
}

#[tokio::test]
async fn refusals_name_operation_and_object() {
    let fake = FakeEngine::start();
    let engine = fake.connect().await;
    let message = |text: &str| json!({"message": text});
    let create = |status, text: &str| fake.answer("POST /containers/create", status, message(text));

    create(404, "No such image: localhost/hoist/any:v1");
    let error = engine.create(&spec("a")).await.unwrap_err();
    assert!(
        matches!(&error, RuntimeError::ImageMissing(image) if image == "localhost/hoist/any:v1"),
        "{error:?}"
    );

    for (status, text) in
        [(409, "Conflict. The name is in use"), (500, "oops"), (400, "bad"), (404, "no such volume")]
    {
        create(status, text);
        let error = engine.create(&spec("a")).await.unwrap_err();
        assert_eq!(error.to_string(), "create container a");
        let source = std::error::Error::source(&error).unwrap().to_string();
        assert!(source.contains(text), "{source}");
    }
    fake.answer("GET /containers/", 500, message("oops"));
    assert_eq!(engine.inspect("a").await.unwrap_err().to_string(), "inspect container a");
    fake.answer("GET /containers/", 404, message("No such container: a"));
    assert_eq!(engine.inspect("a").await.unwrap(), None);
}

#[tokio::test]
async fn half_made_containers_are_taken_back() {
    let fake = FakeEngine::start();
    let engine = fake.connect().await;
    fake.answer("PUT /containers/", 500, json!({"message": "no space left on device"}));
    let mut wanted = spec("a");
    wanted.mounts = vec![mounted("/etc/hoist", MountKind::Anonymous)];
    wanted.files = vec![file("/etc/hoist/f", 0o600)];
    let error = engine.create(&wanted).await.unwrap_err();
    assert_eq!(error.to_string(), "upload files to a");
    let lines = fake.lines();
    assert_eq!(
        lines.last().map(String::as_str),
        Some("DELETE /containers/id-of-new?v=true&force=true&link=false"),
        "{lines:?}"
    );
}

#[tokio::test]
async fn volumes_of_others_are_left_alone() {
    let fake = FakeEngine::start();
    let engine = fake.connect().await;
    let mut wanted = spec("a");
    wanted.mounts = vec![mounted("/data", MountKind::Volume("theirs".to_owned()))];
    for labels in [json!(null), json!({"dev.hoist.cluster": "other"})] {
        fake.answer("GET /volumes/theirs", 200, volume("theirs", labels));
        assert_eq!(engine.create(&wanted).await.unwrap_err().to_string(), "create volume theirs");
        assert_eq!(fake.lines(), ["GET /volumes/theirs"], "nothing is made");
    }
    fake.answer("GET /volumes/theirs", 200, volume("theirs", json!({"dev.hoist.cluster": "c"})));
    engine.create(&wanted).await.unwrap();
    assert_eq!(fake.lines(), ["GET /volumes/theirs", "POST /containers/create?name=a"]);
}

#[tokio::test]
async fn a_removal_under_way_is_waited_for() {
    let fake = FakeEngine::start();
    let engine = fake.connect().await;
    fake.answer(
        "DELETE /containers/a",
        409,
        json!({"message": "removal of container a is already in progress"}),
    );
    fake.answer("GET /containers/a/json", 404, json!({"message": "No such container: a"}));
    fake.answer_next(2, "GET /containers/a/json", 200, inspected("a", json!({"Status": "removing"})));
    engine.remove("a").await.unwrap();
    assert_eq!(fake.lines().len(), 4);
    fake.answer("DELETE /containers/a", 409, json!({"message": "You cannot remove a paused container"}));
    assert_eq!(engine.remove("a").await.unwrap_err().to_string(), "remove container a");
    fake.answer("DELETE /containers/a", 404, json!({"message": "No such container: a"}));
    engine.remove("a").await.unwrap();
    fake.answer("DELETE /volumes/v", 409, json!({"message": "volume is in use"}));
    assert_eq!(engine.remove_volume("v").await.unwrap_err().to_string(), "remove volume v");
}

/// An interrupted `up` looks for what it leaves when the engine is through, not before.
#[tokio::test]
async fn a_stop_goes_on_when_its_caller_is_gone() {
    const STOP: &str = "POST /containers/a/stop";
    let fake = FakeEngine::start();
    let engine = fake.connect().await;
    fake.answer(STOP, 204, serde_json::Value::Null);
    fake.answer("GET /containers/json", 200, json!([]));
    let gate = fake.hold(STOP);
    let stop = tokio::spawn({
        let engine = engine.clone();
        async move { engine.stop("a", 10).await }
    });
    fake.was_asked(STOP).await;
    stop.abort();
    assert!(stop.await.unwrap_err().is_cancelled());
    let mut listing = std::pin::pin!(engine.list(Some("c")));
    let early = tokio::time::timeout(std::time::Duration::from_millis(100), &mut listing).await;
    assert!(early.is_err(), "the stop is still under way");
    gate.notify_one();
    assert_eq!(listing.await.unwrap(), []);
}

#[tokio::test]
async fn states_are_read() {
    let fake = FakeEngine::start();
    let engine = fake.connect().await;
    let states = [
        (json!({"Status": "created", "StartedAt": "0001-01-01T00:00:00Z"}), Status::Created),
        (json!({"Status": "running", "StartedAt": "2026-01-02T03:04:05.6Z"}), Status::Running),
        (json!({"Status": "restarting", "ExitCode": 2}), Status::Restarting { code: 2 }),
        (json!({"Status": "paused"}), Status::Paused),
        (
            json!({"Status": "exited", "ExitCode": 137, "OOMKilled": true}),
            Status::Exited { code: 137, oom_killed: true },
        ),
        (json!({"Status": "dead", "ExitCode": 1}), Status::Exited { code: 1, oom_killed: false }),
    ];
    for (state, expected) in states {
        let started = state["StartedAt"].as_str().filter(|at| at.starts_with("2026")).unwrap_or_default();
        fake.answer("GET /containers/a/json", 200, inspected("a", state.clone()));
        let seen = engine.inspect("a").await.unwrap().unwrap();
        assert_eq!((seen.status, seen.started_at.as_str(), seen.restarts), (expected, started, 2));
        assert_eq!((seen.name.as_str(), seen.network_of.as_deref()), ("a", Some("id-of-owner")));
        assert_eq!(
            seen.published.iter().map(|p| p.host.to_string()).collect::<Vec<_>>(),
            ["127.0.0.1:49153"]
        );
    }
    // One of two goes while they are listed.
    fake.answer("GET /containers/json", 200, json!([{"Id": "a"}, {"Id": "b"}]));
    fake.answer("GET /containers/b/json", 404, json!({"message": "No such container: b"}));
    assert_eq!(engine.list(Some("c")).await.unwrap().len(), 1);
    fake.answer("POST /containers/a/wait", 200, json!({"StatusCode": 3, "Error": null}));
    assert_eq!(engine.wait("a").await.unwrap(), 3);
}

#[tokio::test]
async fn no_engine_is_told_with_all_that_was_tried() {
    let mut fake = FakeEngine::start();
    let engine = fake.connect().await;
    fake.die().await;
    let gone = engine.inspect("a").await.unwrap_err();
    assert!(matches!(gone, RuntimeError::Unreachable { .. }), "{gone:?}");

    let stale = Endpoint::Unix(fake.socket());
    let none = Endpoint::Unix(fake.directory().join("none.sock"));
    let error = Engine::connect_any(vec![none.clone(), stale.clone()]).await.unwrap_err();
    let text = error.to_string();
    assert!(
        matches!(&error, ConnectError::Unreachable { tried } if matches!(tried[0].error, AttemptError::Missing))
    );
    assert!(
        text.contains(&format!("{none} (no such socket)")) && text.contains(&stale.to_string()),
        "{text}"
    );
    assert!(text.contains("refused"), "{text}");
    assert!(error.hint().contains("DOCKER_HOST"));
}
