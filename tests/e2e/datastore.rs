//! Where the API's objects are kept: etcd killed, saved and put back; kine in its place; an etcd that
//! is there already.

use std::net::IpAddr;
use std::time::Duration;

use hoist_phases::phases::network::NONROOT;
use hoist_phases::pki::{CertId, PkiInputs, San, reconcile};
use hoist_phases::ports::{ContainerSpec, FileEntry, Files, Mount, MountKind, Network, Runtime as _, Status};
use time::OffsetDateTime;

use crate::support::{Hoist, Writer, block, engine, exec, inspect, kill, state, tell, until};

const ETCD: &str = "localhost/hoist/etcd:v1.36.3";
const PAUSE: &str = "localhost/hoist/pause:v1.36.3";
const SOON: Duration = Duration::from_secs(60);

/// A pod on node01 from an image that each node has.
fn pod(hoist: &Hoist, name: &str) {
    hoist.apply(&format!(
        "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}}}, spec: {{containers: [{{name: a, image: '{PAUSE}', \
         imagePullPolicy: Never}}]}}}}"
    ));
    hoist.kubectl(&["wait", "--for=condition=Ready", &format!("pod/{name}"), "--timeout=90s"]);
}

fn exists(hoist: &Hoist, object: &[&str]) -> bool {
    let done = hoist.try_kubectl(&[&["get", "--ignore-not-found", "-o", "name"], object].concat());
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    !done.stdout.trim().is_empty()
}

/// The last time that the kubelet of node01 has told it lives; nothing while it has no lease, which may be
/// younger than what was put back.
fn heartbeat(hoist: &Hoist) -> String {
    let lease = ["lease", "-n", "kube-node-lease", "node01", "--ignore-not-found"];
    hoist.kubectl(&[&["get"], &lease[..], &["-o", "jsonpath={.spec.renewTime}"]].concat())
}

/// Issue: a throw-away etcd keeps its data in memory; that isn't the memory of its process.
#[test]
fn etcd_comes_back_from_a_kill_and_from_a_snapshot() {
    let hoist = Hoist::new("snapshot");
    hoist.ok(&["up", "--nodes=1"]);

    let writer = Writer::start(&hoist);
    writer.writes(100);
    let etcd = format!("hoist-{}-etcd", hoist.name);
    let before = state(&etcd).expect("it is there").started_at;
    kill(&etcd);
    block(engine().start(&etcd)).expect("etcd starts again");
    assert_ne!(state(&etcd).expect("it is there").started_at, before);
    writer.writes(100);
    let count = writer.nothing_is_lost(&hoist);
    tell(&format!("etcd killed: {count} acknowledged writes, none lost"));

    pod(&hoist, "kept");
    hoist.kubectl(&["create", "configmap", "kept", "--from-literal=a=b"]);
    let file = hoist.home().join("saved.db");
    let path = file.to_str().expect("a path in UTF-8");
    hoist.ok(&["snapshot", "save", path]);
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&file).expect("a file"));
    assert_eq!(mode & 0o777, 0o600);

    hoist.kubectl(&["delete", "configmap", "kept"]);
    hoist.kubectl(&["delete", "pod", "kept", "--grace-period=1"]);
    hoist.kubectl(&["create", "configmap", "later"]);
    pod(&hoist, "later");

    // What is no snapshot stops nothing.
    let api = format!("hoist-{}-kube-apiserver", hoist.name);
    let started = state(&api).expect("it is there").started_at;
    let content = std::fs::read(&file).expect("the file");
    let damaged = hoist.home().join("damaged.db");
    std::fs::write(&damaged, &content[..content.len() / 2]).expect("the directory is writable");
    let refused = hoist.run(&["snapshot", "restore", damaged.to_str().expect("UTF-8")]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(
        refused.stderr.contains("damaged.db") && refused.stderr.contains("cut short"),
        "{}",
        refused.stderr
    );
    assert_eq!(state(&api).expect("it is there").started_at, started);

    let told = hoist.run(&["snapshot", "restore", path]);
    assert_eq!(told.code, Some(0), "{}", told.stderr);
    tell(told.stderr.trim());
    assert!(exists(&hoist, &["configmap", "kept"]) && exists(&hoist, &["pod", "kept"]));
    assert!(!exists(&hoist, &["configmap", "later"]));
    // Its kubelet is told of each change, as it would not be with a place in the future.
    let last = heartbeat(&hoist);
    until("the kubelet renews its lease", SOON, || {
        let now = heartbeat(&hoist);
        if now > last { Ok(()) } else { Err(now) }
    });
    pod(&hoist, "after");
    hoist.kubectl(&["delete", "pod", "after", "--grace-period=1", "--timeout=60s"]);
    until("the pod that was deleted runs again", SOON, || {
        let node = format!("hoist-{}-node01", hoist.name);
        let pods = exec(&node, &["crictl", "pods", "--state=ready", "--namespace=default"]);
        let there =
            |name: &str| pods.stdout.lines().any(|line| line.split_whitespace().any(|word| word == name));
        if there("kept") && !there("later") { Ok(()) } else { Err(pods.stdout) }
    });
    let status: serde_json::Value = serde_json::from_str(&hoist.ok(&["status", "-o", "json"])).expect("JSON");
    assert_eq!(status["overall"], "running", "{status}");
    hoist.ok(&["up"]);
}

