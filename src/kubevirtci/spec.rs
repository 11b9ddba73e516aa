//! From what the provider says and what the flags ask for to the specification of the control
//! plane: a pure function.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use hoist_phases::spec::{
    Attach, AuditSpec, BootstrapToken, ClusterName, ClusterSpec, Cni, Component, EtcdSpec, Owner, Reach,
    Subnets, SubnetsError,
};
use sha2::Digest as _;

use super::args::RunArgs;
use super::provider::Provider;
use crate::config::{self, units};
use crate::error::BoxError;

/// What etcd's log and a snapshot being written take of its file system beside the database.
const ETCD_LOG: u64 = 128 << 20;

/// What etcd needs beside its data.
const ETCD_HEAP: u64 = 2 << 30;

/// The least file system in memory that etcd starts in.
const MIN_TMPFS: u64 = 192 << 20;

/// Flags of the provider's controller-manager: the prefix length of each node's range.
const MASK_IPV4: &str = "node-cidr-mask-size-ipv4";
const MASK_IPV6: &str = "node-cidr-mask-size-ipv6";

/// Flags of the provider's components that name files of a node, which hoist's own fields stand for.
const OF_FIELDS: [&str; 10] = [
    MASK_IPV4,
    MASK_IPV6,
    "admission-control-config-file",
    "audit-log-format",
    "audit-log-path",
    "audit-policy-file",
    "enable-admission-plugins",
    "allow-privileged",
    // Where to listen follows from the families.
    "bind-address",
    "advertise-address",
];

/// The cluster's own registry, as its machines call it; they ask for no certificate there.
pub(super) const REGISTRY: &str = "registry:5000";

const AUDIT_DEFAULT: &str = include_str!("../../manifests/kubevirtci/audit-default.yaml");
const AUDIT_ALL: &str = include_str!("../../manifests/kubevirtci/audit-all.yaml");
const PSA_PRIVILEGED: &str = include_str!("../../manifests/kubevirtci/psa-privileged.yaml");
const PSA_RESTRICTED: &str = include_str!("../../manifests/kubevirtci/psa-restricted.yaml");

#[derive(Debug, thiserror::Error)]
enum SpecError {
    #[error("--etcd-capacity {0}: etcd needs 192Mi or more")]
    SmallTmpfs(String),
    #[error("{field} {value:?} of the provider")]
    Range {
        field: &'static str,
        value: String,
        #[source]
        source: SubnetsError,
    },
}

/// The specification. Its components live in the namespace of the container `dnsmasq`.
///
/// # Errors
/// When a value of the provider's, or etcd's capacity, can't be used.
pub(super) fn cluster(
    prefix: &str,
    dnsmasq: &str,
    args: &RunArgs,
    provider: &Provider,
) -> Result<ClusterSpec, BoxError> {
    let mut spec = config::defaults(cluster_name(prefix)?, BootstrapToken::parse(&provider.token)?);
    let attach = Attach {
        container: dnsmasq.to_owned(),
        prefix: Some(prefix.to_owned()),
        registry: Some(REGISTRY.to_owned()),
    };
    spec.owner = Owner::Attach(attach);
    spec.nodes.clear();
    spec.kubernetes = provider.version;
    spec.networking.pod_subnet = ranges("podSubnet", &provider.pods)?;
    spec.networking.service_subnet = ranges("serviceSubnet", &provider.services)?;
    let mask = |flag: &str| provider.controller_manager.get(flag).and_then(|size| size.parse().ok());
    if let Some(size) = mask(MASK_IPV4) {
        spec.networking.node_mask_size_ipv4 = size;
    }
    if let Some(size) = mask(MASK_IPV6) {
        spec.networking.node_mask_size_ipv6 = size;
    }
    spec.networking.dns_domain = provider.dns_domain.clone();
    // The provider's own manifest is applied once a node is there to run it.
    spec.cni = Cni::None;
    spec.reach = reach(args);
    // Roles are what the scripts give, and pods stay where the tests put them.
    spec.placement.roles = Vec::new();
    spec.placement.spread.enabled = false;
    spec.etcd = etcd(args)?;
    let plugins = provider.api_server.get("enable-admission-plugins").map(String::as_str).unwrap_or_default();
    spec.api_server.admission_plugins =
        plugins.split(',').map(str::to_owned).filter(|plugin| !plugin.is_empty()).collect();
    let Policies { admission, audit } = policies(args);
    spec.api_server.admission_config = Some(admission.to_owned());
    spec.api_server.audit = Some(AuditSpec::new(audit));
    extra_args(&mut spec, provider);
    if let Some(etcd) = spec.components.iter_mut().find(|entry| entry.component == Component::Etcd) {
        etcd.memory_bytes = etcd.memory_bytes.max(spec.etcd.tmpfs_bytes.saturating_add(ETCD_HEAP));
    }
    Ok(spec)
}

