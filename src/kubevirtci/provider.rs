//! What the provider's image says of the cluster it is made for: version, ranges and flags, read
//! from the very files that its own `kubeadm init` would be given.

use std::collections::BTreeMap;

use hoist_phases::spec::KubernetesVersion;
use serde_json::Value;

use super::args::RunArgs;
use super::{Cluster, guest};
use crate::config::kubeadm::args;
use crate::error::BoxError;

/// Where the image has the version and the manifests it was provisioned with.
const SCRIPTS: &str = "/scripts";

/// Most bytes of one of them.
const LARGEST: u64 = 1 << 20;

/// Stands for the version in the files of the image.
const PLACEHOLDER: &str = "${version}";

#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    #[error("{path} of the cluster image: {why}")]
    Malformed { path: String, why: String },
}

/// One flavour of a provider.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Provider {
    pub(super) version: KubernetesVersion,
    pub(super) token: String,
    /// One range, or one of each family with a comma between.
    pub(super) pods: String,
    pub(super) services: String,
    pub(super) dns_domain: String,
    pub(super) api_server: BTreeMap<String, String>,
    pub(super) controller_manager: BTreeMap<String, String>,
    pub(super) scheduler: BTreeMap<String, String>,
}

/// The files of a flavour on the nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Files {
    /// Name of kubeadm's configuration, below [`SCRIPTS`] and in the nodes' /etc/kubernetes.
    pub(super) kubeadm: &'static str,
    /// The pod network.
    pub(super) cni: &'static str,
}

pub(super) fn files(args: &RunArgs) -> Files {
    let (kubeadm, cni) = match (args.switches.flannel, args.switches.single_stack) {
        (true, false) => ("kubeadm_flannel.conf", "/etc/kubernetes/flannel.yaml"),
        (true, true) => ("kubeadm_flannel_ipv6.conf", "/etc/kubernetes/flannel_ipv6.yaml"),
        (false, false) => ("kubeadm.conf", "/provision/cni.yaml"),
        (false, true) => ("kubeadm_ipv6.conf", "/provision/cni_ipv6.yaml"),
    };
    Files { kubeadm, cni }
}

/// Reads the files out of a container of the image, which need not have been started; `None`
/// when the image doesn't have them.
pub(super) async fn from_image(
    cluster: &Cluster,
    container: &str,
    args: &RunArgs,
) -> Result<Option<Provider>, BoxError> {
    let name = files(args).kubeadm;
    let (version, conf) = (format!("{SCRIPTS}/version"), format!("{SCRIPTS}/manifests/{name}"));
    let version = cluster.engine.read_file(container, &version, LARGEST).await?;
    let text = cluster.engine.read_file(container, &conf, LARGEST).await?;
    let (Some(version), Some(text)) = (version, text) else { return Ok(None) };
    let (version, text) = (String::from_utf8_lossy(&version), String::from_utf8_lossy(&text));
    Ok(Some(parse(&conf, &text.replace(PLACEHOLDER, version.trim()))?))
}

/// Reads them from a node: for an image that was made in another way.
pub(super) async fn from_node(cluster: &Cluster, args: &RunArgs) -> Result<Provider, BoxError> {
    let path = format!("/etc/kubernetes/{}", files(args).kubeadm);
    let text = guest::script(cluster, 1, "read kubeadm's configuration", &format!("cat {path}")).await?;
    Ok(parse(&path, &text)?)
}

/// Takes what is needed from an InitConfiguration and a ClusterConfiguration (v1beta4).
fn parse(path: &str, text: &str) -> Result<Provider, ProviderError> {
    let malformed = |why: String| ProviderError::Malformed { path: path.to_owned(), why };
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|e| malformed(e.to_string()))?;
    let of_kind = |kind: &str| {
        let found = documents.iter().find(|document| document["kind"] == kind);
        found.ok_or_else(|| malformed(format!("there is no {kind}")))
    };
    let (init, cluster) = (of_kind("InitConfiguration")?, of_kind("ClusterConfiguration")?);
    let text_at = |value: &Value, pointer: &str| {
        let found = value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        found.ok_or_else(|| malformed(format!("{pointer} is missing")))
    };
    let version = text_at(cluster, "/kubernetesVersion")?;
    let version = KubernetesVersion::parse(&version).map_err(|error| malformed(error.to_string()))?;
    Ok(Provider {
        version,
        token: text_at(init, "/bootstrapTokens/0/token")?,
        pods: text_at(cluster, "/networking/podSubnet")?,
        services: text_at(cluster, "/networking/serviceSubnet")?,
        dns_domain: text_at(cluster, "/networking/dnsDomain")?,
        api_server: args::read(&cluster["apiServer"]["extraArgs"]),
        controller_manager: args::read(&cluster["controllerManager"]["extraArgs"]),
        scheduler: args::read(&cluster["scheduler"]["extraArgs"]),
    })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't go on must fail loudly")]
pub(super) mod tests {
    use super::super::refuse::testing::args;
    use super::*;

    pub(crate) const CONF: &str = "
apiVersion: kubeadm.k8s.io/v1beta4
kind: InitConfiguration
bootstrapTokens:
- token: abcdef.1234567890123456
---
apiVersion: kubeadm.k8s.io/v1beta4
kind: ClusterConfiguration
kubernetesVersion: v1.36.3
apiServer:
  extraArgs:
  - {name: allow-privileged, value: 'true'}
  - {name: audit-policy-file, value: /etc/kubernetes/audit/adv-audit.yaml}
  - {name: enable-admission-plugins, value: 'NodeRestriction,ResourceQuota'}
controllerManager:
  extraArgs:
  - {name: node-cidr-mask-size-ipv4, value: '20'}
  - {name: node-cidr-mask-size-ipv6, value: '72'}
networking:
  dnsDomain: cluster.local
  podSubnet: 10.244.0.0/16,fd10:244::/56
  serviceSubnet: 10.96.0.0/12,fd10:96::/108
scheduler: {}
";

    pub(crate) fn provider() -> Provider {
        parse("conf", CONF).unwrap()
    }

    #[test]
    fn kubeadms_configuration_is_read() {
        let provider = provider();
        assert_eq!(provider.version.to_string(), "v1.36.3");
        assert_eq!(provider.pods, "10.244.0.0/16,fd10:244::/56");
        assert_eq!(provider.controller_manager["node-cidr-mask-size-ipv4"], "20");
        assert!(provider.scheduler.is_empty());
    }

    #[test]
    fn what_is_missing_is_named() {
        let why = |text: &str| parse("conf", text).unwrap_err().to_string();
        assert!(why("kind: InitConfiguration\n").contains("no ClusterConfiguration"));
        assert!(why(&CONF.replace("podSubnet", "pods")).contains("/networking/podSubnet is missing"));
        assert!(why(&CONF.replace("v1.36.3", "v${version}")).contains("of the cluster image"));
    }

    #[test]
    fn each_flavour_has_its_files() {
        assert_eq!(files(&args(&["--flannel"])).cni, "/etc/kubernetes/flannel.yaml");
        assert_eq!(files(&args(&["--single-stack"])).kubeadm, "kubeadm_ipv6.conf");
    }
}
