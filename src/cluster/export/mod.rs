//! Evidence: everything that tells how a cluster fares, as files of a directory, without secrets.
//!
//! Each piece has a deadline of its own and all are gathered side by side, so that what is dead keeps
//! nothing else from being told. What could not be had is listed beside the rest.

mod engine;
mod objects;
mod patterns;
mod redact;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use futures_util::future::{BoxFuture, FutureExt as _};
use futures_util::stream;
use hoist_phases::causes;
use hoist_phases::ports::{KubeApi, Runtime as _, Store as _};
use hoist_phases::spec::ClusterSpec;
use serde::Serialize;
use serde_json::Value;

use super::doctor::Known;
use crate::config;
use crate::files::{self, FileError, PRIVATE};
use crate::runtime::Engine;
use crate::store::StateDir;

pub use redact::Redactor;

/// For one piece that says nothing else: the log of a node that is busy, say.
const PIECE: Duration = Duration::from_secs(30);

/// Pieces under way at once: each may hold a log of some MB, and asks the engine or the API server.
const AT_ONCE: usize = 16;

/// Why nothing is exported that workloads have written, or that says how they are set up.
const BLIND: &str = "the Secrets could not be read, so what they hold could not be taken out of the API's \
                     objects, events and logs of pods: these are left out";

/// For the secrets that are looked for in everything else, and for the lists that pieces come from.
const FIRST: Duration = Duration::from_secs(10);

/// What could not be had, a line each.
const ERRORS: &str = "errors.txt";

/// What a piece is, which decides how secrets are taken out of it.
#[derive(Debug)]
pub enum Content {
    /// Written by programs.
    Text(String),
    /// Settings, in YAML.
    Settings(String),
    Json(Value),
}

/// A file to be: its path in the directory, and how its content is had.
pub struct Piece<'a> {
    path: String,
    content: BoxFuture<'a, Known<Content>>,
    deadline: Duration,
}

impl<'a> Piece<'a> {
    pub fn new(path: impl Into<String>, content: impl Future<Output = Known<Content>> + Send + 'a) -> Self {
        Self { path: path.into(), content: content.boxed(), deadline: PIECE }
    }

    /// For one that is made of several, each with a deadline of its own: it must not be dropped before they end.
    #[must_use]
    pub fn within(self, deadline: Duration) -> Self {
        Self { deadline, ..self }
    }
}

impl std::fmt::Debug for Piece<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.path)
    }
}

/// Where everything comes from; what isn't there is told as such.
pub struct Sources<'a> {
    pub engine: Known<Arc<Engine>>,
    pub api: Known<Arc<dyn KubeApi>>,
    pub spec: Known<&'a ClusterSpec>,
    pub cluster: &'a str,
    pub state: &'a StateDir,
}

impl std::fmt::Debug for Sources<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Sources of {}", self.cluster)
    }
}

/// What could not be had.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Missing {
    pub path: String,
    pub reason: String,
}

/// What an export came to.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    pub cluster: String,
    /// Of the run that made it, as in its log.
    pub run: String,
    pub directory: PathBuf,
    /// Paths in the directory.
    pub files: Vec<String>,
    pub missing: Vec<Missing>,
}

#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    #[error("directory {}: is there and not empty; name a new or an empty one", .0.display())]
    Occupied(PathBuf),
    #[error("directory {}: is a file; name a new or an empty directory", .0.display())]
    NoDirectory(PathBuf),
    #[error(transparent)]
    File(#[from] FileError),
}

/// Looks whether an export can go to a directory; makes nothing.
///
/// # Errors
/// When something is there.
pub fn vacant(directory: &Path) -> Result<(), ExportError> {
    if !directory.exists() {
        return Ok(());
    }
    if !directory.is_dir() {
        return Err(ExportError::NoDirectory(directory.to_owned()));
    }
    let listed = std::fs::read_dir(directory).and_then(|mut entries| entries.next().transpose());
    match listed {
        Ok(None) => Ok(()),
        Ok(Some(_)) => Err(ExportError::Occupied(directory.to_owned())),
        Err(source) => Err(FileError::Io { operation: "list", path: directory.to_owned(), source }.into()),
    }
}

