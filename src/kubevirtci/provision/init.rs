//! node01: the files and objects that scripts expect of it, and the provider's own `kubeadm init`
//! for those who want the control plane on it.

use hoist_phases::spec::Reach;

use super::{Step, wait_for};
use crate::kubevirtci::args::RunArgs;
use crate::kubevirtci::guest::quote;
use crate::kubevirtci::{node_name, provider, spec};

const KUBECTL: &str = "kubectl --kubeconfig=/etc/kubernetes/admin.conf";

/// The command that puts the administrator's kubeconfig where the scripts look for it. It comes by
/// stdin: a command line is there for all to see.
pub(in crate::kubevirtci) fn admin_conf() -> [&'static str; 5] {
    // SSH hands the words to a shell once more.
    [crate::kubevirtci::guest::SSH, "sudo", "sh", "-c", "'umask 077; cat >/etc/kubernetes/admin.conf'"]
}

/// The addons, made by the node's own kubeadm with the provider's configuration, but for the
/// address of the API server, which is not this node's; and the provider's pod network.
pub(in crate::kubevirtci) fn addons(args: &RunArgs, address: &str) -> Vec<Step> {
    let provider::Files { kubeadm, .. } = provider::files(args);
    let init = quote(&format!(
        "s|^kind: InitConfiguration$|&\\nlocalAPIEndpoint: {{advertiseAddress: \"{address}\"}}|"
    ));
    vec![
        Step::new(
            "make the addons",
            format!(
                "config=$(mktemp)\n\
                 sed -e '/^localAPIEndpoint:/,/^[^ ]/{{/^localAPIEndpoint:/d;/^  /d}}' /etc/kubernetes/{kubeadm} | sed -e {init} >$config\n\
                 kubeadm init phase addon all --config $config --kubeconfig /etc/kubernetes/admin.conf 2>&1\n\
                 rm $config"
            ),
        ),
        Step::new("make the pod network", create(args)),
    ]
}

/// CoreDNS as SELinux wants it, the pod network, the storage class that everything uses.
fn create(args: &RunArgs) -> String {
    let cni = provider::files(args).cni;
    let policies = if args.switches.flannel { " -f /etc/kubernetes/knp.yaml" } else { "" };
    format!(
        "{KUBECTL} patch deployment coredns -n kube-system \
         -p \"$(cat /provision/kubeadm-patches/add-security-context-deployment-patch.yaml)\"\n\
         {KUBECTL} create -f {cni}{policies} -f /provision/local-volume.yaml 2>&1"
    )
}

/// The provider's own way: the control plane on node01, in static pods.
pub(in crate::kubevirtci) fn init_node01(args: &RunArgs) -> Vec<Step> {
    let conf = format!("/etc/kubernetes/{}", provider::files(args).kubeadm);
    let mut steps = Vec::new();
    let policies = spec::policies(args);
    if args.switches.enable_audit {
        let policy = quote(policies.audit);
        steps.push(Step::new(
            "set the audit policy",
            format!("printf %s {policy} >/etc/kubernetes/audit/adv-audit.yaml"),
        ));
    }
    if args.switches.enable_psa {
        let config = quote(policies.admission);
        steps.push(Step::new(
            "set the pod security policy",
            format!("printf %s {config} >/etc/kubernetes/psa.yaml"),
        ));
    }
    if args.switches.run_etcd_on_memory {
        let size = quote(&args.etcd_capacity);
        steps.push(Step::new(
            "keep etcd in memory",
            format!("mkdir -p /var/lib/etcd\nmount -t tmpfs -o size={size} tmpfs /var/lib/etcd"),
        ));
    }
    if args.switches.no_etcd_fsync {
        steps.push(Step::new(
            "let etcd not wait for the disk",
            format!(
                "sed -i 's/#etcdExtraArgs/extraArgs: [{{name: unsafe-no-fsync, value: \"true\"}}]/' {conf}"
            ),
        ));
    }
    steps.push(Step::new("kubeadm init", format!("kubeadm init --config {conf} -v5 2>&1")));
    steps.push(Step::new("make the pod network", create(args)));
    let taint = "node-role.kubernetes.io/control-plane:NoSchedule-";
    steps.push(Step::new("take the taint off", format!("{KUBECTL} taint nodes node01 {taint}")));
    steps
}

/// Waits until all nodes are known: `kubeadm join` ends a moment before. Then node01 gets the label
/// that KubeVirt's operator and its tests look for; no taint: it takes pods too.
///
/// Where the API server reaches kubelets and pods through agents only, it does so on every node from
/// then on, as those expect who come next.
pub(in crate::kubevirtci) fn nodes_are_known(args: &RunArgs) -> Vec<Step> {
    let names: Vec<_> = (1..=args.nodes).map(node_name).collect();
    let known = format!("{KUBECTL} get node {} >/dev/null 2>&1", names.join(" "));
    let mut steps = vec![
        Step::new("wait for the nodes to be known", wait_for(&known, 60)),
        Step::new(
            "label node01",
            format!("{KUBECTL} label node node01 --overwrite node-role.kubernetes.io/control-plane="),
        ),
    ];
    if spec::reach(args) == Reach::Konnectivity {
        let script = format!(
            "{KUBECTL} rollout status daemonset/konnectivity-agent -n kube-system --timeout=300s 2>&1"
        );
        steps.push(Step::new("wait for the way to the nodes", script));
    }
    steps
}
