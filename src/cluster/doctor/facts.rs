//! What the checks know, and how it is had: everything side by side, each with a deadline of its own,
//! so that what doesn't answer keeps nothing else from being told.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use hoist_phases::causes;
use hoist_phases::phases::network::attach;
use hoist_phases::phases::{images, machines};
use hoist_phases::ports::{ContainerState, DeviceRule, KubeApi, Runtime, Status, label};
use hoist_phases::spec::ClusterSpec;
use serde_json::Value;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use crate::host::HostReport;
use crate::runtime::{About, Engine, Look, VOLUME, Where};

/// For one question to the engine, a node or the API.
const ANSWER: Duration = Duration::from_secs(10);

/// For a container that looks: it has to be made and started on a busy host too.
const LOOK: Duration = Duration::from_secs(30);

/// Removing what has looked, and the questions between.
const REST: Duration = Duration::from_secs(30);

/// How long everything together may take: the host is looked at twice at most.
pub const LONGEST: Duration = Duration::from_secs(2 * LOOK.as_secs() + REST.as_secs());

/// Prints the host's facts; hidden among hoist's commands.
const HOST_FACTS: [&str; 3] = ["host-facts", "--volume", VOLUME];

/// Boots a kernel on KVM in the image of virtual machines, and says `kvm=yes` or `kvm=no WHY`.
const BOOT: [&str; 2] = ["/usr/local/sbin/hoist-vm", "probe"];

/// A fact, or why it is not known.
pub type Known<T> = Result<T, String>;

/// How far another clock is ahead of this machine's, in milliseconds; behind when negative. What
/// may have passed while it was asked is not counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Skew(pub i64);

impl Skew {
    /// Of a clock that said `told` at some moment between the two.
    pub fn between(before: OffsetDateTime, told: OffsetDateTime, after: OffsetDateTime) -> Self {
        let ahead = (told - after).max(time::Duration::ZERO);
        let behind = (before - told).max(time::Duration::ZERO);
        let millis = (ahead - behind).whole_milliseconds();
        Self(i64::try_from(millis).unwrap_or(if millis > 0 { i64::MAX } else { i64::MIN }))
    }
}

/// The container of attach mode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// What keeps it from being the owner.
    pub problem: Option<String>,
    /// Where something listens in it.
    pub listening: Known<Vec<SocketAddr>>,
}

/// A cluster that is there.
#[derive(Debug, Clone)]
pub struct ClusterFacts {
    pub nodes: Known<Vec<Value>>,
    pub pods: Known<Vec<Value>>,
    /// CertificateSigningRequests.
    pub requests: Known<Vec<Value>>,
    /// Of each machine of hoist's.
    pub clocks: Known<Vec<(String, Known<Skew>)>>,
    /// `kvm` or `tcg`, of machines that run and say so.
    pub accelerators: Known<Vec<String>>,
    /// Addresses of the host that are its own.
    pub published: Known<Vec<SocketAddr>>,
}

#[cfg(test)]
impl ClusterFacts {
    /// Of which nothing is known.
    pub(super) fn unknown(why: &str) -> Self {
        let why = why.to_owned();
        let (nodes, pods, requests) = (Err(why.clone()), Err(why.clone()), Err(why.clone()));
        let (clocks, accelerators, published) = (Err(why.clone()), Err(why.clone()), Err(why));
        Self { nodes, pods, requests, clocks, accelerators, published }
    }
}

/// What the checks know.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The cluster as it is, or as it would be.
    pub spec: ClusterSpec,
    /// Variables of this process that name proxies.
    pub environment: Vec<(&'static str, String)>,
    pub engine: Known<About>,
    /// The engine's clock.
    pub clock: Known<Skew>,
    pub host: Known<HostReport>,
    /// The images of the cluster, each with the architecture of the one that is there.
    pub images: Known<Vec<(String, Option<String>)>>,
    /// Whether KVM has run a kernel, and why not.
    pub boot: Known<Result<(), String>>,
    /// In attach mode.
    pub attached: Option<Known<Attached>>,
    pub cluster: Option<ClusterFacts>,
}

