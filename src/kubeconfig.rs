//! Puts a cluster's access into the user's kubeconfig and takes it out again. Everything else in
//! the file stays, fields hoist doesn't know included; comments and the order of keys don't, as
//! with kubectl's own `config` commands.

use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use hoist_phases::ports::{Store as _, StoreError};
use hoist_phases::spec::ClusterName;
use serde_json::{Map, Value, json};

use crate::files::{self, FileError, KubeconfigLock};
use crate::store::StateDir;
use crate::{digest, env};

/// How long another program may hold the file's lock.
const LOCK_WAIT: Duration = Duration::from_secs(10);

/// Most bytes of a kubeconfig: one with thousands of clusters has less.
const LARGEST: u64 = 16 << 20;

/// File of the state directory that names the kubeconfig merged into.
const RECORD: &str = "merged-into";

/// File of the state directory that names the files written to.
const COPIES: &str = "written-to.json";

/// The three lists of a kubeconfig, with the field each entry holds its value in.
const LISTS: [(&str, &str); 3] = [("clusters", "cluster"), ("contexts", "context"), ("users", "user")];

#[derive(Debug, thiserror::Error)]
pub enum KubeconfigError {
    #[error("no kubeconfig to merge into: neither KUBECONFIG nor HOME is set")]
    NoPath,
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{}: is not text in UTF-8", .0.display())]
    Encoding(PathBuf),
    #[error("{}: is no kubeconfig: {message}", path.display())]
    Parse { path: PathBuf, message: String },
    #[error("{}: can't be written as YAML", path.display())]
    Serialize {
        path: PathBuf,
        #[source]
        source: serde_saphyr::SerializeError,
    },
    #[error("note where the kubeconfig was merged")]
    Record(#[source] StoreError),
}

/// Name of the cluster, context and user in the user's file.
pub fn entry_name(cluster: &ClusterName) -> String {
    format!("hoist-{cluster}")
}

/// Merges `admin` into the user's kubeconfig and gives its path. The current context stays,
/// unless there is none or `switch` says so.
///
/// # Errors
/// When the file can't be locked, understood or written; it is unchanged then.
pub fn merge(
    state: &StateDir,
    cluster: &ClusterName,
    admin: &str,
    switch: bool,
) -> Result<PathBuf, KubeconfigError> {
    let path = user_path(env::value(env::KUBECONFIG), env::value(env::HOME))?;
    merge_into(state, cluster, admin, switch, &path)
}

/// As [`merge`], into a file that is named.
///
/// # Errors
/// As [`merge`].
pub fn merge_into(
    state: &StateDir,
    cluster: &ClusterName,
    admin: &str,
    switch: bool,
    path: &Path,
) -> Result<PathBuf, KubeconfigError> {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let _lock = KubeconfigLock::acquire(&path, LOCK_WAIT)?;
    let present = read(&path)?;
    let merged = merged(&path, present.as_deref(), admin, &entry_name(cluster), switch)?;
    // First the note: a cluster that is noted and not merged is harmless, the reverse isn't.
    state.write(RECORD, path.as_os_str().as_encoded_bytes()).map_err(KubeconfigError::Record)?;
    write(&path, &merged)?;
    Ok(path)
}

/// Takes out what [`merge`] put in; `false` when it never did.
///
/// # Errors
/// As [`merge`].
pub fn unmerge_if_merged(state: &StateDir, cluster: &ClusterName) -> Result<bool, KubeconfigError> {
    let Some(path) = merged_into(state)? else { return Ok(false) };
    if path.exists() {
        let _lock = KubeconfigLock::acquire(&path, LOCK_WAIT)?;
        if let Some(present) = read(&path)? {
            write(&path, &unmerged(&path, &present, &entry_name(cluster))?)?;
        }
    }
    state.remove(RECORD).map_err(KubeconfigError::Record)?;
    Ok(true)
}

/// Writes the cluster's access to a file of its own, and notes it for [`refresh`].
///
/// # Errors
/// When it can't be written.
pub fn write_copy(state: &StateDir, path: &Path, admin: &str) -> Result<(), KubeconfigError> {
    files::write_through(path, admin.as_bytes(), files::PRIVATE)?;
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut copies = copies(state)?;
    copies.insert(path, digest::of_bytes(admin.as_bytes()));
    note_copies(state, &copies)
}

/// What came of [`refresh`].
#[derive(Debug, Default)]
pub struct Refreshed {
    pub written: Vec<PathBuf>,
    /// Each names its file; the others are up to date.
    pub failed: Vec<KubeconfigError>,
}

/// Brings up to date what [`merge`] and [`write_copy`] wrote: a port of the engine's choice is another
/// after its restart, and certificates end. What is no longer there, or was changed by somebody else
/// since, is left alone, and a file that can't be read or written keeps no other from it.
pub fn refresh(state: &StateDir, cluster: &ClusterName, admin: &str) -> Refreshed {
    let mut done = Refreshed::default();
    let mut keep = |result: Result<Option<PathBuf>, KubeconfigError>| match result {
        Ok(written) => done.written.extend(written),
        Err(error) => done.failed.push(error),
    };
    match copies(state) {
        Ok(noted) => {
            for path in noted.keys() {
                keep(refresh_copy(state, path, &noted, admin));
            }
        }
        Err(error) => keep(Err(error)),
    }
    keep(refresh_merged(state, cluster, admin));
    done
}

fn refresh_copy(
    state: &StateDir,
    path: &Path,
    noted: &BTreeMap<PathBuf, String>,
    admin: &str,
) -> Result<Option<PathBuf>, KubeconfigError> {
    let new = digest::of_bytes(admin.as_bytes());
    let Some(present) = files::read(path)?.map(|content| digest::of_bytes(&content)) else { return Ok(None) };
    if present == new || noted.get(path) != Some(&present) {
        return Ok(None);
    }
    files::write_through(path, admin.as_bytes(), files::PRIVATE)?;
    // At once: a file that isn't noted as it is counts as somebody else's from then on.
    let mut copies = copies(state)?;
    copies.insert(path.to_owned(), new);
    note_copies(state, &copies)?;
    Ok(Some(path.to_owned()))
}

fn refresh_merged(
    state: &StateDir,
    cluster: &ClusterName,
    admin: &str,
) -> Result<Option<PathBuf>, KubeconfigError> {
    let Some(path) = merged_into(state)?.filter(|path| path.exists()) else { return Ok(None) };
    let _lock = KubeconfigLock::acquire(&path, LOCK_WAIT)?;
    let Some(present) = read(&path)? else { return Ok(None) };
    let (entry, before) = (entry_name(cluster), parse(&path, &present)?);
    let listed = |list| {
        before
            .get(list)
            .and_then(Value::as_array)
            .is_some_and(|all| all.iter().any(|old| old["name"] == entry))
    };
    if !(listed("clusters") && listed("users")) {
        return Ok(None);
    }
    let merged = merged(&path, Some(&present), admin, &entry, false)?;
    // The user's own choices, of a context with a namespace as well, stay.
    let same = |list| merged.get(list) == before.get(list);
    if same("clusters") && same("users") {
        return Ok(None);
    }
    let mut fields = before;
    for list in ["clusters", "users"] {
        fields.insert(list.to_owned(), merged[list].clone());
    }
    write(&path, &Value::Object(fields))?;
    Ok(Some(path))
}

/// Files that hold nothing but the cluster's access, with the SHA-256 that each was written with.
fn copies(state: &StateDir) -> Result<BTreeMap<PathBuf, String>, KubeconfigError> {
    let noted = state.read(COPIES).map_err(KubeconfigError::Record)?;
    // A note that can't be read costs no more than a file that isn't kept up to date.
    Ok(noted.and_then(|noted| serde_json::from_slice(&noted).ok()).unwrap_or_default())
}

fn note_copies(state: &StateDir, copies: &BTreeMap<PathBuf, String>) -> Result<(), KubeconfigError> {
    let json = serde_json::to_vec(copies).unwrap_or_default();
    state.write(COPIES, &json).map_err(KubeconfigError::Record)
}

fn merged_into(state: &StateDir) -> Result<Option<PathBuf>, KubeconfigError> {
    let noted = state.read(RECORD).map_err(KubeconfigError::Record)?;
    Ok(noted.map(|noted| PathBuf::from(String::from_utf8_lossy(&noted).into_owned())))
}

/// The first file of `$KUBECONFIG`, else `~/.kube/config`.
fn user_path(kubeconfig: Option<String>, home: Option<String>) -> Result<PathBuf, KubeconfigError> {
    let listed =
        kubeconfig.and_then(|list| std::env::split_paths(&list).find(|path| !path.as_os_str().is_empty()));
    listed.or_else(|| home.map(|home| Path::new(&home).join(".kube/config"))).ok_or(KubeconfigError::NoPath)
}

fn read(path: &Path) -> Result<Option<String>, KubeconfigError> {
    let content = files::read_regular(path, LARGEST)?;
    content
        .map(|bytes| String::from_utf8(bytes).map_err(|_| KubeconfigError::Encoding(path.to_owned())))
        .transpose()
}

/// Writes through symbolic links; the mode of a file that is there stays.
fn write(path: &Path, value: &Value) -> Result<(), KubeconfigError> {
    let text = serde_saphyr::to_string(value)
        .map_err(|source| KubeconfigError::Serialize { path: path.to_owned(), source })?;
    let mode = std::fs::metadata(path).map_or(files::PRIVATE, |found| found.permissions().mode() & 0o777);
    Ok(files::write_through(path, text.as_bytes(), mode)?)
}

fn parse(path: &Path, text: &str) -> Result<Map<String, Value>, KubeconfigError> {
    let wrong = |message: &str| KubeconfigError::Parse { path: path.to_owned(), message: message.to_owned() };
    let parsed: Value = serde_saphyr::from_str(text).map_err(|error| {
        // The excerpt that the parser shows could hold a key.
        wrong(error.without_snippet().to_string().lines().next().unwrap_or_default())
    })?;
    let fields = match parsed {
        Value::Null => Map::new(),
        Value::Object(fields) => fields,
        _ => return Err(wrong("the document is no mapping")),
    };
    for (list, _) in LISTS {
        if !matches!(fields.get(list), None | Some(Value::Null | Value::Array(_))) {
            return Err(wrong(&format!("{list} is no list")));
        }
    }
    Ok(fields)
}

fn merged(
    path: &Path,
    present: Option<&str>,
    admin: &str,
    entry: &str,
    switch: bool,
) -> Result<Value, KubeconfigError> {
    let admin = parse(Path::new("the cluster's kubeconfig"), admin)?;
    let mut fields = present.map_or_else(|| Ok(Map::new()), |text| parse(path, text))?;
    fields.entry("apiVersion").or_insert_with(|| json!("v1"));
    fields.entry("kind").or_insert_with(|| json!("Config"));
    for (list, field) in LISTS {
        let value = if field == "context" {
            json!({"cluster": entry, "user": entry})
        } else {
            admin
                .get(list)
                .and_then(|list| list.get(0))
                .and_then(|first| first.get(field))
                .cloned()
                .unwrap_or_default()
        };
        let new = json!({"name": entry, field: value});
        let slot = fields.entry(list).or_insert(Value::Null);
        let mut entries = std::mem::take(slot).as_array().cloned().unwrap_or_default();
        match entries.iter_mut().find(|old| old["name"] == entry) {
            Some(old) => *old = new,
            None => entries.push(new),
        }
        *slot = Value::Array(entries);
    }
    let current = fields.get("current-context").and_then(Value::as_str).unwrap_or_default();
    if switch || current.is_empty() {
        fields.insert("current-context".to_owned(), json!(entry));
    }
    Ok(Value::Object(fields))
}

fn unmerged(path: &Path, present: &str, entry: &str) -> Result<Value, KubeconfigError> {
    let mut fields = parse(path, present)?;
    for (list, _) in LISTS {
        if let Some(Value::Array(entries)) = fields.get_mut(list) {
            entries.retain(|old| old["name"] != entry);
        }
    }
    if fields.get("current-context").is_some_and(|current| current == entry) {
        fields.insert("current-context".to_owned(), json!(""));
    }
    Ok(Value::Object(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    const ADMIN: &str = "
apiVersion: v1
kind: Config
clusters: [{name: kubernetes, cluster: {server: 'https://127.0.0.1:1', certificate-authority-data: Q0E=}}]
users: [{name: kubernetes-admin, user: {client-key-data: S0VZ}}]
contexts: [{name: a, context: {cluster: kubernetes, user: kubernetes-admin}}]
current-context: a
";

    fn merge_text(present: Option<&str>, switch: bool) -> Value {
        merged(Path::new("config"), present, ADMIN, "hoist-x", switch).unwrap_or_default()
    }

    #[test]
    fn merging_into_nothing_makes_a_whole_file() {
        let value = merge_text(None, false);
        assert_eq!(value["clusters"][0]["cluster"]["server"], "https://127.0.0.1:1");
        assert_eq!(value["contexts"][0]["context"], json!({"cluster": "hoist-x", "user": "hoist-x"}));
        assert_eq!(value["users"][0], json!({"name": "hoist-x", "user": {"client-key-data": "S0VZ"}}));
        assert_eq!(value["current-context"], "hoist-x");
        assert_eq!(merge_text(Some("# empty\n"), false), value);
    }

    #[test]
    fn what_is_not_ours_stays() {
        let present = "
current-context: work
clusters: [{name: work, cluster: {server: 'https://w', extra: 1}}]
contexts: [{name: work, context: {cluster: work, user: me}}]
users: null
extensions: [{name: e, extension: {a: true}}]
";
        let value = merge_text(Some(present), false);
        assert_eq!(value["current-context"], "work");
        assert_eq!(
            value["clusters"][0],
            json!({"name": "work", "cluster": {"server": "https://w", "extra": 1}})
        );
        assert_eq!(value["extensions"][0]["extension"]["a"], true);
        assert_eq!(merge_text(Some(present), true)["current-context"], "hoist-x");

        let back = serde_saphyr::to_string(&value).unwrap_or_default();
        let out = unmerged(Path::new("config"), &back, "hoist-x").unwrap_or_default();
        assert_eq!(out["clusters"].as_array().map(Vec::len), Some(1));
        assert_eq!(out["users"], json!([]));
        assert_eq!(out["current-context"], "work");
    }

    #[test]
    fn merging_twice_replaces() {
        let once = serde_saphyr::to_string(&merge_text(None, false)).unwrap_or_default();
        let twice = merge_text(Some(&once), false);
        assert_eq!(twice, merge_text(None, false));
    }

    #[test]
    fn a_file_of_another_shape_is_refused_without_showing_it() {
        for bad in ["- a", "clusters: {secret: hunter2}", "a: [hunter2"] {
            let error =
                merged(Path::new("config"), Some(bad), ADMIN, "hoist-x", false).map_err(|e| e.to_string());
            assert!(error.as_ref().is_err_and(|e| !e.contains("hunter2")), "{bad}: {error:?}");
        }
    }

    #[test]
    fn the_first_listed_file_wins() {
        let path = |list: Option<&str>, home: Option<&str>| {
            user_path(list.map(str::to_owned), home.map(str::to_owned)).ok()
        };
        assert_eq!(path(Some(":/a:/b"), Some("/h")), Some("/a".into()));
        assert_eq!(path(None, Some("/h")), Some("/h/.kube/config".into()));
        assert_eq!(path(None, None), None);
    }
}