/// Gathers everything there is, and `more`, into a directory of mode 0700 that is new or empty.
///
/// # Errors
/// When the directory can't be had or written; what could not be gathered is in the summary.
pub async fn export(
    directory: &Path,
    sources: &Sources<'_>,
    more: Vec<Piece<'_>>,
) -> Result<Summary, ExportError> {
    vacant(directory)?;
    files::private_directory(directory)?;
    let containers = within(FIRST, async {
        let engine = sources.engine.as_deref().map_err(Clone::clone)?;
        engine.list(Some(sources.cluster)).await.map_err(|error| causes(&error))
    });
    let (containers, secrets, kinds, pods) = tokio::join!(
        containers,
        within(FIRST, objects::secrets(sources)),
        within(FIRST, objects::kinds(sources)),
        within(FIRST, objects::pods(sources))
    );
    let mut missing = Vec::new();
    let mut lost = |path: &str, reason: &String| {
        missing.push(Missing { path: path.to_owned(), reason: reason.clone() });
    };
    let mut redactor = Redactor::default();
    of_state(&mut redactor, sources);
    let mut pieces = more;
    match &containers {
        Ok(containers) => pieces.extend(engine::pieces(sources, containers)),
        Err(why) => lost("containers", why),
    }
    pieces.extend(objects::of_server(sources));
    match &secrets {
        Ok(secrets) => {
            redactor.learn_secrets(secrets);
            if let Err(why) = &pods {
                lost("pods", why);
            }
            match &kinds {
                Ok((kinds, silent)) => {
                    silent.iter().for_each(|(group, why)| lost(&format!("objects of {group}"), why));
                    pieces.extend(objects::pieces(sources, kinds, pods.as_deref().unwrap_or_default()));
                }
                Err(why) => lost("objects", why),
            }
        }
        Err(why) => {
            for path in ["objects", "events.txt", "pods"] {
                lost(path, &format!("{BLIND}: {why}"));
            }
        }
    }
    let redactor = Arc::new(redactor);
    let gathered = pieces.into_iter().map(|Piece { path, content, deadline }| {
        let redactor = Arc::clone(&redactor);
        async move {
            let content = within(deadline, content).await;
            // Megabytes are searched for each secret: the other pieces go on meanwhile.
            let clean = tokio::task::spawn_blocking(move || match content {
                Ok(content) => Ok(clean(&redactor, content)),
                Err(reason) => Err(redactor.text(&reason)),
            });
            (path, clean.await.unwrap_or_else(|error| Err(error.to_string())))
        }
    });
    let mut gathered = stream::iter(gathered).buffer_unordered(AT_ONCE);
    let mut written = Vec::new();
    while let Some((path, clean)) = gathered.next().await {
        match clean {
            Ok(clean) => {
                files::write(&directory.join(&path), clean.as_bytes(), PRIVATE)?;
                written.push(path);
            }
            Err(reason) => missing.push(Missing { path, reason }),
        }
    }
    missing.sort_by(|a, b| a.path.cmp(&b.path));
    written.sort();
    if !missing.is_empty() {
        let lines = missing
            .iter()
            .map(|Missing { path, reason }| format!("{path}: {}\n", reason.replace('\n', "\n    ")));
        files::write(&directory.join(ERRORS), lines.collect::<String>().as_bytes(), PRIVATE)?;
        written.push(ERRORS.to_owned());
    }
    written.push("summary.json".to_owned());
    let summary = Summary {
        cluster: sources.cluster.to_owned(),
        run: crate::run::id().to_owned(),
        directory: directory.to_owned(),
        files: written,
        missing,
    };
    let json = serde_json::to_vec_pretty(&summary).unwrap_or_default();
    files::write(&directory.join("summary.json"), &json, PRIVATE)?;
    Ok(summary)
}

async fn within<T>(deadline: Duration, answer: impl Future<Output = Known<T>>) -> Known<T> {
    let late = || format!("no answer within {} s", deadline.as_secs());
    tokio::time::timeout(deadline, answer).await.unwrap_or_else(|_| Err(late()))
}

fn clean(redactor: &Redactor, content: Content) -> String {
    match content {
        Content::Text(text) => redactor.text(&text),
        Content::Settings(text) => redactor.settings(&text),
        Content::Json(mut value) => {
            match &mut value {
                Value::Array(items) => items.iter_mut().for_each(|item| redactor.object(item)),
                other => redactor.object(other),
            }
            serde_json::to_string_pretty(&value).unwrap_or_default() + "\n"
        }
    }
}

/// The keys and tokens that hoist itself has made.
fn of_state(redactor: &mut Redactor, sources: &Sources<'_>) {
    if let Ok(spec) = &sources.spec {
        let token = spec.token.expose();
        token.split_once('.').into_iter().for_each(|(_, secret)| redactor.learn(secret));
        redactor.learn(&token);
        let proxies = [&spec.proxy.http, &spec.proxy.https].into_iter().flatten();
        // What stands before the host: a user and a password, each a secret as well.
        let users = proxies.filter_map(|url| url.expose().rsplit_once('@')).map(|(user, _)| user);
        for user in users.filter_map(|user| user.split_once("://").map(|(_, user)| user)) {
            redactor.learn(user);
            user.split_once(':').into_iter().for_each(|(_, password)| redactor.learn(password));
        }
        if let Some(config) = &spec.api_server.encryption_config {
            config::encryption_keys(config).iter().for_each(|key| redactor.learn(key));
        }
    }
    let admin = sources.state.read("kubeconfig").ok().flatten().unwrap_or_default();
    let admin = String::from_utf8_lossy(&admin);
    let key = admin.lines().filter_map(|line| line.split_once("client-key-data:"));
    key.for_each(|(_, value)| redactor.learn(value.trim().trim_matches('"')));
}

/// A name as part of a path: what Kubernetes and engines call things fits already.
fn file_name(name: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let name: String = name.chars().map(|c| if fits(c) { c } else { '_' }).collect();
    if name.starts_with('.') { format!("_{name}") } else { name }
}