/// An etcd that a test runs, in a network namespace of its own.
struct TheirEtcd {
    names: [String; 2],
    address: IpAddr,
    files: Files,
}

impl TheirEtcd {
    fn start(name: &str) -> Self {
        // The certificate needs the address, which is known once something runs there.
        let holder = ContainerSpec::new(format!("{name}-net"), PAUSE, Network::Own);
        block(engine().create(&holder)).expect("the container can be made");
        block(engine().start(&holder.name)).expect("it starts");
        let networks = inspect(&holder.name)["NetworkSettings"]["Networks"].clone();
        let networks = networks.as_object().expect("networks");
        let address = networks.values().find_map(|network| network["IPAddress"].as_str()?.parse().ok());
        let address: IpAddr = address.expect("an address");
        let inputs = PkiInputs {
            host_name: name.to_owned(),
            api_server: [San::Ip(address)].into(),
            etcd: [San::Ip(address)].into(),
            konnectivity: [San::Ip(address)].into(),
        };
        let made = reconcile(&Files::new(), &inputs, OffsetDateTime::now_utc()).expect("certificates");
        let files: Files = made.write.into_iter().collect();

        let mut etcd =
            ContainerSpec::new(format!("{name}-etcd"), ETCD, Network::Container(holder.name.clone()));
        etcd.user = Some(NONROOT.to_owned());
        etcd.mounts = ["/data", "/keys"]
            .map(|target| Mount { target: target.to_owned(), kind: MountKind::Anonymous })
            .to_vec();
        for (id, path) in [
            (CertId::EtcdCa.cert_path(), "/keys/ca.crt"),
            (CertId::EtcdServer.cert_path(), "/keys/tls.crt"),
            (CertId::EtcdServer.key_path(), "/keys/tls.key"),
        ] {
            etcd.files.push(FileEntry { path: path.to_owned(), mode: 0o600, content: files[&id].clone() });
        }
        etcd.args = [
            "--data-dir=/data/etcd",
            "--unsafe-no-fsync",
            &format!("--listen-client-urls=https://{address}:2379"),
            &format!("--advertise-client-urls=https://{address}:2379"),
            "--trusted-ca-file=/keys/ca.crt",
            "--client-cert-auth",
            "--cert-file=/keys/tls.crt",
            "--key-file=/keys/tls.key",
        ]
        .map(str::to_owned)
        .to_vec();
        block(engine().create(&etcd)).expect("etcd can be made");
        block(engine().start(&etcd.name)).expect("etcd starts");
        let etcd = Self { names: [etcd.name, holder.name], address, files };
        until("etcd answers", SOON, || {
            let running = state(&etcd.names[0]).is_some_and(|state| state.status == Status::Running);
            assert!(running, "{}", block(engine().logs(&etcd.names[0], 20)).expect("a log"));
            let done = etcd.ctl(&["endpoint", "health"]);
            if done.code == 0 { Ok(()) } else { Err(done.stderr) }
        });
        etcd
    }

    fn ctl(&self, args: &[&str]) -> hoist_phases::ports::ExecOutput {
        let endpoint = format!("--endpoints=https://{}:2379", self.address);
        let base =
            ["etcdctl", &endpoint, "--cacert=/keys/ca.crt", "--cert=/keys/tls.crt", "--key=/keys/tls.key"];
        exec(&self.names[0], &[&base, args].concat())
    }

    /// Keys of a cluster.
    fn keys(&self, prefix: &str) -> usize {
        let found = self.ctl(&["get", prefix, "--prefix", "--keys-only"]);
        assert_eq!(found.code, 0, "{}", found.stderr);
        found.stdout.lines().filter(|line| line.starts_with(prefix)).count()
    }

