//! Admission and audit of kube-apiserver: flags, and the files that they name.

use crate::phases::containers::name_prefix;
use crate::phases::flags::Flags;
use crate::ports::{ContainerSpec, FileEntry, Mount, MountKind};
use crate::spec::{AuditSpec, ClusterSpec};

const ADMISSION_CONFIG: &str = "/etc/kubernetes/admission.yaml";
const AUDIT_POLICY: &str = "/etc/kubernetes/audit-policy.yaml";

/// Needed whatever else is asked for: without it a node's identity could change any other node.
const NODE_RESTRICTION: &str = "NodeRestriction";

/// Value of `--enable-admission-plugins`. What Kubernetes turns on by default stays on unnamed.
pub(super) fn admission_plugins(spec: &ClusterSpec) -> String {
    let asked = spec.api_server.admission_plugins.iter().map(String::as_str);
    let mut plugins: Vec<_> = asked.collect();
    if !plugins.contains(&NODE_RESTRICTION) {
        plugins.push(NODE_RESTRICTION);
    }
    plugins.join(",")
}

pub(super) fn set_flags(spec: &ClusterSpec, flags: &mut Flags) {
    if spec.api_server.admission_config.is_some() {
        flags.set("admission-control-config-file", ADMISSION_CONFIG);
    }
    if let Some(audit) = &spec.api_server.audit {
        flags.set("audit-policy-file", AUDIT_POLICY);
        flags.set("audit-log-path", AuditSpec::LOG);
        flags.set("audit-log-format", "json");
        flags.set("audit-log-maxsize", audit.log_max_size_mib.to_string());
        flags.set("audit-log-maxbackup", audit.log_max_backups.to_string());
    }
}

/// The files; and a volume for the log, which so outlives a container that is made anew.
pub(super) fn mount(spec: &ClusterSpec, container: &mut ContainerSpec) {
    let file = |path: &str, content: &str| FileEntry {
        path: path.to_owned(),
        mode: 0o600,
        content: content.as_bytes().to_vec(),
    };
    let config = spec.api_server.admission_config.as_deref();
    container.files.extend(config.map(|config| file(ADMISSION_CONFIG, config)));
    if let Some(audit) = &spec.api_server.audit {
        container.files.push(file(AUDIT_POLICY, &audit.policy));
        let directory = AuditSpec::LOG.rsplit_once('/').map_or("/", |(directory, _)| directory);
        let kind = MountKind::Volume(format!("{}-audit", name_prefix(spec)));
        container.mounts.push(Mount { target: directory.to_owned(), kind });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ports::Network;
    use crate::spec::{Attach, Owner, test_spec};

    #[test]
    fn node_restriction_stays_whatever_is_asked_for() {
        let mut spec = test_spec();
        assert_eq!(admission_plugins(&spec), "NodeRestriction");
        spec.api_server.admission_plugins = vec!["NodeRestriction".into(), "ResourceQuota".into()];
        assert_eq!(admission_plugins(&spec), "NodeRestriction,ResourceQuota");
        spec.api_server.admission_plugins = vec!["AlwaysPullImages".into()];
        assert_eq!(admission_plugins(&spec), "AlwaysPullImages,NodeRestriction");
    }

    #[test]
    fn every_file_a_flag_names_is_in_the_container() {
        let mut spec = test_spec();
        spec.owner =
            Owner::Attach(Attach { container: "p-dnsmasq".into(), prefix: Some("p".into()), registry: None });
        spec.api_server.admission_config = Some("kind: AdmissionConfiguration".into());
        spec.api_server.audit = Some(AuditSpec::new("kind: Policy"));
        let mut flags = Flags::default();
        set_flags(&spec, &mut flags);
        let mut container = ContainerSpec::new("c", "i", Network::None);
        mount(&spec, &mut container);
        for flag in ["admission-control-config-file", "audit-policy-file"] {
            let path = flags.get(flag).unwrap_or_default();
            assert!(container.files.iter().any(|file| file.path == path), "{flag}: {path:?}");
        }
        let log = &container.mounts[0];
        assert!(flags.get("audit-log-path").is_some_and(|path| path.starts_with(&log.target)));
        assert_eq!(log.kind, MountKind::Volume("p-audit".into()));
    }
}