/// Where facts come from.
#[derive(Clone)]
pub struct Sources {
    pub engine: Known<Arc<Engine>>,
    /// Without a kubeconfig, why there is none.
    pub api: Known<Arc<dyn KubeApi>>,
    pub spec: ClusterSpec,
    /// Whether there is a cluster.
    pub present: bool,
    pub environment: Vec<(&'static str, String)>,
}

impl std::fmt::Debug for Sources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Sources")
    }
}

/// Gathers all facts side by side.
pub async fn gather(sources: Sources) -> Facts {
    let Sources { engine, api, spec, present, environment } = sources;
    let of_engine = async {
        let engine = engine.as_deref().map_err(Clone::clone)?;
        let before = OffsetDateTime::now_utc();
        let about = within(ANSWER, engine.about()).await?;
        Ok((about, before, OffsetDateTime::now_utc()))
    };
    let attached = async {
        let container = &spec.owner.attach()?.container;
        Some(attached(&engine, container, &spec, present).await)
    };
    let cluster = async { if present { Some(cluster(&engine, &api, &spec).await) } else { None } };
    let (of_engine, host, images, boot, attached, cluster) = tokio::join!(
        of_engine,
        host(&engine, &spec, Where::Host),
        architectures(&engine, &spec),
        boot(&engine, &spec),
        attached,
        cluster
    );
    let clock = of_engine.clone().and_then(|(about, before, after)| {
        let told = about.time.ok_or("the engine doesn't tell its time")?;
        let told = OffsetDateTime::parse(&told, &Rfc3339).map_err(|_| format!("{told:?} is no time"))?;
        Ok(Skew::between(before, told, after))
    });
    let engine = of_engine.map(|(about, ..)| about);
    Facts { spec, environment, engine, clock, host, images, boot, attached, cluster }
}

/// An answer in time, or why there is none.
async fn within<T, E>(deadline: Duration, answer: impl Future<Output = Result<T, E>>) -> Known<T>
where
    E: std::error::Error + 'static,
{
    match tokio::time::timeout(deadline, answer).await {
        Ok(answer) => answer.map_err(|error| causes(&error)),
        Err(_) => Err(format!("no answer within {} s", deadline.as_secs())),
    }
}

type MaybeEngine = Known<Arc<Engine>>;

/// By a container of the image with the network's tools, which is there wherever a cluster can be
/// made. It reads: of the host's network nothing can be had without this capability but routes and
/// sockets, and an engine that can't give it tells those.
async fn host(engine: &MaybeEngine, spec: &ClusterSpec, into: Where<'_>) -> Known<HostReport> {
    let engine = engine.as_deref().map_err(Clone::clone)?;
    let image = images::reference(spec, "network");
    let mut why = String::new();
    for capabilities in [["NET_ADMIN"].as_slice(), &[]] {
        let look = Look {
            image: &image,
            command: &HOST_FACTS,
            of_image: false,
            into,
            capabilities,
            devices: &[],
            deadline: LOOK,
        };
        match engine.look(&look).await {
            Ok((printed, errors)) => match serde_json::from_str(&printed) {
                Ok(report) => return Ok(report),
                Err(_) => why = format!("the look at the engine's host said: {}", errors.trim()),
            },
            Err(error) => why = causes(&error),
        }
    }
    Err(why)
}

async fn architectures(engine: &MaybeEngine, spec: &ClusterSpec) -> Known<Vec<(String, Option<String>)>> {
    let engine = engine.as_deref().map_err(Clone::clone)?;
    within(ANSWER, engine.architectures(&images::needed(spec))).await
}

async fn boot(engine: &MaybeEngine, spec: &ClusterSpec) -> Known<Result<(), String>> {
    let engine = engine.as_deref().map_err(Clone::clone)?;
    let image = images::reference(spec, "vm");
    let look = Look {
        image: &image,
        command: &BOOT,
        of_image: true,
        into: Where::Image,
        capabilities: &["MKNOD"],
        devices: &[DeviceRule::KVM],
        deadline: LOOK,
    };
    let (printed, _) = engine.look(&look).await.map_err(|error| causes(&error))?;
    let answer = printed.lines().find_map(|line| line.strip_prefix("kvm="));
    match answer.map(|answer| answer.split_once(' ').unwrap_or((answer, ""))) {
        Some(("yes", _)) => Ok(Ok(())),
        Some(("no", why)) => Ok(Err(why.to_owned())),
        _ => Err(format!("{image} was made by an earlier hoist and can't be asked")),
    }
}

