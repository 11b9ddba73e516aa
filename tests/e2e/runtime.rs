//! The runtime adapter over the engine of this machine.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{FutureExt, StreamExt};
use hoist::runtime::Engine;
use hoist_phases::ports::{
    ContainerPort, ContainerSpec, Mount, MountKind, Network, Runtime, RuntimeError, Status, label,
};

/// Debian with a shell; `hoist images build` makes it.
pub(crate) const IMAGE: &str = "localhost/hoist/network:v1.36.3";

/// Runs `test` with an engine and the name of a cluster of its own, of which nothing is left
/// afterwards, whatever came of the test.
pub(crate) async fn with_cluster<F>(name: &str, test: impl FnOnce(Arc<Engine>, String) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    let engine = Arc::new(Engine::connect().await.expect("a container engine"));
    let cluster = format!("hoist-e2e-{name}-{}", std::process::id());
    let outcome = tokio::spawn(test(Arc::clone(&engine), cluster.clone())).await;
    // Sharers first: Podman keeps an owner as long as it has any.
    let mut containers = engine.list(Some(&cluster)).await.unwrap();
    containers.sort_by_key(|container| container.network_of.is_none());
    for container in containers {
        engine.remove(&container.id).await.unwrap();
    }
    for volume in engine.volumes(&cluster).await.unwrap() {
        engine.remove_volume(&volume).await.unwrap();
    }
    if let Err(failed) = outcome {
        std::panic::resume_unwind(failed.into_panic());
    }
}

/// A container that runs a shell script.
pub(crate) fn shell(cluster: &str, name: &str, script: &str) -> ContainerSpec {
    let mut spec = ContainerSpec::new(format!("{cluster}-{name}"), IMAGE, Network::None);
    spec.entrypoint = vec!["/bin/sh".to_owned(), "-c".to_owned(), script.to_owned()];
    spec.labels.insert(label::CLUSTER.to_owned(), cluster.to_owned());
    spec.memory_bytes = Some(64 << 20);
    spec
}

pub(crate) fn idle(cluster: &str, name: &str) -> ContainerSpec {
    // The trap lets it end at once on SIGTERM, which PID 1 ignores otherwise.
    shell(cluster, name, "trap exit TERM; while :; do sleep 0.1; done")
}

pub(crate) fn mounted(target: &str, kind: MountKind) -> Mount {
    Mount { target: target.to_owned(), kind }
}

/// Starts a container, waits for its end, and gives its exit code and what it wrote.
pub(crate) async fn run(engine: &Engine, spec: &ContainerSpec) -> (i64, String) {
    engine.create(spec).await.unwrap();
    engine.start(&spec.name).await.unwrap();
    let code = engine.wait(&spec.name).await.unwrap();
    (code, engine.logs(&spec.name, 1000).await.unwrap())
}

async fn sh(engine: &Engine, spec: &ContainerSpec, script: &str) -> String {
    let output = engine.exec(&spec.name, &["/bin/sh", "-c", script], b"").await.unwrap();
    assert_eq!(output.code, 0, "{script}: {}", output.stderr);
    output.stdout
}

#[tokio::test]
async fn a_container_is_as_tight_as_its_spec() {
    with_cluster("tight", |engine, cluster| async move {
        let script = "cat /proc/self/status; env; touch /x && echo writable; ls -d /mnt";
        let mut spec = shell(&cluster, "a", script);
        spec.user = Some("65532:65532".to_owned());
        spec.env.insert("GIVEN".to_owned(), "yes".to_owned());
        let (_, text) = run(&engine, &spec).await;
        let status = |key: &str| {
            let line = text.lines().find(|line| line.starts_with(key)).unwrap_or_default();
            line.rsplit('\t').next().unwrap_or_default().to_owned()
        };
        assert_eq!([status("CapEff"), status("CapBnd")], ["0000000000000000", "0000000000000000"]);
        assert_eq!([status("NoNewPrivs"), status("Seccomp")], ["1", "2"]);
        assert!(text.contains("GIVEN=yes") && !text.contains("writable"), "{text}");
        // No proxy variable reaches a component (kubeadm#687).
        assert!(!text.to_lowercase().contains("proxy"), "{text}");

        let mut spec = shell(&cluster, "b", "grep CapEff /proc/self/status");
        spec.capabilities = vec!["NET_ADMIN".to_owned(), "NET_BIND_SERVICE".to_owned()];
        assert_eq!(run(&engine, &spec).await.1.trim(), format!("CapEff:\t{:016x}", 1 << 12 | 1 << 10));
    })
    .await;
}

