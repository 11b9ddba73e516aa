//! The trace event format that chrome://tracing and Perfetto read ("Trace Event Format", JSON object
//! format with complete, instant and metadata events).

use hoist_phases::events::Peer;
use hoist_phases::phases::PhaseId;
use serde_json::{Value, json};

use super::{Profile, Span};

const PROCESS: u32 = 1;

/// Rows: one for the levels, one for the path, then one a phase.
const LEVELS: usize = 0;
const PATH: usize = 1;
const FIRST_PHASE: usize = 2;

pub(super) fn trace(profile: &Profile, title: &str) -> Value {
    let row = |phase: Option<PhaseId>| {
        let index = phase.and_then(|phase| PhaseId::ALL.iter().position(|id| *id == phase));
        index.map_or(LEVELS, |index| FIRST_PHASE + index)
    };
    let names = [(LEVELS, "levels and probes"), (PATH, "critical path")];
    let phases = PhaseId::ALL.iter().map(|phase| (row(Some(*phase)), phase.name()));
    let names = names.into_iter().chain(phases).flat_map(|(tid, name)| {
        let named = |what: &str, args: Value| json!({"ph": "M", "pid": PROCESS, "tid": tid, "name": what, "args": args});
        [named("thread_name", json!({"name": name})), named("thread_sort_index", json!({"sort_index": tid}))]
    });
    let phases = profile.phases.iter().map(|phase| {
        let args = json!({"outcome": phase.outcome});
        complete(phase.phase.name(), "phase", phase.span, row(Some(phase.phase)), args)
    });
    let calls = profile.calls.iter().map(|call| {
        let category = match call.peer {
            Peer::Engine => "engine",
            Peer::Api => "api",
        };
        complete(&call.what, category, call.span, row(call.phase), json!({"failed": call.failed}))
    });
    let moments = profile.steps.iter().chain(&profile.levels).map(|moment| {
        json!({
            "ph": "i", "s": "t", "pid": PROCESS, "tid": row(moment.phase), "name": moment.what, "ts": moment.at,
            "cat": if moment.phase.is_some() { "step" } else { "level" },
        })
    });
    let path = profile.critical_path().into_iter();
    let path = path.map(|part| complete(&part.what, "critical", part.span, PATH, json!({})));
    let events: Vec<_> = names.chain(phases).chain(calls).chain(moments).chain(path).collect();
    json!({"displayTimeUnit": "ms", "otherData": {"title": title}, "traceEvents": events})
}

fn complete(name: &str, category: &str, span: Span, tid: usize, args: Value) -> Value {
    json!({
        "ph": "X", "pid": PROCESS, "tid": tid, "name": name, "cat": category,
        "ts": span.begin, "dur": span.length(), "args": args,
    })
}
