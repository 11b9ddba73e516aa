//! `hoist wait`: returns once what is named is ready.

use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hoist_phases::spec::ClusterSpec;

use super::args::{Global, WaitArgs};
use super::session::{self, Session};
use crate::cluster::kube::{Access, Api};
use crate::cluster::ready::{self, Level, Target};
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
    let unready: Vec<_> = join_all(waits).await.into_iter().filter_map(Result::err).flatten().collect();
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
        let levels = awaited.iter().any(|awaited| matches!(awaited, Awaited::Level(_)));
        let levels = match levels {
            true => Some((session::engine().await?, session.spec()?, kubeconfig)),
            false => None,
        };
        Ok(Self { api, levels })
    }

    async fn wait(&self, awaited: &Awaited, namespace: &str, timeout: Duration) -> Result<(), Vec<String>> {
        match awaited {
            Awaited::Deployment { name, goal } => {
                rollout::wait(&self.api, namespace, name, *goal, timeout).await?;
                report::tell(format_args!("Deployment {namespace}/{name} is ready"));
            }
            Awaited::Level(level) => {
                let Some((engine, spec, kubeconfig)) = &self.levels else { return Ok(()) };
                let target = Target::new(spec, engine.as_ref(), kubeconfig);
                let target = target.map_err(|error| vec![causes(&error)])?;
                let result = ready::wait(&target, *level, timeout, |_, _| {}).await;
                result.map_err(|error| vec![causes(&error)])?;
                report::tell(format_args!("level {level} is reached"));
            }
        }
        Ok(())
    }
}

fn causes(error: &(dyn std::error::Error + 'static)) -> String {
    crate::error::chain(error).map(ToString::to_string).collect::<Vec<_>>().join(": ")
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