#[tokio::test]
async fn a_node_sees_unmasked_proc_and_its_own_cgroups() {
    with_cluster("unconfined", |engine, cluster| async move {
        let script = "grep Seccomp: /proc/self/status; grep -c ' /proc/' /proc/mounts; cat /proc/self/cgroup";
        let mut spec = shell(&cluster, "a", script);
        spec.unconfined = true;
        spec.read_only_root = false;
        spec.mounts = vec![mounted("/run", MountKind::Tmpfs { bytes: Some(1 << 20), exec: true })];
        let (code, text) = run(&engine, &spec).await;
        let mut lines = text.lines();
        assert_eq!((code, lines.next(), lines.next()), (0, Some("Seccomp:\t0"), Some("0")), "{text}");
        assert!(lines.all(|line| line.ends_with(":/")), "{text}");
    })
    .await;
}

#[tokio::test]
async fn limits_hold() {
    with_cluster("limits", |engine, cluster| async move {
        let mut spec = idle(&cluster, "a");
        spec.cpu_millis = Some(4_000_000);
        spec.nofile = Some(1024);
        engine.create(&spec).await.unwrap();
        engine.start(&spec.name).await.unwrap();
        let files = "/sys/fs/cgroup/memory/memory.limit_in_bytes /sys/fs/cgroup/memory.max";
        let limit = sh(&engine, &spec, &format!("cat {files} 2>/dev/null || true")).await;
        assert_eq!(limit.trim(), (64 << 20).to_string());
        assert_eq!(sh(&engine, &spec, "ulimit -n; ulimit -Hn").await, "1024\n1024\n");
        let stats = engine.stats(&spec.name).await.unwrap();
        assert_eq!(stats.memory_limit_bytes, 64 << 20);
        assert!((1..64 << 20).contains(&stats.memory_bytes) && stats.pids >= 1, "{stats:?}");

        let mut hungry = shell(&cluster, "b", "tail /dev/zero");
        hungry.memory_bytes = Some(16 << 20);
        engine.create(&hungry).await.unwrap();
        // On a busy machine the engine may hear of the end before it hears of the reason.
        let mut seen = Vec::new();
        while seen.len() < 5 && !seen.contains(&Status::Exited { code: 137, oom_killed: true }) {
            engine.start(&hungry.name).await.unwrap();
            assert_eq!(engine.wait(&hungry.name).await.unwrap(), 137);
            seen.push(engine.inspect(&hungry.name).await.unwrap().unwrap().status);
        }
        assert_eq!(seen.last(), Some(&Status::Exited { code: 137, oom_killed: true }), "{seen:?}");
    })
    .await;
}

#[tokio::test]
async fn ports_are_the_engines_choice_and_on_loopback() {
    with_cluster("ports", |engine, cluster| async move {
        let mut seen = Vec::new();
        for name in ["a", "b"] {
            let mut spec = idle(&cluster, name);
            spec.network = Network::Own;
            spec.publish = vec![ContainerPort::on_loopback(6443)];
            engine.create(&spec).await.unwrap();
            engine.start(&spec.name).await.unwrap();
            let state = engine.inspect(&spec.name).await.unwrap().unwrap();
            assert_eq!(state.published.iter().map(|p| p.container).collect::<Vec<_>>(), [6443]);
            seen.push(state.published[0].host);
        }
        assert!(seen.iter().all(|host| host.ip().is_loopback() && host.port() > 0), "{seen:?}");
        assert_ne!(seen[0], seen[1]);
    })
    .await;
}

#[tokio::test]
async fn namespaces_are_shared() {
    with_cluster("shared", |engine, cluster| async move {
        let owner = idle(&cluster, "owner");
        let id = engine.create(&owner).await.unwrap();
        engine.start(&owner.name).await.unwrap();
        let mut sharer = idle(&cluster, "sharer");
        sharer.network = Network::Container(owner.name.clone());
        sharer.pid_of = Some(owner.name.clone());
        engine.create(&sharer).await.unwrap();
        engine.start(&sharer.name).await.unwrap();
        let namespaces = "readlink /proc/self/ns/net /proc/self/ns/pid";
        assert_eq!(sh(&engine, &owner, namespaces).await, sh(&engine, &sharer, namespaces).await);
        let state = engine.inspect(&sharer.name).await.unwrap().unwrap();
        assert_eq!((state.network_of, state.status), (Some(id), Status::Running));

        let mut orphan = idle(&cluster, "orphan");
        orphan.network = Network::Container(format!("{cluster}-nobody"));
        let error = engine.create(&orphan).await.unwrap_err();
        assert!(matches!(&error, RuntimeError::Failed { object, .. } if *object == orphan.name), "{error:?}");
    })
    .await;
}