    /// The fields of a configuration that names it, with a CA that is the right one or not.
    fn config(&self, hoist: &Hoist, ca: &CertId) -> String {
        let client = CertId::ApiServerEtcdClient;
        for (id, name) in
            [(ca.cert_path(), "ca.crt"), (client.cert_path(), "tls.crt"), (client.key_path(), "tls.key")]
        {
            std::fs::write(hoist.home().join(name), &self.files[&id]).expect("the directory is writable");
        }
        hoist.config(&format!(
            "nodes: []\nwait: join\netcd: {{external: {{endpoints: ['https://{}:2379'], ca: ca.crt, cert: tls.crt, key: tls.key}}}}\n",
            self.address
        ))
    }
}

impl Drop for TheirEtcd {
    fn drop(&mut self) {
        for name in &self.names {
            block(engine().remove(name)).expect("the container can be removed");
        }
    }
}

#[test]
fn two_clusters_share_an_etcd_that_is_not_theirs() {
    let (one, two) = (Hoist::new("shared-a"), Hoist::new("shared-b"));
    let etcd = TheirEtcd::start(&one.name);

    let done = one.run(&["up", "--config", &etcd.config(&one, &CertId::Ca)]);
    assert_eq!(done.code, Some(5), "{}", done.stderr);
    let endpoint = format!("https://{}:2379", etcd.address);
    assert!(done.stderr.contains(&endpoint) && done.stderr.contains("unknown authority"), "{}", done.stderr);

    for hoist in [&one, &two] {
        hoist.ok(&["up", "--config", &etcd.config(hoist, &CertId::EtcdCa)]);
        let prefix = format!("/hoist/{}/", hoist.name);
        assert!(etcd.keys(&prefix) > 50, "{}", etcd.keys(&prefix));
        assert!(state(&format!("hoist-{}-etcd", hoist.name)).is_none());
        assert!(!hoist.state().join("pki/etcd").exists(), "there is no etcd to sign for");
    }
    one.kubectl(&["create", "configmap", "mine"]);
    assert!(!exists(&two, &["configmap", "mine"]));
    let args = inspect(&format!("hoist-{}-kube-apiserver", one.name))["Args"].to_string();
    assert!(args.contains(&endpoint) && !args.contains("PRIVATE"), "{args}");
    let refused = one.run(&["snapshot", "save", "/tmp/never"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);

    one.ok(&["down"]);
    assert!(etcd.keys(&format!("/hoist/{}/", one.name)) > 50, "what is in the user's etcd is the user's");
    assert!(exists(&two, &["namespace", "default"]));
}

mod kine {
    use super::*;

    #[test]
    fn a_cluster_on_kine_joins_a_node_and_loses_nothing() {
        let hoist = Hoist::new("kine");
        hoist.ok(&["up", "--nodes=1", "--etcd-backend=kine"]);
        let name = format!("hoist-{}-kine", hoist.name);
        assert!(state(&name).is_some() && state(&format!("hoist-{}-etcd", hoist.name)).is_none());
        pod(&hoist, "one");

        // Whoever is in the namespace and has no certificate is not let in.
        let network = Network::Container(format!("hoist-{}-owner", hoist.name));
        let mut stranger = ContainerSpec::new(format!("{}-stranger", hoist.name), ETCD, network);
        stranger.entrypoint = vec!["/usr/local/bin/etcdctl".to_owned()];
        let args =
            ["--endpoints=https://127.0.0.1:2379", "--insecure-skip-tls-verify", "--command-timeout=3s"];
        stranger.args = args.into_iter().chain(["get", "a"]).map(str::to_owned).collect();
        block(engine().create(&stranger)).expect("the container can be made");
        block(engine().start(&stranger.name)).expect("it starts");
        let code = block(engine().wait(&stranger.name)).expect("it ends");
        let log = block(engine().logs(&stranger.name, 20)).expect("a log");
        block(engine().remove(&stranger.name)).expect("it goes");
        // With TLS 1.3 a client may be cut off while it writes, before it reads why.
        let cut_off = ["certificate required", "broken pipe", "connection reset"];
        assert!(code != 0 && cut_off.iter().any(|words| log.contains(words)), "{code}: {log}");

        let writer = Writer::start(&hoist);
        writer.writes(100);
        kill(&name);
        block(engine().start(&name)).expect("kine starts again");
        writer.writes(100);
        let count = writer.nothing_is_lost(&hoist);
        tell(&format!("kine killed: {count} acknowledged writes, none lost"));
        pod(&hoist, "two");

        let status: serde_json::Value =
            serde_json::from_str(&hoist.ok(&["status", "-o", "json"])).expect("JSON");
        assert_eq!(status["overall"], "running", "{status}");
        hoist.ok(&["logs", "kine"]);
        let refused = hoist.run(&["snapshot", "save", "/tmp/never"]);
        assert_eq!(refused.code, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains("kine"), "{}", refused.stderr);
    }
}
