//! `hoist phase list`.

use hoist_phases::engine::Plan;
use hoist_phases::phases::{PHASES, PhaseId};
use serde::Serialize;

use super::args::Format;
use crate::error::BoxError;
use crate::report;

#[derive(Debug, Serialize)]
struct Entry {
    name: PhaseId,
    after: &'static [PhaseId],
    summary: &'static str,
}

pub(super) fn list(format: Format) -> Result<(), BoxError> {
    let plan = Plan::new(PHASES)?;
    let entries: Vec<_> = plan
        .phases()
        .map(|phase| Entry { name: phase.id, after: phase.after, summary: phase.summary })
        .collect();
    report::output::formatted(format, &entries, |entries| {
        let rows = entries.iter().map(|entry| {
            let after: Vec<_> = entry.after.iter().map(|id| id.name()).collect();
            [entry.name.to_string(), after.join(","), entry.summary.to_owned()]
        });
        report::table(["PHASE", "AFTER", "MAKES TRUE"], rows)
    })?;
    Ok(())
}