#[tokio::test]
async fn exec_feeds_and_hears_both_streams() {
    with_cluster("exec", |engine, cluster| async move {
        let spec = idle(&cluster, "a");
        engine.create(&spec).await.unwrap();
        engine.start(&spec.name).await.unwrap();

        let script = "wc -c; echo out; echo err >&2; exit 7";
        let input = vec![b'x'; 3 << 20];
        let output = engine.exec(&spec.name, &["/bin/sh", "-c", script], &input).await.unwrap();
        assert_eq!((output.code, output.stderr.as_str()), (7, "err\n"));
        assert_eq!(output.stdout, format!("{}\nout\n", input.len()));

        // Reading and writing at once, more than any buffer in between holds.
        let echoed = engine.exec(&spec.name, &["cat"], &input).await.unwrap();
        assert_eq!((echoed.code, echoed.stdout.len()), (0, input.len()));

        // Never reads its input.
        assert_eq!(engine.exec(&spec.name, &["false"], &input).await.unwrap().code, 1);
        assert!(matches!(
            engine.exec(&spec.name, &["/none"], b"").await.map(|o| o.code),
            Ok(126 | 127) | Err(_)
        ));
    })
    .await;
}

#[tokio::test]
async fn logs_keep_order_and_can_be_followed() {
    with_cluster("logs", |engine, cluster| async move {
        let script = "for i in 1 2 3 4; do echo $i; sleep 0.2; echo e$i >&2; sleep 0.2; done; exit 5";
        let spec = shell(&cluster, "a", script);
        engine.create(&spec).await.unwrap();
        engine.start(&spec.name).await.unwrap();
        let followed: Vec<_> = engine.log_lines(&spec.name, None, true).collect().await;
        let followed: String = followed.into_iter().map(|line| line.unwrap().text).collect();
        assert_eq!(followed, "1\ne1\n2\ne2\n3\ne3\n4\ne4\n");
        assert_eq!(engine.logs(&spec.name, 3).await.unwrap(), "e3\n4\ne4\n");
        assert_eq!(engine.wait(&spec.name).await.unwrap(), 5);
    })
    .await;
}

#[tokio::test]
async fn a_crash_mends_itself() {
    with_cluster("restart", |engine, cluster| async move {
        let mut spec = shell(&cluster, "a", "echo up; sleep 0.2; exit 3");
        spec.restart = true;
        engine.create(&spec).await.unwrap();
        engine.start(&spec.name).await.unwrap();
        let restarted = async {
            while engine.inspect(&spec.name).await.unwrap().unwrap().restarts == 0 {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), restarted).await.expect("a restart");
    })
    .await;
}

#[tokio::test]
async fn what_is_gone_or_there_already_is_no_surprise() {
    with_cluster("idempotent", |engine, cluster| async move {
        let spec = idle(&cluster, "a");
        engine.create(&spec).await.unwrap();
        let again = engine.create(&spec).await.unwrap_err();
        assert!(matches!(&again, RuntimeError::Failed { object, .. } if *object == spec.name), "{again:?}");
        assert_eq!(engine.inspect(&spec.name).await.unwrap().unwrap().status, Status::Created);
        engine.start(&spec.name).await.unwrap();
        engine.start(&spec.name).await.unwrap();
        engine.stop(&spec.name, 5).await.unwrap();
        engine.stop(&spec.name, 5).await.unwrap();

        let removals = (0..4).map(|_| engine.remove(&spec.name).boxed());
        let removed = futures_util::future::join_all(removals).await;
        assert!(removed.iter().all(Result::is_ok), "{removed:?}");
        assert_eq!(engine.inspect(&spec.name).await.unwrap(), None);
        engine.stop(&spec.name, 5).await.unwrap();
        engine.remove_volume(&format!("{cluster}-none")).await.unwrap();

        let mut imageless = idle(&cluster, "b");
        imageless.image = "localhost/hoist/none:v0".to_owned();
        let missing = engine.create(&imageless).await;
        assert!(matches!(missing, Err(RuntimeError::ImageMissing(image)) if image == imageless.image));
        let images = [IMAGE.to_owned(), imageless.image.clone()];
        assert_eq!(engine.missing_images(&images).await.unwrap(), [imageless.image]);
    })
    .await;
}
