//! Admission and audit of kube-apiserver.

use hoist_phases::spec::{ApiServerSpec, AuditSpec};
use serde_json::Value;

use super::file::{ApiServerFile, AuditFile};
use super::problem::{Problem, Problems};
use super::resolve::converted;
use super::units;

/// Puts what the file says into the specification; what it doesn't say stays.
pub(super) fn apply(spec: &mut ApiServerSpec, file: ApiServerFile, problems: &mut Problems) {
    let ApiServerFile { admission_plugins, admission_config, audit } = file;
    if let Some(plugins) = admission_plugins {
        spec.admission_plugins = plugins;
    }
    if let Some(text) = admission_config {
        problems.keep(is_kind("apiServer.admissionConfig", &text, "AdmissionConfiguration"));
        spec.admission_config = Some(text);
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

/// The API server would end at once over a file it can't read.
fn is_kind(field: &str, text: &str, kind: &str) -> Result<(), Problem> {
    let found: Option<Value> = serde_saphyr::from_str(text).ok();
    match found.as_ref().and_then(|value| value["kind"].as_str()) {
        Some(found) if found == kind => Ok(()),
        Some(found) => {
            Err(Problem::new(field, format_args!("kind {found}"), format_args!("must be a {kind}")))
        }
        None => Err(Problem::new(field, "text", format_args!("must be the YAML of a {kind}"))),
    }
}
