//! `hoist report`.

use super::args::{Global, ReportArgs};
use super::session::{self, Session, SessionError};
use crate::cluster::usage::{Row, Usage, watch};
use crate::config;
use crate::error::BoxError;
use crate::files;
use crate::report::{self, html};

pub(super) async fn run(global: &Global, args: &ReportArgs) -> Result<(), BoxError> {
    let ReportArgs { duration, html, output } = args;
    let duration = config::time_limit("--for", duration)?;
    // Not after all the watching.
    if let Some(path) = html {
        files::writable(path)?;
    }
    let session = Session::new(global)?;
    let engine = session::engine().await?;
    if !session::has_containers(&engine, &session.name).await? {
        return Err(SessionError::NoCluster(session.name).into());
    }
    let usage = watch(&engine, session.name.as_str(), duration).await?;
    // First, so that it isn't lost should the page have no room.
    report::output::formatted(output.output, &usage, text)?;
    if let Some(path) = html {
        files::write(path, page(&usage).as_bytes(), files::PRIVATE)?;
    }
    Ok(())
}

const HEADER: [&str; 5] = ["NAME", "CPU", "RSS", "WORKING SET", "PEAK"];

fn text(usage: &Usage) -> String {
    let mut text =
        format!("cluster {}, watched for {}\n\n", usage.cluster, report::seconds(usage.watched_ms));
    text += &report::table(HEADER, rows(usage).map(cells));
    text
}

fn rows(usage: &Usage) -> impl Iterator<Item = &Row> {
    usage.components.iter().chain([&usage.control_plane]).chain(&usage.nodes)
}

fn cells(row: &Row) -> [String; 5] {
    [
        row.name.clone(),
        format!("{}m", row.cpu_millis),
        mebibytes(row.rss_bytes),
        mebibytes(row.working_set_bytes),
        row.peak_bytes.map_or_else(|| "-".to_owned(), mebibytes),
    ]
}

fn mebibytes(bytes: u64) -> String {
    format!("{} MiB", bytes.div_ceil(1 << 20))
}

/// Bars of working set and processor time, and the table.
fn page(usage: &Usage) -> String {
    let bars = |title: &str, value: fn(&Row) -> u64, text: fn(u64) -> String| {
        let bars = rows(usage).map(|row| (row.name.as_str(), value(row), text(value(row))));
        format!("<h2>{title}</h2>\n{}", html::bars(bars))
    };
    let body = format!(
        "<h1>Cluster {}</h1>\n<p>Watched for {}.</p>\n{}\n{}\n<h2>Table</h2>\n{}",
        html::escape(&usage.cluster),
        report::seconds(usage.watched_ms),
        bars("Memory that can't be dropped", |row| row.working_set_bytes, mebibytes),
        bars("Processor, thousandths", |row| row.cpu_millis, |millis| format!("{millis}m")),
        html::table(&HEADER, rows(usage).map(cells)),
    );
    html::page(&format!("hoist report: {}", usage.cluster), "", &body)
}