async fn attached(
    engine: &MaybeEngine,
    container: &str,
    spec: &ClusterSpec,
    present: bool,
) -> Known<Attached> {
    let runtime = engine.as_ref().map_err(Clone::clone)?;
    let Some(owner) = spec.owner.attach() else { return Err("nothing is attached to".to_owned()) };
    let runtime = Arc::clone(runtime) as Arc<dyn Runtime>;
    let checked = tokio::time::timeout(ANSWER, attach::check(&runtime, owner)).await;
    let checked = checked.map_err(|_| format!("no answer within {} s", ANSWER.as_secs()))?;
    let problem = checked.err().map(|error| causes(error.as_ref()));
    let listening = match (&problem, present) {
        (Some(_), _) => Err("the container can't be looked into".to_owned()),
        (None, true) => Err("the cluster's own components listen there".to_owned()),
        (None, false) => host(engine, spec, Where::Network(container)).await.map(|report| report.listening),
    };
    Ok(Attached { problem, listening })
}

async fn cluster(engine: &MaybeEngine, api: &Known<Arc<dyn KubeApi>>, spec: &ClusterSpec) -> ClusterFacts {
    let list = |api_version: &'static str, kind: &'static str| async move {
        let api = api.as_deref().map_err(Clone::clone)?;
        within(ANSWER, api.list(api_version, kind, None)).await
    };
    let machines = async {
        let engine = engine.as_deref().map_err(Clone::clone)?;
        let containers = within(ANSWER, engine.list(Some(spec.name.as_str()))).await?;
        let published = containers.iter().flat_map(|c| c.published.iter().map(|port| port.host)).collect();
        let nodes: Vec<_> =
            containers.iter().filter(|container| container.labels.contains_key(label::NODE)).collect();
        let clocks = join_all(nodes.iter().map(|node| async {
            let name = node.labels.get(label::NODE).unwrap_or(&node.name).clone();
            (name, clock_of(engine, node).await)
        }));
        let accelerators = nodes.iter().map(|node| async {
            let asked = machines::accelerator(engine, &node.name);
            tokio::time::timeout(ANSWER, asked).await.ok().flatten()
        });
        let (clocks, accelerators) = tokio::join!(clocks, join_all(accelerators));
        Ok::<_, String>((clocks, accelerators.into_iter().flatten().collect(), published))
    };
    let (nodes, pods, requests, machines) = tokio::join!(
        list("v1", "Node"),
        list("v1", "Pod"),
        list("certificates.k8s.io/v1", "CertificateSigningRequest"),
        machines
    );
    let (clocks, accelerators, published) = match machines {
        Ok((clocks, accelerators, published)) => (Ok(clocks), Ok(accelerators), Ok(published)),
        Err(why) => (Err(why.clone()), Err(why.clone()), Err(why)),
    };
    ClusterFacts { nodes, pods, requests, clocks, accelerators, published }
}

/// A machine's own clock: that of a virtual machine is not its host's.
async fn clock_of(engine: &Engine, node: &ContainerState) -> Known<Skew> {
    if node.status != Status::Running {
        return Err("it doesn't run".to_owned());
    }
    let kind = node.labels.get(label::KIND).map_or("", String::as_str);
    let command = machines::on_kind(kind, &["date", "+%s%3N"]);
    let before = OffsetDateTime::now_utc();
    let output = within(ANSWER, engine.exec(&node.name, &command, &[])).await?;
    let after = OffsetDateTime::now_utc();
    let millis = output.stdout.trim().parse::<i128>();
    let told = millis
        .ok()
        .and_then(|millis| OffsetDateTime::from_unix_timestamp_nanos(millis.checked_mul(1_000_000)?).ok());
    let said = || format!("date said {:?}", (output.stdout.clone() + &output.stderr).trim());
    Ok(Skew::between(before, told.ok_or_else(said)?, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_while_a_clock_is_asked_is_no_skew() {
        let at = |millis: i64| OffsetDateTime::UNIX_EPOCH + time::Duration::milliseconds(millis);
        for (told, skew) in [(1000, 0), (1500, 0), (2000, 0), (2001, 1), (999, -1), (9000, 7000)] {
            assert_eq!(Skew::between(at(1000), at(told), at(2000)), Skew(skew), "{told}");
        }
    }
}
