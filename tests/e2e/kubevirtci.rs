//! `hoist kubevirtci` as kubevirtci's scripts use it, with a stand-in for a cluster image whose
//! machines are emulated where there is no KVM: minutes long, so not part of the usual run.

use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::support::{Done, until};

/// Ranges, node masks and CNI are the provider's with Flannel.
const FLAGS: [&str; 12] = [
    "--memory=2048M",
    "--cpu=2",
    "--flannel",
    "--container-registry=localhost",
    "--container-org=hoist/kubevirtci-stand-in",
    "--container-suffix=:test",
    "--random-ports",
    "--background",
    "--run-etcd-on-memory",
    "--enable-psa",
    "--enable-audit",
    "k8s-1.36",
];

/// Time for pods to run on emulated machines.
const PODS: Duration = Duration::from_secs(300);

const NODE_PORT: u16 = 30_007;

/// A NodePort that kubevirtci publishes, for what CoreDNS answers to readiness probes.
const SERVICE: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: ready, namespace: kube-system}
spec:
  type: NodePort
  selector: {k8s-app: kube-dns}
  ports: [{port: 80, targetPort: 8181, nodePort: 30007}]
"#;

/// A cluster by its prefix; whatever the test does, it is removed in the end.
struct Kubevirtci {
    prefix: String,
    directory: tempfile::TempDir,
}

impl Kubevirtci {
    fn new() -> Self {
        // With a dot, as the scripts' own prefix has one.
        let prefix = format!("e2e-kv-1.36-{}", std::process::id());
        Self { prefix, directory: tempfile::tempdir().expect("a temporary directory") }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hoist"));
        command.args(["kubevirtci", "--prefix", &self.prefix]).args(args).stdin(Stdio::null());
        command
    }

