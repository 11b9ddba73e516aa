//! The tables of docs/security.md, which a running cluster has to agree with.

use std::collections::BTreeMap;

const TEXT: &str = include_str!("../../../docs/security.md");

/// A row of a table: what is in the column of each name.
pub(crate) type Row = BTreeMap<String, String>;

fn section(heading: &str) -> impl Iterator<Item = &'static str> {
    let start = format!("## {heading}");
    TEXT.lines().skip_while(move |line| *line != start).skip(1).take_while(|line| !line.starts_with("## "))
}

fn cells(line: &str) -> impl Iterator<Item = String> {
    line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned())
}

/// The one table of a section.
pub(crate) fn table(heading: &str) -> Vec<Row> {
    let mut lines = section(heading).filter(|line| line.starts_with('|'));
    let names: Vec<_> = cells(lines.next().unwrap_or_else(|| panic!("no table in {heading:?}"))).collect();
    // The second line only separates.
    let rows: Vec<Row> = lines.skip(1).map(|line| names.iter().cloned().zip(cells(line)).collect()).collect();
    assert!(rows.iter().all(|row| row.len() == names.len()), "{heading:?}: {rows:?}");
    rows
}

/// The list of a section, without the marks around code.
pub(crate) fn list(heading: &str) -> Vec<String> {
    let items: Vec<_> = section(heading).filter_map(|line| line.strip_prefix("- ")).collect();
    assert!(!items.is_empty(), "no list in {heading:?}");
    items.into_iter().map(|item| item.trim_matches('`').to_owned()).collect()
}
