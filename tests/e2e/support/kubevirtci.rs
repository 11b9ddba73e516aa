//! `hoist kubevirtci` on a stand-in for a cluster image, as kubevirtci's scripts use it.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::Duration;

use bollard::query_parameters::{ListContainersOptionsBuilder, ListVolumesOptionsBuilder};
use serde_json::Value;

use super::engine::{block, engine, inspect};
use super::hoist::Done;
use super::{IMAGE, until};

/// Time for pods to run on emulated machines.
pub(crate) const PODS: Duration = Duration::from_secs(300);

/// Flags of every run: small machines of the stand-in image.
const FLAGS: [&str; 7] = [
    "--memory=2048M",
    "--cpu=2",
    "--container-registry=localhost",
    "--container-org=hoist/kubevirtci-stand-in",
    "--container-suffix=:test",
    "--random-ports",
    "--background",
];

/// A NodePort that kubevirtci publishes, for what CoreDNS answers to readiness probes.
const SERVICE: &str = r#"
apiVersion: v1
kind: Service
metadata: {name: ready, namespace: kube-system}
spec:
  type: NodePort
  ipFamilyPolicy: PreferDualStack
  selector: {k8s-app: kube-dns}
  ports: [{port: 80, targetPort: 8181, nodePort: 30007}]
"#;

/// The command that the scripts run node01's kubectl by.
pub(crate) const ON_NODE01: [&str; 6] =
    ["ssh", "node01", "--", "sudo", "kubectl", "--kubeconfig=/etc/kubernetes/admin.conf"];

/// A cluster by its prefix; whatever the test does, it is removed in the end.
pub(crate) struct Kubevirtci {
    pub(crate) prefix: String,
    directory: tempfile::TempDir,
}

impl Kubevirtci {
    /// Builds the stand-in image, unless it is there.
    pub(crate) fn new(what: &str) -> Self {
        let build = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/kubevirtci/build");
        let output = Command::new(build).output().expect("the script can be started");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self::named(what)
    }

    /// Without an image.
    pub(crate) fn named(what: &str) -> Self {
        // With a dot, as the scripts' own prefix has one.
        let prefix = format!("e2e-kv-1.36-{what}-{}", std::process::id());
        Self { prefix, directory: tempfile::tempdir().expect("a temporary directory") }
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_hoist"));
        command.args(["kubevirtci", "--prefix", &self.prefix]).args(args).stdin(Stdio::null());
        let manifests = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/kubevirtci-opts");
        command.env("HOIST_KUBEVIRTCI_MANIFESTS", manifests);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Done {
        Done::of(self.command(args))
    }

    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let done = self.run(args);
        assert_eq!(done.code, Some(0), "{args:?}: {}{}", done.stdout, done.stderr);
        done.stdout
    }

    /// `run` of the scripts; gives what it told.
    pub(crate) fn up(&self, flags: &[&str]) -> String {
        let args = [&["run"], flags, &FLAGS, &["k8s-1.36"]].concat();
        let done = self.run(&args);
        assert_eq!(done.code, Some(0), "{args:?}: {}{}", done.stdout, done.stderr);
        assert_eq!(done.stdout, "", "stdout holds only what the caller captures");
        super::tell(done.stderr.lines().last().unwrap_or_default());
        done.stderr
    }

