//! Admission, audit, authentication and encryption of kube-apiserver.

use hoist_phases::spec::{ApiServerSpec, AuditSpec, Secret};
use serde_json::{Map, Value, json};

use super::file::{ApiServerFile, AuditFile, PodSecurityFile};
use super::problem::{Problem, Problems};
use super::resolve::converted;
use super::units;

/// Puts what the file says into the specification; what it doesn't say stays.
pub(super) fn apply(spec: &mut ApiServerSpec, file: ApiServerFile, problems: &mut Problems) {
    let ApiServerFile {
        port,
        admission_plugins,
        admission_config,
        pod_security,
        audit,
        authentication_config,
        // It may name a file: what it means is in authenticationConfig by now.
        oidc: _,
        encryption_config,
        runtime_config,
    } = file;
    spec.port = port.unwrap_or(spec.port);
    if let Some(plugins) = admission_plugins {
        spec.admission_plugins = plugins;
    }
    if let Some(text) = admission_config {
        problems.keep(is_kind("apiServer.admissionConfig", &text, "AdmissionConfiguration"));
        if pod_security.is_some() {
            let rule = "stands beside apiServer.admissionConfig, where it belongs then";
            problems.push(Problem::of("apiServer.podSecurity", rule));
        }
        spec.admission_config = Some(text);
    } else if let Some(file) = pod_security {
        spec.admission_config = problems.keep(pod_security_config(file));
    }
    if let Some(text) = authentication_config {
        problems.keep(authentication(&text));
        spec.authentication_config = Some(text);
    }
    if let Some(text) = encryption_config {
        problems.keep(is_kind("apiServer.encryptionConfig", &text, "EncryptionConfiguration"));
        spec.encryption_config = Some(Secret::new(text));
    }
    if let Some(apis) = runtime_config {
        spec.runtime_config = apis;
    }
    if let Some(AuditFile { policy, log_max_size, log_max_backups }) = audit {
        problems.keep(is_kind("apiServer.audit.policy", &policy, "Policy"));
        let mut audit = AuditSpec::new(policy);
        if let Some(text) = log_max_size {
            let field = "apiServer.audit.logMaxSize";
            let mib = problems.keep(converted(field, &text, units::bytes)).map(|bytes| bytes >> 20);
            match mib.map(u32::try_from) {
                Some(Ok(mib)) if mib > 0 => audit.log_max_size_mib = mib,
                Some(_) => problems.push(Problem::new(field, text, "must be 1Mi or more")),
                None => {}
            }
        }
        audit.log_max_backups = log_max_backups.unwrap_or(audit.log_max_backups);
        spec.audit = Some(audit);
    }
}

/// An AdmissionConfiguration that holds namespaces to Pod Security Standards (Kubernetes
/// documentation, "Enforce Pod Security Standards by Configuring the Built-in Admission Controller").
fn pod_security_config(file: PodSecurityFile) -> Result<String, Problem> {
    let PodSecurityFile { enforce, audit, warn, exempt_namespaces } = file;
    let mut defaults = Map::new();
    for (mode, level) in [("enforce", enforce), ("audit", audit), ("warn", warn)] {
        let level = level.unwrap_or_else(|| "privileged".to_owned());
        if !["privileged", "baseline", "restricted"].contains(&level.as_str()) {
            let field = format!("apiServer.podSecurity.{mode}");
            let rule = "must be privileged, baseline or restricted";
            return Err(Problem::new(&field, format_args!("{level:?}"), rule));
        }
        defaults.insert(mode.to_owned(), level.into());
        defaults.insert(format!("{mode}-version"), "latest".into());
    }
    let mut exempt = vec!["kube-system".to_owned()];
    exempt.extend(exempt_namespaces.unwrap_or_default());
    exempt.dedup();
    let config = json!({
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{
            "name": "PodSecurity",
            "configuration": {
                "apiVersion": "pod-security.admission.config.k8s.io/v1",
                "kind": "PodSecurityConfiguration",
                "defaults": defaults,
                "exemptions": { "namespaces": exempt },
            },
        }],
    });
    Ok(config.to_string())
}

/// Where `kubeadm join` reads cluster-info before it has any identity.
const CLUSTER_INFO: &str = "/api/v1/namespaces/kube-public/configmaps/cluster-info";

/// kubeadm#1105: without anonymous access to one path no node joins.
fn authentication(text: &str) -> Result<(), Problem> {
    const FIELD: &str = "apiServer.authenticationConfig";
    let config = is_kind(FIELD, text, "AuthenticationConfiguration")?;
    let anonymous = &config["anonymous"];
    if anonymous["enabled"] == false {
        let rule = "kubeadm join reads cluster-info anonymously: must be true, restricted by conditions";
        return Err(Problem::new(FIELD, "anonymous.enabled false", rule));
    }
    match anonymous["conditions"].as_array() {
        Some(conditions) if !conditions.iter().any(|one| one["path"] == CLUSTER_INFO) => {
            let rule = format!("must hold the path {CLUSTER_INFO}, which kubeadm join reads");
            Err(Problem::new(FIELD, "anonymous.conditions", rule))
        }
        _ => Ok(()),
    }
}

/// A component would end at once over a file it can't read.
pub(super) fn is_kind(field: &str, text: &str, kind: &str) -> Result<Value, Problem> {
    let found: Option<Value> = serde_saphyr::from_str(text).ok();
    let found = found.unwrap_or_default();
    match found["kind"].as_str() {
        Some(name) if name == kind => Ok(found),
        Some(found) => {
            Err(Problem::new(field, format_args!("kind {found}"), format_args!("must be a {kind}")))
        }
        None => Err(Problem::new(field, "text", format_args!("must be the YAML of a {kind}"))),
    }
}
