//! Whatever a file says, hoist answers with settings or an error. `PROPTEST_CASES` says how often
//! each is tried: some thousand a second on two cores.

use std::path::Path;

use hoist::config::{EXAMPLE, Origin, defaults, parse_file, settings, view};
use hoist_phases::spec::{BootstrapToken, ClusterName, ClusterSpec};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

/// What people, editors and other programs put where it doesn't belong.
const WORDS: [&str; 24] = [
    "null",
    "~",
    "{}",
    "[]",
    "[[",
    "- ",
    ": ",
    "&a",
    "*a",
    "!!binary",
    "|\n",
    ">-\n  x",
    "---\n",
    "\t",
    "\"",
    "'",
    "-1",
    "1e999",
    "0x",
    "99999999999999999999",
    "yes",
    "<<: *a",
    "\u{feff}",
    "é\u{0}",
];

/// One change of a text.
#[derive(Debug, Clone)]
enum Change {
    Insert(Index, &'static str),
    Replace(Index, char),
    DropLine(Index),
    RepeatLine(Index),
    SwapLines(Index, Index),
    Indent(Index),
    CutAt(Index),
}

fn change() -> impl Strategy<Value = Change> {
    prop_oneof![
        (any::<Index>(), proptest::sample::select(&WORDS[..]))
            .prop_map(|(at, word)| Change::Insert(at, word)),
        (any::<Index>(), any::<char>()).prop_map(|(at, letter)| Change::Replace(at, letter)),
        any::<Index>().prop_map(Change::DropLine),
        any::<Index>().prop_map(Change::RepeatLine),
        (any::<Index>(), any::<Index>()).prop_map(|(a, b)| Change::SwapLines(a, b)),
        any::<Index>().prop_map(Change::Indent),
        any::<Index>().prop_map(Change::CutAt),
    ]
}

fn changed(text: &str, change: &Change) -> String {
    let letters: Vec<char> = text.chars().collect();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    if letters.is_empty() || lines.is_empty() {
        return text.to_owned();
    }
    match change {
        Change::Insert(at, word) => {
            let (before, after) = letters.split_at(at.index(letters.len()));
            return before.iter().collect::<String>() + word + &after.iter().collect::<String>();
        }
        Change::Replace(at, letter) => {
            let mut letters = letters;
            let at = at.index(letters.len());
            letters[at] = *letter;
            return letters.into_iter().collect();
        }
        Change::CutAt(at) => return letters[..at.index(letters.len())].iter().collect(),
        Change::DropLine(at) => {
            lines.remove(at.index(lines.len()));
        }
        Change::RepeatLine(at) => {
            let at = at.index(lines.len());
            lines.insert(at, lines[at].clone());
        }
        Change::SwapLines(a, b) => {
            let (a, b) = (a.index(lines.len()), b.index(lines.len()));
            lines.swap(a, b);
        }
        Change::Indent(at) => {
            let at = at.index(lines.len());
            lines[at].insert_str(0, "  ");
        }
    }
    lines.join("\n")
}

fn base() -> ClusterSpec {
    defaults(ClusterName::new("t").unwrap(), BootstrapToken::parse("abcdef.1234567890123456").unwrap())
}

fn judge(text: &str) {
    if let Ok(file) = parse_file(Path::new("c.yaml"), text)
        && let Ok(settings) = settings(Default::default(), Some(file), base(), None)
    {
        // What is taken can be shown.
        view::yaml(&settings, &Origin::Default);
    }
}

proptest! {
    #[test]
    fn a_file_that_was_damaged_is_taken_or_refused(changes in vec(change(), 1..12)) {
        judge(&changes.iter().fold(EXAMPLE.replace("# ", ""), |text, change| changed(&text, change)));
        judge(&changes.iter().fold(EXAMPLE.to_owned(), |text, change| changed(&text, change)));
    }

    #[test]
    fn any_text_is_taken_or_refused(text in any::<String>()) {
        judge(&text);
        judge(&format!("apiVersion: hoist.dev/v1alpha1\nkind: Cluster\n{text}"));
    }
}
