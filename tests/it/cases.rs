//! docs/cases.md names tests: each has to be there, and those of generated files after their reports.

use std::collections::BTreeSet;
use std::path::Path;

const PAGE: &str = include_str!("../../docs/cases.md");

/// Names of all functions in the Rust sources below a directory.
fn functions(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).unwrap();
            let names = text.split("fn ").skip(1).filter_map(|rest| rest.split_once('('));
            found.extend(names.map(|(name, _)| name.to_owned()));
        }
    }
}

/// Report, level and tests of each row.
fn rows() -> impl Iterator<Item = (&'static str, &'static str, Vec<&'static str>)> {
    let rows = PAGE.lines().filter(|line| line.starts_with("| ")).skip(2);
    rows.map(|row| {
        let cells: Vec<_> = row.trim_matches('|').split('|').map(str::trim).collect();
        let tests = cells[2].split(',').map(|name| name.trim().trim_matches('`'));
        (cells[0], cells[1], tests.filter(|name| !name.is_empty()).collect())
    })
}

#[test]
fn every_test_of_the_table_is_there() {
    let mut found = BTreeSet::new();
    for directory in ["src", "phases/src", "tests"] {
        functions(&Path::new(env!("CARGO_MANIFEST_DIR")).join(directory), &mut found);
    }
    assert!(rows().count() > 30, "the table is read");
    for (report, level, tests) in rows() {
        for test in &tests {
            assert!(found.contains(*test), "{report}: there is no test {test}");
        }
        let name: String = report.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        let named = tests.iter().any(|test| test.starts_with(&format!("{}_", name.to_lowercase())));
        assert!(level != "a" || named, "{report}: no test is named after it");
    }
}