    /// A port of the cluster on this machine.
    pub(crate) fn port(&self, name: &str) -> u16 {
        let port = self.ok(&["ports", name]);
        port.trim_end_matches('\n').parse().expect("a bare number")
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// What up.sh does after `run`: kubeconfig and kubectl, from outside; `server` is what node01
    /// calls the API server. TLS stays verified, as `name` where the certificate isn't valid for
    /// 127.0.0.1.
    pub(crate) fn fetch_kubeconfig(&self, server: &str, name: Option<&str>) {
        let conf = self.ok(&["scp", "/etc/kubernetes/admin.conf", "-"]);
        assert!(conf.contains(&format!("server: {server}\n")), "{conf}");
        assert!(conf.contains("user: kubernetes-admin"));
        std::fs::write(self.path(".kubeconfig"), conf).expect("the temporary directory is writable");
        self.ok(&["scp", "/usr/bin/kubectl", &self.path(".kubectl")]);
        make_executable(&self.path(".kubectl"));
        let server = format!("--server=https://127.0.0.1:{}", self.port("k8s"));
        let name = name.map(|name| format!("--tls-server-name={name}"));
        let set = ["config", "set-cluster", "kubernetes", &server].into_iter().chain(name.as_deref());
        self.kubectl(&set.collect::<Vec<_>>()).expect("kubectl config");
        assert_eq!(self.kubectl(&["get", "--raw", "/readyz"]).expect("the API answers"), "ok");
    }

    /// The scripts label all nodes of a kind through node01.
    pub(crate) fn label_workers(&self, selector: &str) {
        let label = ["label", "node", "-l", selector, "node-role.kubernetes.io/worker="];
        self.ok(&[&ON_NODE01[..], &label[..]].concat());
    }

    /// The kubectl that `scp` brought, with the kubeconfig that it brought.
    pub(crate) fn kubectl(&self, args: &[&str]) -> Result<String, String> {
        let mut command = Command::new(self.path(".kubectl"));
        command.arg("--kubeconfig").arg(self.path(".kubeconfig")).args(args);
        let done = Done::of(command);
        if done.code == Some(0) { Ok(done.stdout) } else { Err(done.stderr) }
    }

    /// A value by its JSONPath.
    pub(crate) fn value(&self, object: &[&str], path: &str) -> String {
        let output = format!("jsonpath={path}");
        self.kubectl(&[&["get"], object, &["-o", &output]].concat()).expect("the object is there")
    }

    /// Nodes once all are ready.
    pub(crate) fn nodes(&self, count: usize) -> Vec<Value> {
        until("all nodes are ready", PODS, || {
            let nodes = self.kubectl(&["get", "nodes", "-o", "json"])?;
            let nodes: Value = serde_json::from_str(&nodes).map_err(|error| error.to_string())?;
            let items = nodes["items"].as_array().cloned().unwrap_or_default();
            if items.len() == count && items.iter().all(ready) {
                return Ok(items);
            }
            let lines =
                items.iter().map(|node| format!("{} ready: {}", node["metadata"]["name"], ready(node)));
            Err(lines.collect::<Vec<_>>().join(", "))
        })
    }

    /// A NodePort from this machine: through the namespace's forward to node01, wherever the pods are.
    pub(crate) fn node_port_answers(&self) {
        let manifest = self.path("service.yaml");
        std::fs::write(&manifest, SERVICE).expect("the temporary directory is writable");
        self.kubectl(&["create", "-f", &manifest]).expect("the service is made");
        let port = self.port("prometheus");
        until("the NodePort answers", PODS, || {
            fetch(port).map_err(|error| {
                let pods = self.kubectl(&["get", "pods,nodes", "-A", "-o", "wide"]);
                format!("{error}\n{}", pods.unwrap_or_else(|error| error))
            })
        });
    }

    /// Whoever made it: containers and volumes of the prefix.
    pub(crate) fn left(&self) -> Vec<String> {
        let docker = engine().docker();
        let all = ListContainersOptionsBuilder::new().all(true).build();
        let containers = block(docker.list_containers(Some(all))).expect("the engine answers");
        let names = containers.into_iter().flat_map(|container| container.names.unwrap_or_default());
        let names = names.map(|name| name.trim_start_matches('/').to_owned());
        names.chain(volumes()).filter(|name| name.starts_with(&self.prefix)).collect()
    }

    /// `rm`, after which nothing is left, not even what has no name of the cluster's.
    pub(crate) fn rm_leaves_nothing(&self) {
        let traces = Traces::of(self);
        assert_eq!(self.ok(&["rm"]), "");
        assert_eq!(self.left(), Vec::<String>::new());
        assert_eq!(traces.left(), Vec::<String>::new());
    }
}

impl Drop for Kubevirtci {
    fn drop(&mut self) {
        if !self.left().is_empty() {
            let _ = self.run(&["rm"]);
        }
    }
}

/// What doesn't carry the prefix: volumes of the images' own, rules of the engine's host for the
/// published ports, and whoever listens there.
pub(crate) struct Traces {
    volumes: Vec<String>,
    address: String,
    port: u16,
}

impl Traces {
    pub(crate) fn of(cluster: &Kubevirtci) -> Self {
        let containers = cluster.left().into_iter().filter(|name| !volumes().contains(name));
        let mounts = containers.filter_map(|name| inspect(&name)["Mounts"].as_array().cloned()).flatten();
        let volumes = mounts.filter_map(|mount| mount["Name"].as_str().map(str::to_owned)).collect();
        let dnsmasq = inspect(&format!("{}-dnsmasq", cluster.prefix));
        let networks = dnsmasq["NetworkSettings"]["Networks"].as_object().cloned().unwrap_or_default();
        let address = networks.values().find_map(|network| network["IPAddress"].as_str().map(str::to_owned));
        let address = address.expect("an address of the engine's network");
        let traces = Self { volumes, address, port: cluster.port("k8s") };
        // A look that finds nothing while the cluster runs would prove nothing later.
        let left = traces.left().concat();
        for kind in ["volume ", "rule ", "listener "] {
            assert!(left.contains(kind), "no {kind}of a running cluster seen: {left}");
        }
        traces
    }

