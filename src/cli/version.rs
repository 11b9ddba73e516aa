//! `hoist version`.

use hoist_phases::spec::{KubernetesVersion, MINORS};
use serde::Serialize;

use super::args::Format;
use crate::error::BoxError;
use crate::report;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Versions {
    hoist: &'static str,
    /// What `up` starts when nothing is said.
    kubernetes: KubernetesVersion,
    /// Minor versions whose flags and objects are known.
    supported: Vec<String>,
    /// Versions whose sources are pinned, one a minor.
    pinned: Vec<KubernetesVersion>,
}

pub(super) fn run(format: Format) -> Result<(), BoxError> {
    let versions = Versions {
        hoist: env!("CARGO_PKG_VERSION"),
        kubernetes: KubernetesVersion::DEFAULT,
        supported: MINORS.iter().map(|minor| format!("v1.{}", minor.pinned.minor)).collect(),
        pinned: KubernetesVersion::pinned().collect(),
    };
    report::output::formatted(format, &versions, |v| {
        let pinned: Vec<_> = v.pinned.iter().map(ToString::to_string).collect();
        let (known, pinned) = (v.supported.join(", "), pinned.join(", "));
        format!("hoist {}\nkubernetes {} (knows {known}; pinned are {pinned})\n", v.hoist, v.kubernetes)
    })?;
    Ok(())
}