    fn run(&self, args: &[&str]) -> Done {
        let output = self.command(args).output().expect("the program can be started");
        Done {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }

    fn ok(&self, args: &[&str]) -> String {
        let done = self.run(args);
        assert_eq!(done.code, Some(0), "{args:?}: {}{}", done.stdout, done.stderr);
        done.stdout
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// The kubectl that `scp` brought, with the kubeconfig that it brought.
    fn kubectl(&self, args: &[&str]) -> Result<String, String> {
        let output = Command::new(self.path(".kubectl"))
            .arg("--kubeconfig")
            .arg(self.path(".kubeconfig"))
            .args(args)
            .output()
            .expect("kubectl can be started");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// What the engine has of the prefix, whoever made it.
    fn left(&self) -> Vec<String> {
        let list = |args: &[&str]| {
            let output = Command::new("docker").args(args).output().expect("docker can be started");
            let names = String::from_utf8_lossy(&output.stdout).into_owned();
            names.lines().filter(|name| name.starts_with(&self.prefix)).map(str::to_owned).collect::<Vec<_>>()
        };
        let mut left = list(&["ps", "--all", "--format", "{{.Names}}"]);
        left.extend(list(&["volume", "ls", "--format", "{{.Name}}"]));
        left
    }
}

impl Drop for Kubevirtci {
    fn drop(&mut self) {
        if !self.left().is_empty() {
            let _ = self.run(&["rm"]);
        }
    }
}

fn make_executable(path: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("the file is ours");
}

/// Builds the stand-in, unless it is there.
fn stand_in() {
    let build = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/kubevirtci/build");
    let output = Command::new(build).output().expect("the script can be started");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// What `make cluster-up` and those who come after it do, in order.
#[test]
fn cluster_up_with_two_nodes() {
    stand_in();
    let cluster = Kubevirtci::new();
    let flags = FLAGS.iter().copied();
    let run: Vec<_> = ["run", "--nodes=2"].into_iter().chain(flags).collect();
    assert_eq!(cluster.ok(&run), "", "stdout holds only what the caller captures");

    // up.sh: the port, admin.conf and kubectl, and both from outside.
    let port = cluster.ok(&["ports", "k8s"]);
    let port: u16 = port.trim_end_matches('\n').parse().expect("a bare number");
    let conf = cluster.ok(&["scp", "/etc/kubernetes/admin.conf", "-"]);
    assert!(conf.contains("server: https://192.168.66.2:6443") && conf.contains("user: kubernetes-admin"));
    std::fs::write(cluster.path(".kubeconfig"), conf).expect("the temporary directory is writable");
    cluster.ok(&["scp", "/usr/bin/kubectl", &cluster.path(".kubectl")]);
    make_executable(&cluster.path(".kubectl"));
    let server = format!("--server=https://127.0.0.1:{port}");
    cluster.kubectl(&["config", "set-cluster", "kubernetes", &server]).expect("kubectl config");
    // TLS stays verified: the certificate is valid for 127.0.0.1.
    assert_eq!(cluster.kubectl(&["get", "--raw", "/readyz"]).expect("the API answers"), "ok");

    // The scripts label all other nodes through node01.
    let not_control_plane = "!node-role.kubernetes.io/control-plane";
    let kubectl = ["ssh", "node01", "--", "sudo", "kubectl", "--kubeconfig=/etc/kubernetes/admin.conf"];
    let label = ["label", "node", "-l", not_control_plane, "node-role.kubernetes.io/worker="];
    cluster.ok(&[&kubectl[..], &label[..]].concat());
    until("both nodes are ready", PODS, || nodes_are_as_expected(&cluster));

    assert_eq!(cluster.ok(&["ssh", "node02", "--", "hostname"]), "node02\n");
    assert_eq!(cluster.run(&["ssh", "node02", "--", "exit 7"]).code, Some(7));
    assert_eq!(cluster.run(&["ports", "ssh-worker"]).code, Some(1));

    let audit = cluster.ok(&["scp", "/var/log/k8s-audit/k8s-audit.log", "-"]);
    let events = audit.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    assert!(events.into_iter().any(|event| event["user"]["username"] == "kubernetes-admin"));

    // --enable-psa: outside the exempted namespaces pods must be restricted.
    cluster.kubectl(&["create", "namespace", "strict"]).expect("a namespace");
    let refused = cluster.kubectl(&["run", "-n", "strict", "root", "--image=localhost/any", "--privileged"]);
    assert!(refused.is_err_and(|error| error.contains("violates PodSecurity")));

    // A NodePort, through the namespace's forward to node01, wherever the pods are.
    let manifest = cluster.path("service.yaml");
    std::fs::write(&manifest, SERVICE).expect("the temporary directory is writable");
    cluster.kubectl(&["create", "-f", &manifest]).expect("the service is made");
    let port = cluster.ok(&["ports", "prometheus"]);
    until("the NodePort answers", PODS, || {
        fetch(port.trim()).map_err(|error| {
            let pods = cluster.kubectl(&["get", "pods,nodes", "-A", "-o", "wide"]);
            format!("port {NODE_PORT}: {error}\n{}", pods.unwrap_or_else(|error| error))
        })
    });

    assert_eq!(cluster.ok(&["rm"]), "");
    assert_eq!(cluster.left(), Vec::<String>::new());
}

/// node01 is the control plane's to KubeVirt's operator and takes pods; node02 is a worker whose
/// kubelet gives processors away.
fn nodes_are_as_expected(cluster: &Kubevirtci) -> Result<(), String> {
    let nodes = cluster.kubectl(&["get", "nodes", "-o", "json"])?;
    let nodes: Value = serde_json::from_str(&nodes).map_err(|error| error.to_string())?;
    let items = nodes["items"].as_array().cloned().unwrap_or_default();
    let labelled = |node: &Value, role: &str| {
        node["metadata"]["labels"].get(format!("node-role.kubernetes.io/{role}")).is_some()
    };
    let ready = |node: &Value| {
        let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
    };
    let told = || {
        let lines = items.iter().map(|node| format!("{} ready: {}", node["metadata"]["name"], ready(node)));
        lines.collect::<Vec<_>>().join(", ")
    };
    let [first, second] = items.as_slice() else { return Err(told()) };
    if !ready(first) || !ready(second) {
        return Err(told());
    }
    assert!(labelled(first, "control-plane") && !labelled(first, "worker"), "{first}");
    assert!(labelled(second, "worker") && !labelled(second, "control-plane"), "{second}");
    // That of a node not ready goes a moment after it is.
    let taints = first["spec"]["taints"].to_string();
    assert!(!taints.contains("node-role"), "{taints}");
    assert_eq!(second["spec"]["podCIDR"].as_str().map(|cidr| cidr.ends_with("/20")), Some(true));
    Ok(())
}

fn fetch(port: &str) -> Result<(), String> {
    use std::io::{Read as _, Write as _};
    let address = format!("127.0.0.1:{port}");
    let mut stream = std::net::TcpStream::connect(address).map_err(|error| error.to_string())?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).map_err(|error| error.to_string())?;
    stream.write_all(b"GET /ready HTTP/1.0\r\n\r\n").map_err(|error| error.to_string())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|error| error.to_string())?;
    if answer.starts_with("HTTP/1.0 200 ") { Ok(()) } else { Err(format!("{answer:?}")) }
}

/// Nothing is made for what can't be served, and it is told by name.
#[test]
fn a_refused_flag_makes_nothing() {
    let cluster = Kubevirtci::new();
    let done = cluster.run(&["run", "k8s-1.36", "--deploy-cdi", "--gpu=0000:65:00.0"]);
    assert_eq!(done.code, Some(2), "{}", done.stderr);
    assert!(done.stderr.contains("--deploy-cdi: ") && done.stderr.contains("--gpu: "), "{}", done.stderr);
    assert_eq!((done.stdout.as_str(), cluster.left()), ("", Vec::new()));
}