/// Calico's blocks of addresses don't follow the nodes' ranges, to which routes lead.
pub(super) fn reach(args: &RunArgs) -> Reach {
    if args.switches.flannel { Reach::Routes } else { Reach::Konnectivity }
}

/// The files that stand for --enable-psa and --enable-audit, or for their absence.
#[derive(Debug, Clone, Copy)]
pub(super) struct Policies {
    pub(super) admission: &'static str,
    pub(super) audit: &'static str,
}

pub(super) fn policies(args: &RunArgs) -> Policies {
    Policies {
        admission: if args.switches.enable_psa { PSA_RESTRICTED } else { PSA_PRIVILEGED },
        audit: if args.switches.enable_audit { AUDIT_ALL } else { AUDIT_DEFAULT },
    }
}

/// A cluster's name for a prefix. One that breaks the rules of names gets a digest behind it, so
/// that two prefixes never share a name.
pub(super) fn cluster_name(prefix: &str) -> Result<ClusterName, BoxError> {
    if let Ok(name) = ClusterName::new(prefix) {
        return Ok(name);
    }
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' };
    let readable: String = prefix.chars().map(allowed).take(20).collect();
    let mut name = readable.trim_matches('-').to_owned();
    if !name.is_empty() {
        name.push('-');
    }
    for byte in sha2::Sha256::digest(prefix).iter().take(4) {
        let _ = write!(name, "{byte:02x}");
    }
    Ok(ClusterName::new(name)?)
}

/// Without a flag the data is on disk, as on the provider's node; there too nothing waits for the
/// disk, since qemu is told to drop flushes.
fn etcd(args: &RunArgs) -> Result<EtcdSpec, BoxError> {
    let fsync = Some(false);
    if !args.switches.run_etcd_on_memory {
        return Ok(EtcdSpec {
            durable: true,
            fsync,
            quota_bytes: EtcdSpec::DURABLE_QUOTA,
            ..EtcdSpec::default()
        });
    }
    let tmpfs_bytes = units::bytes(&args.etcd_capacity)?;
    if tmpfs_bytes < MIN_TMPFS {
        return Err(SpecError::SmallTmpfs(args.etcd_capacity.clone()).into());
    }
    let quota_bytes = tmpfs_bytes - ETCD_LOG;
    Ok(EtcdSpec { durable: false, fsync, tmpfs_bytes, quota_bytes, ..EtcdSpec::default() })
}

fn ranges(field: &'static str, value: &str) -> Result<Subnets, SpecError> {
    value.parse().map_err(|source| SpecError::Range { field, value: value.to_owned(), source })
}

