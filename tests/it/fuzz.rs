//! Whatever a file says, hoist answers with settings or an error; what else comes from outside is below.
//! `PROPTEST_CASES` says how often each is tried: some thousand a second on two cores.

mod answers;
mod archives;
mod json;
mod kubeconfig;

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

/// Text that YAML takes for something else, or that needs quotes.
fn any_value() -> impl Strategy<Value = String> {
    prop_oneof![
        "[ -~]{0,12}",
        "[a-z]{1,4}\n[a-z]{1,4}",
        proptest::sample::select(&WORDS[..]).prop_map(str::to_owned)
    ]
}

prop_compose! {
    /// Fields of a file that is right.
    fn right()(
        pods in 1_u8..60, services in 64_u8..120, mask in 20_u8..=26,
        quota in 64_u32..700, ttl in 0_u32..100_000,
        args in proptest::collection::btree_map("[a-z]{3,9}", any_value(), 0..4),
        gates in proptest::collection::btree_map("[A-Z][a-z]{3,9}", any::<bool>(), 0..3),
        sans in vec("[a-z]{1,8}\\.example", 0..3),
        labels in proptest::collection::btree_map("[a-z]{1,8}", "[a-z0-9]{0,8}", 0..3),
        counts in vec(0_u32..9, 0..3),
        durable in any::<bool>(), spread in any::<bool>(), dual in any::<bool>(),
    ) -> serde_json::Value {
        let group = |count: &u32| serde_json::json!({"count": count, "labels": labels});
        let six = |range: &str| if dual { format!(",{range}") } else { String::new() };
        serde_json::json!({
            "apiVersion": "hoist.dev/v1alpha1", "kind": "Cluster",
            "networking": {
                "podSubnet": format!("10.{pods}.0.0/16{}", six("fd11::/56")),
                "serviceSubnet": format!("10.{services}.0.0/16{}", six("fd12::/112")),
                "nodeMaskSizeIpv4": mask,
            },
            "etcd": {"durable": durable, "quota": format!("{quota}Mi")},
            "tokenTtl": format!("{ttl}s"),
            "extraSans": sans,
            "featureGates": gates,
            "components": {"kube-scheduler": {"extraArgs": args}},
            "placement": {"spread": {"enabled": spread}},
            "nodes": counts.iter().map(group).collect::<Vec<_>>(),
        })
    }
}

proptest! {
    #[test]
    fn what_is_right_is_the_same_after_a_view(file in right()) {
        let read = |text: &str| {
            let file = parse_file(Path::new("c.yaml"), text).map_err(|error| error.to_string())?;
            settings(Default::default(), Some(file), base(), None).map_err(|error| error.to_string())
        };
        let first = read(&file.to_string());
        prop_assert!(first.is_ok(), "{:?}", first.err());
        let first = first.unwrap();
        let shown = view::yaml(&first, &Origin::Default);
        match read(&shown) {
            Ok(again) => prop_assert_eq!(again.spec, first.spec, "{}", shown),
            Err(error) => prop_assert!(false, "{error}\n{shown}"),
        }
    }
}
