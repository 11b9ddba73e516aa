//! `hoist wait`: returns once what is named is ready.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use hoist_phases::spec::ClusterSpec;

use super::args::{Global, WaitArgs};
use super::session::{self, Session};
use crate::cluster::kube::{Access, Api};
use crate::cluster::ready::{self, Level, ReadyError, Target};
use crate::cluster::rollout::{self, Goal};
use crate::config::{self, Invalid, Problem};
use crate::error::BoxError;
use crate::report;
use crate::runtime::Engine;

/// Something was not ready in time.
#[derive(Debug, thiserror::Error)]
#[error("not ready within {} s{}", timeout.as_secs(), lines(.unready))]
pub struct NotReady {
    timeout: Duration,
    unready: Vec<String>,
}

fn lines(unready: &[String]) -> String {
    unready.iter().map(|line| format!("\n- {line}")).collect()
}

/// One value of `--for`.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Awaited {
    Deployment { name: String, goal: Goal },
    Level(Level),
}

impl Awaited {
    fn level(&self) -> Option<Level> {
        match self {
            Self::Level(level) => Some(*level),
            Self::Deployment { .. } => None,
        }
    }
}

impl FromStr for Awaited {
    type Err = Problem;

    fn from_str(text: &str) -> Result<Self, Problem> {
        let wrong = |rule: &str| Problem::new("--for", format_args!("{text:?}"), rule);
        if let Some(level) = text.strip_prefix("level=") {
            return level.parse().map(Self::Level).map_err(|_| {
                wrong(&format!(
                    "the level must be one of {}",
                    Level::ALL.map(|level| level.name()).join(", ")
                ))
            });
        }
        let Some(of) = text.strip_prefix("deployment/") else {
            return Err(wrong("must be deployment/NAME, deployment/NAME=min-ready:N or level=LEVEL"));
        };
        let (name, goal) = match of.split_once('=') {
            None => (of, Goal::RolledOut),
            Some((name, goal)) => {
                let number = goal.strip_prefix("min-ready:").and_then(|number| number.parse().ok());
                let number = number.filter(|number| *number > 0);
                (name, Goal::MinReady(number.ok_or_else(|| wrong("after = comes min-ready:N, N 1 or more"))?))
            }
        };
        if name.is_empty() || name.contains('/') {
            return Err(wrong("a Deployment has a name; its namespace is --namespace"));
        }
        Ok(Self::Deployment { name: name.to_owned(), goal })
    }
}

pub(super) async fn run(global: &Global, args: &WaitArgs) -> Result<(), BoxError> {
    let awaited: Result<Vec<Awaited>, _> = args.awaited.iter().map(|text| text.parse()).collect();
    let awaited = awaited.map_err(Invalid::one)?;
    let timeout = config::duration("--timeout", &args.timeout)?;
    let session = Session::new(global)?;
    let cluster = Cluster::of(&session, &awaited).await?;
    let waits = awaited.iter().map(|awaited| cluster.wait(awaited, &args.namespace, timeout));
    let unready = try_join_all(waits).await?.concat();
    if unready.is_empty() { Ok(()) } else { Err(NotReady { timeout, unready }.into()) }
}

/// What is asked; only levels need the engine, which looks from the nodes.
struct Cluster {
    api: Api,
    levels: Option<(Arc<Engine>, ClusterSpec, String)>,
}

impl Cluster {
    async fn of(session: &Session, awaited: &[Awaited]) -> Result<Self, BoxError> {
        let kubeconfig = session.kubeconfig()?;
        let api = Access::from_kubeconfig(&kubeconfig)?.connect()?;
        let levels: Vec<Level> = awaited.iter().filter_map(Awaited::level).collect();
        if levels.is_empty() {
            return Ok(Self { api, levels: None });
        }
        let spec = session.spec()?;
        let barred = levels.iter().find_map(|level| Some((level, level.barred(&spec)?)));
        if let Some((level, rule)) = barred {
            return Err(Invalid::one(Problem::new("--for", format_args!("level={level}"), rule)).into());
        }
        Ok(Self { api, levels: Some((session::engine().await?, spec, kubeconfig)) })
    }

    /// What is not ready when the time has run out. Whatever else stops the waiting is an error, at
    /// once.
    async fn wait(
        &self,
        awaited: &Awaited,
        namespace: &str,
        timeout: Duration,
    ) -> Result<Vec<String>, BoxError> {
        match awaited {
            Awaited::Deployment { name, goal } => {
                let unready = rollout::wait(&self.api, namespace, name, *goal, timeout).await?;
                if !unready.is_empty() {
                    return Ok(unready);
                }
                report::tell(format_args!("Deployment {namespace}/{name} is ready"));
            }
            Awaited::Level(level) => {
                let Some((engine, spec, kubeconfig)) = &self.levels else { return Ok(Vec::new()) };
                let target = Target::new(spec, engine.as_ref(), kubeconfig)?;
                match ready::wait(&target, *level, timeout, |_, _| {}).await {
                    Ok(()) => report::tell(format_args!("level {level} is reached")),
                    Err(error @ ReadyError::Deadline { .. }) => return Ok(vec![error.to_string()]),
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_can_be_awaited() {
        let deployment = |name: &str, goal| Ok(Awaited::Deployment { name: name.to_owned(), goal });
        assert_eq!("deployment/virt-api".parse(), deployment("virt-api", Goal::RolledOut));
        assert_eq!("deployment/a=min-ready:1".parse(), deployment("a", Goal::MinReady(1)));
        assert_eq!("level=dns".parse(), Ok(Awaited::Level(Level::Dns)));
        for bad in [
            "a",
            "pod/a",
            "level=soon",
            "deployment/",
            "deployment/=min-ready:1",
            "deployment/a/b",
            "deployment/a=",
            "deployment/a=min-ready:0",
            "deployment/a=min-ready:-1",
            "deployment/a=max-ready:1",
        ] {
            let error = bad.parse::<Awaited>().map_err(|error| error.to_string());
            assert!(error.is_err_and(|error| error.contains("--for")), "{bad:?}");
        }
    }
}
