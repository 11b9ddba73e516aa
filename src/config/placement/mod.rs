pub(super) mod policy;
pub(super) mod roles;

use hoist_phases::spec::Spread;

use super::file::SpreadFile;
use super::problem::Problems;

/// Puts what the file says about spreading into the specification; what it doesn't say stays.
pub(super) fn spread(spec: &mut Spread, file: SpreadFile, problems: &mut Problems) {
    let SpreadFile { enabled, namespaces, labels } = file;
    spec.enabled = enabled.unwrap_or(spec.enabled);
    if let Some(namespaces) = namespaces {
        roles::check_namespaces(&namespaces, problems);
        spec.namespaces = namespaces;
    }
    if let Some(labels) = labels {
        roles::check_labels(&labels, problems);
        spec.labels = labels;
    }
}
