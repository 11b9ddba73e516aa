//! A kubeconfig of the user's may hold anything: merging keeps what is theirs, or refuses and leaves the file.

use hoist::kubeconfig::{merge_into, unmerge_if_merged};
use hoist::store::{StateDir, StateRoot};
use hoist_phases::spec::ClusterName;
use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{any_value, change, changed};
use crate::kubeconfig::ADMIN;

const NAME: &str = "hoist-c1";
const LISTS: [&str; 3] = ["clusters", "contexts", "users"];

/// In each file; no error may repeat it.
const SECRET: &str = "hunter2hunter2";

const THEIRS: &str = "apiVersion: v1
kind: Config
# of mine
current-context: work
clusters:
- cluster: &w
    server: https://work:6443
    certificate-authority-data: Q0E=
  name: work
- {name: 'yes', cluster: *w}
contexts:
- context: {cluster: work, user: me, namespace: \"0777\"}
  name: work
users:
- name: me
  user:
    token: hunter2hunter2
- name: 1e3
  user:
    exec: {apiVersion: client.authentication.k8s.io/v1, command: aws, args: [\"a: b\", '- c', \"\"], env: null}
preferences: {colors: true}
extensions: [{name: e, extension: {a: [1, 2.5, ~, 2024-01-01]}}]
";

struct Place {
    home: tempfile::TempDir,
    state: StateDir,
    name: ClusterName,
}

impl Place {
    fn new(content: &[u8]) -> Self {
        let home = tempfile::tempdir().unwrap();
        let name = ClusterName::new("c1").unwrap();
        let state = StateRoot::new(home.path().join("state")).cluster(&name);
        std::fs::write(home.path().join("config"), content).unwrap();
        Self { home, state, name }
    }

    fn file(&self) -> std::path::PathBuf {
        self.home.path().join("config")
    }

    fn read(&self) -> Vec<u8> {
        std::fs::read(self.file()).unwrap()
    }

    /// What is beside the state directory.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.home.path()).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().display().to_string());
        names.filter(|name| name != "state").collect()
    }
}

fn yaml(bytes: &[u8]) -> Map<String, Value> {
    match serde_saphyr::from_str(std::str::from_utf8(bytes).unwrap()).unwrap() {
        Value::Object(fields) => fields,
        Value::Null => Map::new(),
        other => panic!("{other} was taken for a kubeconfig"),
    }
}

/// Everything but what is of the cluster.
fn theirs(mut fields: Map<String, Value>) -> Map<String, Value> {
    for list in LISTS {
        let items = fields.remove(list).unwrap_or_default();
        let mut items = items.as_array().cloned().unwrap_or_default();
        items.retain(|item| item["name"] != NAME);
        fields.insert(list.to_owned(), Value::Array(items));
    }
    // Those a merge may add, or set where there is none.
    for (field, default) in [("apiVersion", "v1"), ("kind", "Config")] {
        fields.entry(field).or_insert_with(|| json!(default));
    }
    let current = fields.get("current-context").and_then(Value::as_str).unwrap_or_default();
    if current.is_empty() || current == NAME {
        fields.remove("current-context");
    }
    fields
}

fn check(content: &[u8]) {
    let place = Place::new(content);
    let merged = merge_into(&place.state, &place.name, ADMIN, false, &place.file());
    assert_eq!(place.names(), ["config"], "nothing is left beside it");
    if let Err(error) = merged {
        let words = hoist::error::chain(&error).map(|cause| cause.to_string()).collect::<Vec<_>>().join(": ");
        assert_eq!(place.read(), content, "{words}");
        assert!(!words.contains(SECRET), "{words}");
        return;
    }
    let (before, after) = (yaml(content), yaml(&place.read()));
    assert_eq!(theirs(before.clone()), theirs(after.clone()));
    for list in LISTS {
        let ours = after[list].as_array().unwrap().iter().filter(|item| item["name"] == NAME).count();
        assert_eq!(ours, 1, "{list}");
    }
    // Once more changes nothing.
    let once = place.read();
    merge_into(&place.state, &place.name, ADMIN, false, &place.file()).unwrap();
    assert_eq!(place.read(), once);

    assert!(unmerge_if_merged(&place.state, &place.name).unwrap());
    let out = yaml(&place.read());
    assert_eq!(theirs(before), theirs(out.clone()));
    assert!(!Value::Object(out).to_string().contains(&format!("\"{NAME}\"")));
    assert_eq!(place.names(), ["config"]);
}

proptest! {
    #[test]
    fn a_kubeconfig_that_was_damaged_is_merged_into_or_left(changes in vec(change(), 0..8)) {
        check(changes.iter().fold(THEIRS.to_owned(), |text, change| changed(&text, change)).as_bytes());
    }

    #[test]
    fn any_bytes_are_merged_into_or_left(bytes in vec(any::<u8>(), 0..200)) {
        check(&bytes);
    }

    #[test]
    fn whatever_is_in_it_stays_as_it_is(
        names in vec(any_value(), 0..4), values in vec(any_value(), 4), switch in any::<bool>(),
    ) {
        let entry = |name: &String| json!({"name": name, "cluster": {"server": values[0], values[1].clone(): values[2]}});
        let file = json!({
            "clusters": names.iter().map(entry).collect::<Vec<_>>(),
            "users": names.iter().map(|name| json!({"name": name, "user": {"token": values[3]}})).collect::<Vec<_>>(),
            "current-context": if switch { NAME } else { "" },
            values[3].clone() + "-x": values,
        });
        check(file.to_string().as_bytes());
    }
}

/// Each of ten names stands for ten of the one before: ten thousand million in all.
#[test]
fn names_that_stand_for_ever_more_are_refused() {
    let mut text = format!("a0: &a0 [{SECRET}]\n");
    for level in 1..=10 {
        let inner = vec![format!("*a{}", level - 1); 10].join(", ");
        text += &format!("a{level}: &a{level} [{inner}]\n");
    }
    let place = Place::new(text.as_bytes());
    let error = merge_into(&place.state, &place.name, ADMIN, false, &place.file()).unwrap_err();
    assert!(!error.to_string().contains(SECRET), "{error}");
    assert_eq!(place.read(), text.as_bytes());
}

/// Whatever a file is said to be.
#[test]
fn what_is_no_file_is_refused() {
    let place = Place::new(b"");
    let endless = place.home.path().join("endless");
    std::os::unix::fs::symlink("/dev/zero", &endless).unwrap();
    for (path, words) in [(place.home.path(), "is a directory"), (&endless, "is no regular file")] {
        let error = merge_into(&place.state, &place.name, ADMIN, false, path).unwrap_err();
        assert!(hoist::error::render(&error).contains(words), "{}", hoist::error::render(&error));
    }
}
