//! What the deploy flags install. The manifests are kubevirtci's own and come from a directory laid
//! out as its `cluster-provision/gocli/opts`: `<addon>/manifests/*.yaml`. They are applied by the
//! kubectl of node01, in order, and waited for as gocli waits.

mod manifest;

use std::path::{Path, PathBuf};

use super::args::RunArgs;
use super::guest::{self, SSH};
use super::{Cluster, provision};
use crate::env;
use crate::error::BoxError;
use crate::report;

/// Where the manifests are when the environment doesn't say: in an image that brings them along.
const DEFAULT_DIRECTORY: &str = "/usr/share/hoist/kubevirtci/opts";

const KUBECTL: &str = "kubectl --kubeconfig=/etc/kubernetes/admin.conf";

/// One addon.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Addon {
    flag: &'static str,
    /// Directories or files below the directory of manifests, in order; those of a directory come
    /// by name.
    sources: Vec<String>,
    /// Shell script run on node01 afterwards.
    then: String,
}

fn addon(flag: &'static str, sources: &[&str], then: impl Into<String>) -> Addon {
    Addon { flag, sources: sources.iter().map(|source| (*source).to_owned()).collect(), then: then.into() }
}

/// What is asked for, in gocli's order.
fn wanted(args: &RunArgs) -> Vec<Addon> {
    let on = &args.switches;
    let mut addons = Vec::new();
    if on.enable_ceph {
        let default = |class: &str, value: bool| {
            format!(
                "{KUBECTL} annotate storageclass {class} --overwrite storageclass.kubernetes.io/is-default-class={value}\n"
            )
        };
        let wait = format!(
            "{KUBECTL} wait cephblockpool/replicapool -n rook-ceph --for=jsonpath={{.status.phase}}=Ready --timeout=10m\n"
        );
        let then = wait + &default("local", false) + &default("rook-ceph-block", true);
        addons.push(addon("--enable-ceph", &["rookceph/manifests"], then));
    }
    if on.enable_nfs_csi {
        let claim = "pvc/pvc-nfs-dynamic -n nfs-csi";
        let then = format!(
            "{KUBECTL} wait {claim} --for=jsonpath={{.status.phase}}=Bound --timeout=5m\n{KUBECTL} delete {claim}"
        );
        addons.push(addon("--enable-nfs-csi", &["nfscsi/manifests"], then));
    }
    if on.deploy_multus {
        let then = format!("{KUBECTL} rollout status -n kube-system ds/kube-multus-ds --timeout=200s");
        addons.push(addon("--deploy-multus", &["multus/manifests"], then));
    }
    if on.enable_cnao {
        let then = format!(
            "{KUBECTL} wait deployment -n cluster-network-addons cluster-network-addons-operator --for condition=Available --timeout=200s"
        );
        addons.push(addon("--enable-cnao", &["cnao/manifests"], then));
    }
    if on.enable_istio {
        let operator =
            if on.enable_cnao { "istio-operator-with-cnao.cr.yaml" } else { "istio-operator.cr.yaml" };
        // Its custom resource is read by istioctl, not by the cluster. istioctl waits for the
        // DaemonSet, whose pods only start once they are privileged.
        let then = format!(
            "patch='[{{\"op\":\"add\",\"path\":\"/spec/template/spec/containers/0/securityContext/privileged\",\"value\":true}}]'\n\
             patched() {{ {KUBECTL} patch daemonset istio-cni-node -n kube-system --type=json -p=\"$patch\"; }}\n\
             {{ {}; }} >/dev/null 2>&1 &\n\
             istioctl=$(ls -d /opt/istio-*/bin/istioctl)\n\
             $istioctl --kubeconfig /etc/kubernetes/admin.conf install -y -f /opt/{operator}\n\
             wait $!",
            provision::wait_for("patched", 180)
        );
        addons.push(addon("--enable-istio", &["istio/manifests/ns.yaml"], then));
    }
    if on.enable_prometheus {
        let mut parts =
            vec!["prometheus-operator", "prometheus", "monitors", "kube-state-metrics", "node-exporter"];
        if on.enable_prometheus_alertmanager {
            parts.extend(["alertmanager", "alertmanager-rules"]);
        }
        if on.enable_grafana {
            parts.push("grafana");
        }
        let sources: Vec<_> = parts.iter().map(|part| format!("prometheus/manifests/{part}")).collect();
        addons.push(Addon { flag: "--enable-prometheus", sources, then: String::new() });
    }
    if on.deploy_cdi {
        let sources = ["cdi/manifests/cdi-operator.yaml", "cdi/manifests/cdi-cr.yaml"];
        addons.push(addon("--deploy-cdi", &sources, ""));
    }
    if on.deploy_network_resources_injector {
        let sources = ["auth", "service", "server"]
            .map(|part| format!("network_resources_injector/manifests/{part}.yaml"));
        let then = format!(
            "{KUBECTL} rollout status -n kube-system deploy/network-resources-injector --timeout=200s"
        );
        addons.push(Addon { flag: "--deploy-network-resources-injector", sources: sources.to_vec(), then });
    }
    addons
}

