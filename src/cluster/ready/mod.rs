//! Readiness levels: what has to answer before a cluster counts as ready, each a probe of its own.
//!
//! A probe does what a user of that level would do and believes nothing but the answer.

mod components;
mod dns;
mod join;
mod webhook;

use std::error::Error;
use std::fmt;
use std::str::FromStr;
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, FutureExt, try_join_all};
use hoist_phases::engine::PhaseError;
use hoist_phases::phases::health::{self, not_yet};
use hoist_phases::phases::wait::{TimedOut, until};
use hoist_phases::ports::{KubeError, Runtime};
use hoist_phases::spec::{ClusterSpec, Reach};
use serde::{Deserialize, Serialize};

use super::kube::{Access, Api};

pub(crate) use components::not_ready;

/// How much of a cluster answers. Ordered: a level stands for those before it as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Each request of a real `kubeadm join` is served, and a certificate asked for with the
    /// bootstrap token was approved, signed and accepted.
    Join,
    /// The API server is ready, controller-manager and scheduler are healthy.
    Api,
    /// Every node of the configuration is Ready, by the word of its kubelet since its machine was
    /// started.
    Nodes,
    /// The cluster's DNS answers a query from every node, through its Service, and all its replicas
    /// are ready.
    Dns,
    /// The API server reaches every ready replica of the cluster's DNS by its address, as it has to
    /// reach webhooks and aggregated APIs.
    Webhook,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("readiness level {0:?}: must be one of join, api, nodes, dns, webhook")]
pub struct UnknownLevel(String);

impl Level {
    /// In order.
    pub const ALL: [Self; 5] = [Self::Join, Self::Api, Self::Nodes, Self::Dns, Self::Webhook];

    pub fn name(self) -> &'static str {
        match self {
            Self::Join => "join",
            Self::Api => "api",
            Self::Nodes => "nodes",
            Self::Dns => "dns",
            Self::Webhook => "webhook",
        }
    }

    /// What is true once the level is reached, for help and docs.
    pub fn summary(self) -> &'static str {
        match self {
            Self::Join => "every request of a kubeadm join is served, a probe certificate was signed",
            Self::Api => "the API server is ready, controller-manager and scheduler are healthy",
            Self::Nodes => "all nodes are Ready",
            Self::Dns => "the cluster's DNS answers on every node",
            Self::Webhook => "the API server reaches pods by their addresses",
        }
    }

    /// Why a cluster of these settings never gets there, and what to ask for instead.
    pub fn barred(self, spec: &ClusterSpec) -> Option<&'static str> {
        match self {
            Self::Nodes | Self::Dns | Self::Webhook if spec.nodes.is_empty() => {
                Some("a cluster without nodes never gets there; use api")
            }
            Self::Webhook if spec.reach == Reach::None => {
                Some("with reach none the API server never reaches pods; use dns")
            }
            _ => None,
        }
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Level {
    type Err = UnknownLevel;
    fn from_str(text: &str) -> Result<Self, UnknownLevel> {
        Self::ALL.into_iter().find(|level| level.name() == text).ok_or_else(|| UnknownLevel(text.to_owned()))
    }
}

/// The cluster that is looked at.
pub struct Target<'a> {
    spec: &'a ClusterSpec,
    runtime: &'a dyn Runtime,
    access: Access,
    admin: Api,
}

impl fmt::Debug for Target<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Target").field("access", &self.access).finish_non_exhaustive()
    }
}

impl<'a> Target<'a> {
    /// `kubeconfig` is the user's, an administrator's.
    ///
    /// # Errors
    /// When the kubeconfig can't be used.
    pub fn new(spec: &'a ClusterSpec, runtime: &'a dyn Runtime, kubeconfig: &str) -> Result<Self, KubeError> {
        let access = Access::from_kubeconfig(kubeconfig)?;
        let admin = access.connect()?;
        Ok(Self { spec, runtime, access, admin })
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ReadyError {
    #[error("level {level} not reached within {} s: {last}", deadline.as_secs())]
    Deadline { level: Level, deadline: Duration, last: String },
    #[error("level {level} can't be reached")]
    Never {
        level: Level,
        #[source]
        source: Box<dyn Error + Send + Sync>,
    },
}

/// Why no amount of waiting helps.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Barred(&'static str);

/// Waits for a level and those before it, side by side; `reached` is told of each as it comes,
/// with the time since the call.
///
/// # Errors
/// The first level that isn't reached before the deadline, with what is missing, or never can be.
pub async fn wait(
    target: &Target<'_>,
    level: Level,
    deadline: Duration,
    reached: impl Fn(Level, Duration) + Sync,
) -> Result<(), ReadyError> {
    let begin = Instant::now();
    let (target, reached) = (&target, &reached);
    let wanted = Level::ALL.into_iter().filter(|wanted| *wanted <= level);
    try_join_all(wanted.map(|level| async move {
        probe(target, level, deadline).await.map_err(|source| match source.downcast::<TimedOut>() {
            Ok(timed_out) => ReadyError::Deadline { level, deadline, last: timed_out.last },
            Err(source) => ReadyError::Never { level, source },
        })?;
        reached(level, begin.elapsed());
        Ok(())
    }))
    .await
    .map(|_| ())
}

fn probe<'a>(
    target: &'a Target<'_>,
    level: Level,
    deadline: Duration,
) -> BoxFuture<'a, Result<(), PhaseError>> {
    if let Some(why) = level.barred(target.spec) {
        return async move { Err(Barred(why).into()) }.boxed();
    }
    match level {
        Level::Join => join::probe(target, deadline).boxed(),
        Level::Api => until(deadline, || async { Ok(health::control_plane(&target.admin).await) }).boxed(),
        Level::Nodes => until(deadline, || components::nodes(target)).boxed(),
        Level::Dns => dns::probe(target, deadline).boxed(),
        Level::Webhook => until(deadline, || webhook::probe(&target.admin)).boxed(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ordered_and_read_back() {
        assert!(Level::ALL.is_sorted());
        for level in Level::ALL {
            assert_eq!(level.to_string().parse(), Ok(level));
        }
        assert_eq!("Api".parse::<Level>(), Err(UnknownLevel("Api".into())));
        let text = UnknownLevel(String::new()).to_string();
        assert!(Level::ALL.iter().all(|level| text.contains(level.name())), "{text}");
    }
}