fn extra_args(spec: &mut ClusterSpec, provider: &Provider) {
    let of_provider = [
        (Component::ApiServer, &provider.api_server),
        (Component::ControllerManager, &provider.controller_manager),
        (Component::Scheduler, &provider.scheduler),
    ];
    for (component, args) in of_provider {
        let own: BTreeMap<_, _> = args
            .iter()
            .filter(|(flag, _)| !OF_FIELDS.contains(&flag.as_str()))
            .map(|(flag, value)| (flag.clone(), value.clone()))
            .collect();
        if let Some(entry) = spec.components.iter_mut().find(|entry| entry.component == component) {
            entry.extra_args.extend(own);
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't go on must fail loudly")]
mod tests {
    use super::super::provider::tests::provider;
    use super::super::refuse::testing::args;
    use super::*;

    fn spec(flags: &[&str]) -> ClusterSpec {
        cluster("k8s-1.36", "k8s-1.36-dnsmasq", &args(flags), &provider()).unwrap()
    }

    #[test]
    fn the_control_plane_is_the_providers() {
        let spec = spec(&["--flannel"]);
        assert_eq!(spec.token.expose(), "abcdef.1234567890123456");
        assert_eq!(spec.networking.pod_subnet.to_string(), "10.244.0.0/16,fd10:244::/56");
        assert_eq!((spec.networking.node_mask_size_ipv4, spec.networking.node_mask_size_ipv6), (20, 72));
        assert_eq!(spec.networking.problems(&[]), []);
        assert!(spec.component(Component::ControllerManager).extra_args.is_empty());
        assert_eq!(spec.api_server.admission_plugins, ["NodeRestriction", "ResourceQuota"]);
        assert!(spec.component(Component::ApiServer).extra_args.is_empty());
        assert!(spec.placement.roles.is_empty() && !spec.placement.spread.enabled);
        assert!(spec.nodes.is_empty() && spec.cni == Cni::None && spec.reach == Reach::Routes);
        assert_eq!(super::super::super::config::check_conflict(&spec, &spec), Ok(()));
    }

    #[test]
    fn machines_pull_what_calico_needs_of_ours_from_the_registry() {
        use hoist_phases::phases::images;
        let agent = |spec: &ClusterSpec| images::needed(spec).iter().any(|name| name.contains("-agent:"));
        let calico = spec(&[]);
        assert_eq!(calico.reach, Reach::Konnectivity);
        assert!(agent(&calico));
        let name = images::on_nodes(&calico, "konnectivity-agent");
        assert_eq!(name, "registry:5000/hoist/konnectivity-agent:v1.36.3");
        assert!(!agent(&spec(&["--flannel"])));
    }

    #[test]
    fn etcd_is_where_the_flags_say() {
        let on_disk = spec(&[]).etcd;
        assert!(on_disk.durable && !on_disk.syncs());
        let in_memory = spec(&["--run-etcd-on-memory", "--etcd-capacity=4G"]);
        assert!(!in_memory.etcd.durable && in_memory.etcd.quota_bytes < 4_000_000_000);
        assert!(in_memory.component(Component::Etcd).memory_bytes > 4_000_000_000);
        let small = args(&["--run-etcd-on-memory", "--etcd-capacity=1M"]);
        assert!(cluster("p", "p-dnsmasq", &small, &provider()).is_err());
    }

    #[test]
    fn policies_follow_the_flags() {
        let text = |flags: &[&str]| {
            let api = spec(flags).api_server;
            (api.admission_config.unwrap(), api.audit.unwrap().policy)
        };
        let (psa, audit) = text(&[]);
        assert!(psa.contains("enforce: privileged") && audit.contains("kubernetes-admin"));
        let (psa, audit) = text(&["--enable-psa", "--enable-audit"]);
        assert!(psa.contains("enforce: restricted") && audit.contains("level: Metadata"));
    }

    #[test]
    fn two_prefixes_never_share_a_name() {
        let name = |prefix: &str| cluster_name(prefix).unwrap().to_string();
        assert_eq!(name("kubevirt"), "kubevirt");
        assert!(name("k8s-1.36").starts_with("k8s-1-36-"));
        assert_ne!(name("k8s-1.36"), name("k8s-1_36"));
        assert!(name(&"long-".repeat(30)).len() <= 32);
        assert!(!name("...").is_empty());
    }
}
