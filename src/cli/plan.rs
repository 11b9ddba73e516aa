//! `hoist plan`: what `up` would do. Nothing is touched, and no engine is needed.

use hoist_phases::phases::preview::{Change, Item, Step, preview};
use hoist_phases::phases::unsettled;
use serde::Serialize;

use super::args::{Format, Global, OutputArgs, UpArgs};
use super::session::Session;
use crate::config;
use crate::error::BoxError;
use crate::report;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Plan<'a> {
    cluster: &'a str,
    /// Whether a cluster of that name is there.
    present: bool,
    steps: &'a [Step],
}

pub(super) async fn run(global: &Global, output: OutputArgs, args: UpArgs) -> Result<(), BoxError> {
    let (settings, present) = super::config::settings(global, args).await?;
    let spec = &settings.spec;
    if let Some(present) = &present {
        config::check_conflict(present, spec)?;
    }
    let tried = Session::named(spec.name.clone())?.state.unsettled()?;
    let steps = unsettled::revise(preview(present.as_ref(), spec)?, &tried, spec)?;
    let plan = Plan { cluster: spec.name.as_str(), present: present.is_some(), steps: &steps };
    match output.output {
        Format::Text => report::data(text(&steps))?,
        Format::Json => report::output::formatted(Format::Json, &plan, |_| String::new())?,
    }
    Ok(())
}

/// What changes, phase by phase, and a last line that counts.
pub fn text(steps: &[Step]) -> String {
    let mut text = String::new();
    let mut counts = [0_usize; 4];
    for step in steps {
        let Step { phase, skipped, items } = step;
        if let Some(reason) = skipped {
            text += &format!("{phase}: {reason}\n");
            continue;
        }
        if step.changes() {
            text += &format!("{phase}\n");
        }
        for Item { kind, name, change, because } in items {
            let (index, sign) = match change {
                Change::Create => (0, '+'),
                Change::Replace => (1, '~'),
                Change::Remove => (2, '-'),
                Change::Keep => (3, ' '),
            };
            counts[index] += 1;
            if *change != Change::Keep {
                text += &format!("  {sign} {kind} {name}\n");
                text += &because.iter().map(|part| format!("      {part}\n")).collect::<String>();
            }
        }
    }
    let [create, replace, remove, keep] = counts;
    text + &format!("{create} to create, {replace} to replace, {remove} to remove, {keep} unchanged\n")
}
