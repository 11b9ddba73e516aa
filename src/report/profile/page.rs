//! The timeline as one page: SVG drawn here, no script, nothing from a network.

use std::fmt::Write as _;

use hoist_phases::events::Peer;

use super::{Call, Profile, Segment, Span};
use crate::report::html;

/// Width of the drawing in its own units; the page scales it.
const WIDTH: u64 = 1200;
/// Room for the names of the phases.
const LEFT: u64 = 130;
/// Heights of a phase's bar and of a lane of its calls.
const BAR: u64 = 20;
const LANE: u64 = 7;
/// Room for the names of the levels and for the axis.
const TOP: u64 = 40;

pub(super) fn html(profile: &Profile, title: &str) -> String {
    let path = profile.critical_path();
    let body = format!(
        "<h1>{}</h1>\n<p>{} in all. Bars are phases; below each its calls to \
         <b class=\"engine\">the container engine</b> and <b class=\"api\">the API server</b>. Underlined in \
         <b class=\"critical\">this colour</b>: the critical path. Rest the pointer on a bar for its name and time.</p>\n\
         {}\n<h2>Critical path</h2>\n{}\n<h2>Longest calls</h2>\n{}",
        html::escape(title),
        seconds(profile.end()),
        drawing(profile, &path),
        segments(&path, profile.end()),
        longest(profile),
    );
    html::page(title, STYLE, &body)
}

const STYLE: &str = "
.phase { fill: var(--bar); } .failed { fill: var(--bad); } .unchanged, .skipped { fill: var(--faint); }
rect.engine { fill: var(--one); } rect.api { fill: var(--two); } rect.critical { fill: var(--bad); }
b.engine { color: var(--one); } b.api { color: var(--two); } b.critical { color: var(--bad); }
line { stroke: var(--faint); } line.level { stroke: var(--three); stroke-dasharray: 4 3; } text.level { fill: var(--three); }
";

fn drawing(profile: &Profile, path: &[Segment]) -> String {
    let end = profile.end().max(1);
    let x = |at: u64| LEFT + at.min(end) * (WIDTH - LEFT - 10) / end;
    let mut svg = String::new();
    let mut y = TOP;
    let mut phases: Vec<_> = profile.phases.iter().collect();
    phases.sort_by_key(|phase| (phase.span.begin, phase.span.end));
    let rows = phases.into_iter().map(|phase| (Some(phase.phase), phase.span, phase.outcome));
    // Calls of nobody's are those of the probes.
    let probes = (None, Span { begin: 0, end: 0 }, "probes");
    for (phase, span, outcome) in rows.chain([probes]) {
        let lanes = lanes(profile.calls.iter().filter(|call| call.phase == phase).collect());
        if phase.is_none() && lanes.is_empty() {
            continue;
        }
        let name = phase.map_or("probes", |phase| phase.name());
        let _ = writeln!(svg, "<text x=\"4\" y=\"{}\">{name}</text>", y + 15);
        if phase.is_some() {
            let what = format!("{name}: {outcome}");
            bar(&mut svg, &x, span, y, BAR - 4, &format!("phase {outcome}"), &what);
        }
        for part in path.iter().filter(|part| phase.is_some() && part.phase == phase) {
            bar(&mut svg, &x, part.span, y + BAR - 4, 3, "critical", &part.what);
        }
        for (lane, calls) in (0_u64..).zip(&lanes) {
            for call in calls {
                let class = match call.peer {
                    Peer::Engine => "engine",
                    Peer::Api => "api",
                };
                bar(&mut svg, &x, call.span, y + BAR + lane * LANE, LANE - 2, class, &call.what);
            }
        }
        y += BAR + u64::try_from(lanes.len()).unwrap_or_default() * LANE + 6;
    }
    for tick in ticks(end) {
        let (x, name) = (x(tick), seconds(tick));
        let _ = writeln!(svg, "<line x1=\"{x}\" x2=\"{x}\" y1=\"{TOP}\" y2=\"{y}\"/>");
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"{}\" text-anchor=\"middle\">{name}</text>", y + 14);
    }
    for (index, level) in (0_u64..).zip(&profile.levels) {
        let (x, row) = (x(level.at), 12 + index % 2 * 14);
        let _ = writeln!(svg, "<line class=\"level\" x1=\"{x}\" x2=\"{x}\" y1=\"{row}\" y2=\"{y}\"/>");
        let _ = writeln!(
            svg,
            "<text class=\"level\" x=\"{}\" y=\"{row}\" text-anchor=\"end\">{} {}</text>",
            x.saturating_sub(4),
            html::escape(&level.what),
            seconds(level.at)
        );
    }
    format!("<svg viewBox=\"0 0 {WIDTH} {}\" role=\"img\">\n{svg}</svg>", y + 20)
}

fn bar(svg: &mut String, x: &impl Fn(u64) -> u64, span: Span, y: u64, height: u64, class: &str, what: &str) {
    let (from, width) = (x(span.begin), x(span.end).saturating_sub(x(span.begin)).max(1));
    let _ = writeln!(
        svg,
        "<rect class=\"{class}\" x=\"{from}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"><title>{}, {} from {} on</title></rect>",
        html::escape(what),
        millis(span.length()),
        seconds(span.begin)
    );
}

/// Calls in as few lanes as keep those of one time apart.
fn lanes(mut calls: Vec<&Call>) -> Vec<Vec<&Call>> {
    calls.sort_by_key(|call| call.span.begin);
    let mut lanes: Vec<Vec<&Call>> = Vec::new();
    for call in calls {
        let free =
            lanes.iter_mut().find(|lane| lane.last().is_none_or(|last| last.span.end <= call.span.begin));
        match free {
            Some(lane) => lane.push(call),
            None => lanes.push(vec![call]),
        }
    }
    lanes
}

/// Moments for the axis: at most twelve, at whole, half or tenth parts of a second and their like.
fn ticks(end: u64) -> impl Iterator<Item = u64> {
    let steps = [100_000, 200_000, 500_000]
        .into_iter()
        .flat_map(|step| [1, 10, 100, 1000, 10_000].map(|by| step * by));
    let step = steps.filter(|step| end / step <= 12).min().unwrap_or(end.max(1));
    (0..=end / step).map(move |index| index * step)
}

fn segments(path: &[Segment], end: u64) -> String {
    let rows = path.iter().map(|part| {
        let share = part.span.length() * 100 / end.max(1);
        [part.what.clone(), seconds(part.span.begin), millis(part.span.length()), format!("{share} %")]
    });
    html::table(&["what", "from", "time", "share"], rows)
}

fn longest(profile: &Profile) -> String {
    let mut calls: Vec<_> = profile.calls.iter().collect();
    calls.sort_by_key(|call| std::cmp::Reverse(call.span.length()));
    let rows = calls.into_iter().take(20).map(|call| {
        let phase = call.phase.map_or("-", |phase| phase.name());
        let failed = if call.failed { "failed" } else { "" };
        [
            phase.to_owned(),
            call.what.clone(),
            seconds(call.span.begin),
            millis(call.span.length()),
            failed.to_owned(),
        ]
    });
    html::table(&["phase", "call", "from", "time", ""], rows)
}

fn seconds(micros: u64) -> String {
    format!("{}.{:02} s", micros / 1_000_000, micros % 1_000_000 / 10_000)
}

fn millis(micros: u64) -> String {
    format!("{} ms", micros.div_ceil(1000))
}
