//! What the deploy flags install. The manifests are kubevirtci's own and come from a directory laid
//! out as its `cluster-provision/gocli/opts`: `<addon>/manifests/*.yaml`. They are applied by the
//! kubectl of node01, in order, and waited for as gocli waits.

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

/// A resource can't be made before the server knows its kind.
const CRDS_ARE_THERE: &str = "kubectl --kubeconfig=/etc/kubernetes/admin.conf wait crd --all --for=condition=Established --timeout=120s";

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
        // Its custom resource is read by istioctl, not by the cluster.
        let then = format!(
            "istioctl=$(ls -d /opt/istio-*/bin/istioctl)\n\
             $istioctl --kubeconfig /etc/kubernetes/admin.conf install -y -f /opt/{operator}\n\
             {KUBECTL} patch daemonset istio-cni-node -n kube-system --type=json \
             -p='[{{\"op\":\"add\",\"path\":\"/spec/template/spec/containers/0/securityContext/privileged\",\"value\":true}}]'"
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
            let Some(text) = adapted(args, &path, &text) else { continue };
            apply(cluster, &path, &text).await?;
        }
        guest::script(cluster, 1, addon.flag, &addon.then).await?;
    }
    Ok(())
}

async fn apply(cluster: &Cluster, path: &Path, text: &str) -> Result<(), BoxError> {
    let step = format!("apply {}", path.display());
    if !text.contains("kind: CustomResourceDefinition") {
        guest::script(cluster, 1, &step, CRDS_ARE_THERE).await?;
    }
    let command = [SSH, "sudo", KUBECTL, "apply", "--server-side", "--force-conflicts", "-f", "-"];
    guest::feed(cluster, 1, &step, &command, text.as_bytes()).await?;
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

/// A manifest as the flags want it; nothing when it is left out.
fn adapted(args: &RunArgs, path: &Path, text: &str) -> Option<String> {
    let on = &args.switches;
    let name = path.file_name()?.to_str()?;
    let without = |text: &str, key: &str| -> String {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with(key));
        lines.map(|line| format!("{line}\n")).collect()
    };
    match name {
        "network-addons-config-example.cr.yaml" => {
            if on.skip_cnao_cr {
                return None;
            }
            let mut text = text.to_owned();
            if on.deploy_multus {
                text = without(&text, "multus:");
            }
            if !on.deploy_dnc {
                text = without(&text, "multusDynamicNetworks:");
            }
            Some(text)
        }
        "cdi-operator.yaml" if !args.cdi_version.is_empty() => Some(with_version(text, &args.cdi_version)),
        _ => Some(text.to_owned()),
    }
}

/// Replaces the version at the end of a line, such as an image's tag.
fn with_version(text: &str, version: &str) -> String {
    let is_version = |word: &str| {
        let mut parts = word.strip_prefix('v').unwrap_or_default().splitn(3, '.');
        let number = |part: Option<&str>| part.is_some_and(|p| p.starts_with(|c: char| c.is_ascii_digit()));
        number(parts.next()) && number(parts.next()) && number(parts.next())
    };
    let line = |line: &str| {
        let start = line.rfind([' ', ':', '"']).map_or(0, |at| at + 1);
        match line.get(start..) {
            Some(word) if is_version(word) => format!("{}{version}\n", line.get(..start).unwrap_or_default()),
            _ => format!("{line}\n"),
        }
    };
    text.lines().map(line).collect()
}

/// Runs the steps that make the cluster's own addons.
pub(super) async fn own(cluster: &Cluster, args: &RunArgs, address: &str) -> Result<(), BoxError> {
    provision::run(cluster, 1, &provision::addons(args, address)).await
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn manifests_follow_the_flags() {
        let cr = Path::new("network-addons-config-example.cr.yaml");
        let text = "spec:\n  multus: {}\n  multusDynamicNetworks: {}\n  linuxBridge: {}\n";
        let adapted = |flags: &[&str]| adapted(&args(flags), cr, text);
        assert_eq!(adapted(&["--skip-cnao-cr"]), None);
        assert_eq!(adapted(&["--deploy-multus"]).as_deref(), Some("spec:\n  linuxBridge: {}\n"));
        assert_eq!(adapted(&["--deploy-dnc"]).as_deref(), Some(text));
    }

    #[test]
    fn only_versions_at_the_end_of_a_line_are_replaced() {
        let text = "image: quay.io/a/cdi-operator:v1.63.1\nvalue: v1.63.1-rc.0\napiVersion: v1\nname: v1beta1.x.y v2\n";
        let wanted =
            "image: quay.io/a/cdi-operator:v1.70.0\nvalue: v1.70.0\napiVersion: v1\nname: v1beta1.x.y v2\n";
        assert_eq!(with_version(text, "v1.70.0"), wanted);
    }
}
