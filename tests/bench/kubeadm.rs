//! The rival: `kubeadm init` in a container node of hoist's, all images in place, etcd on a tmpfs
//! without fsync as hoist's is.

use std::time::Instant;

use serde_json::{Value, json};

use crate::support::{Hoist, block, build_image, engine, inspect};

const COMPONENTS: [&str; 4] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"];
/// The repository that this kubeadm takes its images from.
const REPOSITORY: &str = "localhost/hoist-bench";
/// For each step, in seconds.
const WITHIN: &str = "240";
const KUBECTL: &str = "kubectl --kubeconfig /etc/kubernetes/admin.conf";

pub(crate) struct Kubeadm {
    _hoist: Hoist,
    node: String,
    version: String,
    /// The same pod network as hoist's clusters have.
    cni: String,
}

/// Moments in seconds since `kubeadm init` was called.
pub(crate) struct Moments {
    pub(crate) returned: f64,
    pub(crate) signed: f64,
    pub(crate) dns: f64,
}

impl Kubeadm {
    /// A machine that boots beside a control plane of hoist's, which is stopped then.
    pub(crate) fn prepare() -> Self {
        let hoist = Hoist::new("bench-kubeadm");
        hoist.ok(&["up", "--nodes", "0", "--wait", "join"]);
        hoist.ok(&["node", "add", "--no-join"]);
        let node = format!("hoist-{}-node01", hoist.name);
        let version = inspect(&node)["Config"]["Image"]
            .as_str()
            .and_then(|image| image.rsplit(':').next())
            .map(str::to_owned);
        let version = version.expect("the image has a tag");
        let config = |namespace: &str, name: &str, key: &str| {
            let found = hoist.get(&["configmap", name, "--namespace", namespace]);
            found["data"][key].as_str().expect("the configuration").to_owned()
        };
        let documents = [
            init_configuration().to_string(),
            cluster_configuration(&version).to_string(),
            config("kube-system", "kubelet-config", "kubelet"),
            config("kube-system", "kube-proxy", "config.conf"),
        ];
        let cni = cni(&hoist);
        for component in ["steward", "kube-scheduler", "kube-controller-manager", "kube-apiserver", "etcd"] {
            use hoist_phases::ports::Runtime as _;
            block(engine().stop(&format!("hoist-{}-{component}", hoist.name), 2))
                .expect("the container runs");
        }
        let machine = Self { _hoist: hoist, node, version, cni };
        machine.sh("umask 077; cat >/run/init.yaml", documents.join("\n---\n").as_bytes());
        machine.load_images();
        machine.sh("mkdir -p /var/lib/etcd && mount -t tmpfs tmpfs /var/lib/etcd", b"");
        machine
    }

    /// Static pods run as whoever their image says, and kubeadm's files are root's.
    fn load_images(&self) {
        let version = &self.version;
        for component in COMPONENTS {
            let reference = format!("{REPOSITORY}/{component}:{version}");
            build_image(&reference, &format!("FROM localhost/hoist/{component}:{version}\nUSER 0:0\n"), &[]);
            use hoist_phases::ports::Runtime as _;
            let import = ["ctr", "--namespace", "k8s.io", "images", "import", "-"];
            let fed = block(engine().feed_image(&self.node, &import, &reference)).expect("the node runs");
            assert_eq!(fed.code, 0, "{}", fed.stderr);
        }
        self.sh(
            &format!(
                "for image in $(kubeadm config images list --config /run/init.yaml 2>/dev/null); do \
                 name=${{image##*/}}; name=${{name%%:*}}; \
                 ctr -n k8s.io images tag localhost/hoist/$name:{version} $image >/dev/null 2>&1 || true; done"
            ),
            b"",
        );
    }

    /// A fresh start, timed, and taken back.
    pub(crate) fn init(&self) -> Moments {
        let begin = Instant::now();
        self.sh(
            "kubeadm init --config /run/init.yaml >/run/init.log 2>&1 || { cat /run/init.log; exit 1; }",
            b"",
        );
        let returned = begin.elapsed().as_secs_f64();
        self.sh(&format!("{KUBECTL} create -f - >/dev/null"), self.cni.as_bytes());
        self.sh(
            &format!("until {KUBECTL} get csr -o jsonpath='{{.items[*].status.certificate}}' | grep -q .; do sleep 0.05; done"),
            b"",
        );
        let signed = begin.elapsed().as_secs_f64();
        // As hoist's own level does: the Service's address, from the node.
        self.sh(DNS_ANSWERS, b"");
        let dns = begin.elapsed().as_secs_f64();
        self.sh("kubeadm reset --force >/dev/null 2>&1; rm -rf /var/lib/etcd/* /etc/cni/net.d/*; ip link delete kube-bridge 2>/dev/null || true", b"");
        Moments { returned, signed, dns }
    }

    fn sh(&self, script: &str, stdin: &[u8]) -> String {
        use hoist_phases::ports::Runtime as _;
        let done = block(engine().exec(&self.node, &["timeout", WITHIN, "/bin/sh", "-uc", script], stdin))
            .expect("the node runs");
        assert_eq!(done.code, 0, "{script}: {}{}", done.stdout, done.stderr);
        done.stdout
    }
}

/// A query for kubernetes.default.svc.cluster.local (RFC 1035), from the node to the Service's address, until
/// a datagram comes back.
const DNS_ANSWERS: &str = r#"
query='\x68\x6f\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x0akubernetes\x07default\x03svc\x07cluster\x05local\x00\x00\x01\x00\x01'
until timeout 1 bash -c "exec 3<>/dev/udp/10.96.0.10/53 && printf '$query' >&3 && dd bs=1232 count=1 status=none <&3" \
    2>/dev/null | grep -q .; do sleep 0.05; done
"#;

fn init_configuration() -> Value {
    json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "InitConfiguration",
        "localAPIEndpoint": {"advertiseAddress": "192.168.66.101"},
        "nodeRegistration": {"name": "node01", "taints": [], "ignorePreflightErrors": ["SystemVerification"]},
    })
}

fn cluster_configuration(version: &str) -> Value {
    json!({
        "apiVersion": "kubeadm.k8s.io/v1beta4",
        "kind": "ClusterConfiguration",
        "kubernetesVersion": version,
        "imageRepository": REPOSITORY,
        "networking": {"podSubnet": "10.244.0.0/16"},
        "dns": {"imageTag": version},
        "etcd": {"local": {
            "imageTag": version,
            "dataDir": "/var/lib/etcd/member",
            "extraArgs": [{"name": "unsafe-no-fsync", "value": "true"}],
        }},
    })
}

/// The pod network as hoist's cluster has it, without what the API server has added.
fn cni(hoist: &Hoist) -> String {
    let kinds = "serviceaccounts,configmaps,daemonsets,clusterroles,clusterrolebindings";
    let found = hoist.get(&[kinds, "--all-namespaces", "--selector", "app.kubernetes.io/managed-by=hoist"]);
    let ours =
        |item: &&Value| item["metadata"]["name"].as_str().is_some_and(|name| name.starts_with("kube-router"));
    let items = found["items"].as_array().expect("a list").iter().filter(ours).cloned().map(|mut item| {
        for field in ["resourceVersion", "uid", "creationTimestamp", "managedFields"] {
            item["metadata"].as_object_mut().expect("metadata").remove(field);
        }
        item.as_object_mut().expect("an object").remove("status");
        item
    });
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items.collect::<Vec<_>>()}).to_string();
    list.replace("https://192.168.66.2:6443", "https://192.168.66.101:6443")
}