fn directory() -> PathBuf {
    env::value(env::HOIST_KUBEVIRTCI_MANIFESTS)
        .map_or_else(|| PathBuf::from(DEFAULT_DIRECTORY), PathBuf::from)
}

/// Flags whose manifests aren't there, with what to do about it.
pub(super) fn missing(args: &RunArgs) -> Vec<String> {
    let directory = directory();
    let present = |addon: &Addon| files(&directory, addon).is_ok_and(|files| !files.is_empty());
    wanted(args)
        .into_iter()
        .filter(|addon| !present(addon))
        .map(|addon| {
            format!(
                "{}: no manifests in {}; set {} to cluster-provision/gocli/opts of a kubevirtci checkout, or copy \
                 that directory to {DEFAULT_DIRECTORY} in an image built on hoist's",
                addon.flag,
                addon.sources.iter().map(|s| directory.join(s).display().to_string()).collect::<Vec<_>>().join(", "),
                env::HOIST_KUBEVIRTCI_MANIFESTS
            )
        })
        .collect()
}

/// The manifests of an addon, in order.
fn files(directory: &Path, addon: &Addon) -> std::io::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for source in &addon.sources {
        let path = directory.join(source);
        if path.is_file() {
            all.push(path);
            continue;
        }
        let entries = std::fs::read_dir(&path)?.collect::<Result<Vec<_>, _>>()?;
        let mut found: Vec<_> = entries
            .into_iter()
            .map(|entry| entry.path())
            .filter(|path| path.extension().is_some_and(|extension| extension == "yaml"))
            .collect();
        found.sort();
        all.extend(found);
    }
    Ok(all)
}

/// Installs everything asked for.
///
/// # Errors
/// The first addon that can't be installed or isn't up in time.
pub(super) async fn deploy(cluster: &Cluster, args: &RunArgs) -> Result<(), BoxError> {
    let directory = directory();
    for addon in wanted(args) {
        report::tell(format_args!("installing what {} asks for", addon.flag));
        if addon.flag == "--enable-istio" {
            copy_istio(cluster, &directory).await?;
        }
        for path in files(&directory, &addon)? {
            let text = std::fs::read_to_string(&path)?;
            let Some(text) = manifest::adapted(args, &path, &text) else { continue };
            manifest::apply(cluster, &path, &text).await?;
        }
        guest::script(cluster, 1, addon.flag, &addon.then).await?;
    }
    Ok(())
}

/// Puts the configuration of Istio where istioctl will read it.
async fn copy_istio(cluster: &Cluster, directory: &Path) -> Result<(), BoxError> {
    for name in ["istio-operator.cr.yaml", "istio-operator-with-cnao.cr.yaml"] {
        let text = std::fs::read(directory.join("istio/manifests").join(name))?;
        let script = format!("'cat >/opt/{name}'");
        guest::feed(cluster, 1, "copy Istio's configuration", &[SSH, "sudo", "sh", "-c", &script], &text)
            .await?;
    }
    Ok(())
}

/// Runs the steps that make the cluster's own addons.
pub(super) async fn own(cluster: &Cluster, args: &RunArgs, address: &str) -> Result<(), BoxError> {
    provision::run(cluster, 1, &provision::addons(args, address)).await
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't go on must fail loudly")]
mod tests {
    use std::process::Command;

    use super::super::refuse::testing::args;
    use super::*;

    #[test]
    fn addons_come_in_gocli_order_with_what_they_wait_for() {
        let all = args(&[
            "--deploy-cdi",
            "--enable-istio",
            "--enable-cnao",
            "--deploy-multus",
            "--enable-nfs-csi",
            "--enable-ceph",
            "--enable-prometheus",
            "--enable-grafana",
            "--deploy-network-resources-injector",
        ]);
        let wanted = wanted(&all);
        let flags: Vec<_> = wanted.iter().map(|addon| addon.flag).collect();
        assert_eq!(
            flags,
            [
                "--enable-ceph",
                "--enable-nfs-csi",
                "--deploy-multus",
                "--enable-cnao",
                "--enable-istio",
                "--enable-prometheus",
                "--deploy-cdi",
                "--deploy-network-resources-injector"
            ]
        );
        for addon in &wanted {
            let checked = Command::new("bash").args(["-nc", &addon.then]).status().unwrap();
            assert!(checked.success(), "{}", addon.then);
        }
        assert!(wanted[4].then.contains("/opt/istio-operator-with-cnao.cr.yaml"));
        assert!(wanted[5].sources.last().is_some_and(|last| last.ends_with("/grafana")));
    }

    #[test]
    fn a_flag_without_manifests_is_refused_by_name() {
        let refused = missing(&args(&["--deploy-cdi", "--enable-istio"]));
        assert_eq!(refused.len(), 2, "{refused:?}");
        assert!(refused[1].starts_with("--deploy-cdi: no manifests in "), "{refused:?}");
        assert!(refused[1].contains("HOIST_KUBEVIRTCI_MANIFESTS"), "{refused:?}");
        assert!(missing(&args(&[])).is_empty());
    }
}
