//! Admission, audit, authentication and encryption of kube-apiserver, and the scheduler's
//! configuration: flags, and the files that they name.

use crate::phases::containers::name_prefix;
use crate::phases::flags::Flags;
use crate::ports::{ContainerSpec, FileEntry, Mount, MountKind};
use crate::spec::{ApiServerSpec, AuditSpec, ClusterSpec, Secret};

const ADMISSION_CONFIG: &str = "/etc/kubernetes/admission.yaml";
const AUDIT_POLICY: &str = "/etc/kubernetes/audit-policy.yaml";
const AUTHENTICATION_CONFIG: &str = "/etc/kubernetes/authentication.yaml";
const ENCRYPTION_CONFIG: &str = "/etc/kubernetes/encryption.yaml";

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
    for (flag, path, content) in files(spec) {
        if content.is_some() {
            flags.set(flag, path);
        }
    }
    let runtime_config = &spec.api_server.runtime_config;
    if !runtime_config.is_empty() {
        let pairs: Vec<_> = runtime_config.iter().map(|(api, on)| format!("{api}={on}")).collect();
        flags.set("runtime-config", pairs.join(","));
    }
    if let Some(audit) = &spec.api_server.audit {
        flags.set("audit-policy-file", AUDIT_POLICY);
        flags.set("audit-log-path", AuditSpec::LOG);
        flags.set("audit-log-format", "json");
        flags.set("audit-log-maxsize", audit.log_max_size_mib.to_string());
        flags.set("audit-log-maxbackup", audit.log_max_backups.to_string());
    }
}

/// Flags that name a file, with its path and what is in it.
fn files(spec: &ClusterSpec) -> [(&'static str, &'static str, Option<&str>); 3] {
    let ApiServerSpec { admission_config, authentication_config, encryption_config, .. } = &spec.api_server;
    [
        ("admission-control-config-file", ADMISSION_CONFIG, admission_config.as_deref()),
        ("authentication-config", AUTHENTICATION_CONFIG, authentication_config.as_deref()),
        ("encryption-provider-config", ENCRYPTION_CONFIG, encryption_config.as_ref().map(Secret::expose)),
    ]
}

/// The files; and a volume for the log, which so outlives a container that is made anew.
pub(super) fn mount(spec: &ClusterSpec, container: &mut ContainerSpec) {
    let file = |path: &str, content: &str| FileEntry {
        path: path.to_owned(),
        mode: 0o600,
        content: content.as_bytes().to_vec(),
    };
    let given = files(spec).into_iter().filter_map(|(_, path, content)| Some(file(path, content?)));
    container.files.extend(given);
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
        spec.api_server.authentication_config = Some("kind: AuthenticationConfiguration".into());
        spec.api_server.encryption_config = Some(Secret::new("kind: EncryptionConfiguration"));
        let mut flags = Flags::default();
        set_flags(&spec, &mut flags);
        let mut container = ContainerSpec::new("c", "i", Network::None);
        mount(&spec, &mut container);
        for (flag, ..) in files(&spec).into_iter().chain([("audit-policy-file", "", None)]) {
            let path = flags.get(flag).unwrap_or_default();
            assert!(container.files.iter().any(|file| file.path == path), "{flag}: {path:?}");
        }
        let log = &container.mounts[0];
        assert!(flags.get("audit-log-path").is_some_and(|path| path.starts_with(&log.target)));
        assert_eq!(log.kind, MountKind::Volume("p-audit".into()));
    }
}
