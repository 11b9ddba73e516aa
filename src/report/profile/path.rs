//! The critical path: found backwards, from what ended last to what that waited for.

use hoist_phases::phases::{PHASES, PhaseId};

use super::{Call, PhaseSpan, Profile, Span};

/// A stretch of the critical path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    pub phase: Option<PhaseId>,
    pub what: String,
    pub span: Span,
    /// How many stretches it is made of.
    pub count: usize,
}

/// Stretches shorter than this, in microseconds, are no wait of anybody's.
const NOTICEABLE: u64 = 1000;
/// Stretches shorter than this are not told one by one.
const SHORT: u64 = 20_000;

pub(super) fn of(profile: &Profile) -> Vec<Segment> {
    let mut path = Vec::new();
    let mut current = profile.phases.iter().max_by_key(|phase| phase.span.end);
    // Levels are probed beside the phases; the last ones come after all of them.
    let phases_end = current.map_or(0, |phase| phase.span.end);
    let mut levels: Vec<_> = profile.levels.iter().filter(|level| level.at > phases_end).collect();
    levels.sort_by_key(|level| std::cmp::Reverse(level.at));
    for (index, level) in levels.iter().enumerate() {
        let begin = levels.get(index + 1).map_or(phases_end, |before| before.at);
        push(&mut path, None, format!("until level {}", level.what), Span { begin, end: level.at });
    }
    while let Some(phase) = current {
        within(phase, &profile.calls, &mut path);
        let before = gate(phase.phase, profile);
        let from = before.map_or(0, |before| before.span.end);
        push(&mut path, None, "hoist itself".to_owned(), Span { begin: from, end: phase.span.begin });
        current = before;
    }
    path.reverse();
    path.into_iter().fold(Vec::new(), gather)
}

/// Makes one line of each row of short stretches of a phase, as a poll of several things is.
fn gather(mut path: Vec<Segment>, part: Segment) -> Vec<Segment> {
    let short = |what: &Segment| what.phase.is_some() && (what.count > 1 || what.span.length() < SHORT);
    match path.last_mut() {
        Some(last) if last.phase == part.phase && short(last) && short(&part) => {
            last.count += part.count;
            last.span.end = part.span.end;
            last.what = format!("{}: {} short steps", part.phase.map_or("", PhaseId::name), last.count);
        }
        _ => path.push(part),
    }
    path
}

/// The phase that this one had to wait for longest.
fn gate(phase: PhaseId, profile: &Profile) -> Option<&PhaseSpan> {
    let after = PHASES.iter().find(|row| row.id == phase).map_or(&[][..], |row| row.after);
    profile.phases.iter().filter(|span| after.contains(&span.phase)).max_by_key(|span| span.span.end)
}

/// What a phase did, backwards: whichever call ended last before a moment is what the moment waited for.
fn within(phase: &PhaseSpan, calls: &[Call], path: &mut Vec<Segment>) {
    let mut at = phase.span.end;
    let of_phase = |call: &&Call| call.phase == Some(phase.phase);
    // Phases are told in whole milliseconds, calls in microseconds.
    while let Some(call) = calls
        .iter()
        .filter(of_phase)
        .filter(|call| {
            call.span.end <= at + NOTICEABLE && call.span.begin < at && call.span.end > phase.span.begin
        })
        .max_by_key(|call| (call.span.end.min(at), std::cmp::Reverse(call.span.begin)))
    {
        let (begin, end) = (call.span.begin.max(phase.span.begin), call.span.end.min(at));
        let what = format!("{}: {}", phase.phase, call.what);
        // The pauses of a poll belong to it.
        if path.last().is_none_or(|next| next.what != what) {
            let between = Span { begin: end, end: at };
            push(path, Some(phase.phase), format!("{}: between calls", phase.phase), between);
        }
        push(path, Some(phase.phase), what, Span { begin, end });
        at = begin;
        if at <= phase.span.begin {
            return;
        }
    }
    push(
        path,
        Some(phase.phase),
        format!("{}: between calls", phase.phase),
        Span { begin: phase.span.begin, end: at },
    );
}

/// Adds a stretch in front; the like of the one behind it becomes one with it, as polls do.
fn push(path: &mut Vec<Segment>, phase: Option<PhaseId>, what: String, span: Span) {
    if let Some(next) = path.last_mut()
        && next.what == what
    {
        next.span.begin = span.begin;
    } else if span.length() >= NOTICEABLE {
        path.push(Segment { phase, what, span, count: 1 });
    }
}