    pub(crate) fn left(&self) -> Vec<String> {
        let there = volumes();
        let volumes = self.volumes.iter().filter(|name| there.contains(name));
        let mut left: Vec<_> = volumes.map(|name| format!("volume {name}\n")).collect();
        let host = rules();
        let ours = host.lines().filter(|rule| rule.contains(&format!("{}/32", self.address)));
        left.extend(ours.map(|rule| format!("rule {rule}\n")));
        if TcpStream::connect(("127.0.0.1", self.port)).is_ok() {
            left.push(format!("listener {}\n", self.port));
        }
        left
    }
}

/// Names of all volumes.
fn volumes() -> Vec<String> {
    let listed = block(engine().docker().list_volumes(Some(ListVolumesOptionsBuilder::new().build())));
    let volumes = listed.expect("the engine answers").volumes.unwrap_or_default();
    volumes.into_iter().map(|volume| volume.name).collect()
}

/// The packet filter of the engine's host, of either kind.
fn rules() -> String {
    let script = "iptables-nft-save; [ ! -s /proc/net/ip_tables_names ] || iptables-legacy-save";
    let mut command = Command::new("docker");
    command.args(["run", "--rm", "--network=host", "--cap-add=NET_ADMIN", "--user=0", "--entrypoint=sh"]);
    command.args([IMAGE, "-c", script]);
    let done = Done::of(command);
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    done.stdout
}

fn ready(node: &Value) -> bool {
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == "Ready" && condition["status"] == "True")
}

/// Whether a node has the role.
pub(crate) fn has_role(node: &Value, role: &str) -> bool {
    node["metadata"]["labels"].get(format!("node-role.kubernetes.io/{role}")).is_some()
}

fn make_executable(path: &str) {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).expect("the file is ours");
}

fn fetch(port: u16) -> Result<(), String> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).map_err(|error| error.to_string())?;
    stream.write_all(b"GET /ready HTTP/1.0\r\n\r\n").map_err(|error| error.to_string())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|error| error.to_string())?;
    if answer.starts_with("HTTP/1.0 200 ") { Ok(()) } else { Err(format!("{answer:?}")) }
}
