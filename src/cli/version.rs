//! `hoist version`.

use hoist_phases::spec::{KubernetesVersion, SUPPORTED};
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
}

pub(super) fn run(format: Format) -> Result<(), BoxError> {
    let versions = Versions {
        hoist: env!("CARGO_PKG_VERSION"),
        kubernetes: KubernetesVersion::DEFAULT,
        supported: SUPPORTED.map(|minor| format!("v1.{minor}")).collect(),
    };
    report::output::formatted(format, &versions, |v| {
        format!("hoist {}\nkubernetes {} (knows {})\n", v.hoist, v.kubernetes, v.supported.join(", "))
    })?;
    Ok(())
}
