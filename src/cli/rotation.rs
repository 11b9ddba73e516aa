//! `hoist certs renew --ca`: other CAs, in three steps. Each is brought everywhere before the next; a command that
//! was cut short is typed again.

use std::sync::Arc;

use futures_util::future::join_all;
use hoist_phases::phases::{certs, credentials};
use hoist_phases::pki::CertId;
use hoist_phases::pki::rotation::{self, Stage};
use hoist_phases::ports::{KubeApi, KubeConnect as _};
use hoist_phases::spec::{ClusterName, ClusterSpec};
use time::OffsetDateTime;

use super::args::Global;
use super::certs::OthersNodes;
use super::session::{self, Session};
use super::signals::interrupted;
use super::up::{self, UpError};
use crate::cluster::kube::Connector;
use crate::cluster::trust;
use crate::error::BoxError;
use crate::runtime::Engine;
use crate::{config, report};

#[derive(Debug, thiserror::Error)]
#[error(
    "cluster {cluster}: its nodes can't be asked for, and those that hoist doesn't run would be cut off; `hoist up --name \
     {cluster}` mends what it can, and lets a paused one go on"
)]
struct NoAnswer {
    cluster: ClusterName,
    source: BoxError,
}

pub(super) async fn run(global: &Global, others_rejoin: bool) -> Result<(), BoxError> {
    let session = Session::new(global)?;
    let _lock = session.state.lock()?;
    let spec = session.spec()?;
    let engine = session::engine().await?;
    let begun = rotation::stage(&certs::read(&session.state)?);
    let others = match others(&session, &spec).await {
        Ok(others) => others,
        Err(source) if begun == Stage::Settled => return Err(NoAnswer { cluster: spec.name, source }.into()),
        // Cut short amid a step: the next one makes the API answer, and who was let go on has been named before.
        Err(_) => Vec::new(),
    };
    if !others.is_empty() && !others_rejoin {
        return Err(OthersNodes(others).into());
    }
    let stages: &[Stage] = match begun {
        Stage::Settled | Stage::Announced => &[Stage::Announced, Stage::Exchanged, Stage::Settled],
        Stage::Exchanging | Stage::Exchanged => &[Stage::Exchanged, Stage::Settled],
    };
    for stage in stages {
        report::tell(match stage {
            Stage::Announced => "new CAs are made, and trusted beside the old ones",
            Stage::Exchanging | Stage::Exchanged => "the new CAs sign; the old ones are still trusted",
            Stage::Settled => "the old CAs are trusted no longer",
        });
        certs::rotate(&session.state, &spec, *stage, OffsetDateTime::now_utc())?;
        spread(global, &session, &engine, &spec, *stage).await?;
    }
    certs::rotated(&session.state)?;
    if !others.is_empty() {
        report::tell(format_args!("these have to join anew: {}", others.join(", ")));
    }
    Ok(())
}

async fn api(session: &Session) -> Result<Arc<dyn KubeApi>, BoxError> {
    Ok(Connector.connect(&session.kubeconfig()?).await?)
}

/// Nodes of the API that are none of hoist's machines.
async fn others(session: &Session, spec: &ClusterSpec) -> Result<Vec<String>, BoxError> {
    let api = api(session).await?;
    let own: Vec<_> = spec.nodes.iter().map(|node| node.name()).collect();
    let nodes = api.list("v1", "Node", None).await?;
    let names = nodes.iter().filter_map(|node| node["metadata"]["name"].as_str());
    Ok(names.filter(|name| !own.iter().any(|own| own == name)).map(str::to_owned).collect())
}

/// Brings a stage to the components, the nodes, and the pods that hoist made and that talk to the API.
async fn spread(
    global: &Global,
    session: &Session,
    engine: &Arc<Engine>,
    spec: &ClusterSpec,
    stage: Stage,
) -> Result<(), BoxError> {
    let settings = config::settings(Default::default(), None, spec.clone(), None)?;
    let timeout = settings.timeout;
    up::apply(global, session, engine, settings, Some(spec)).await?;
    let pki = certs::make(&session.state, spec, OffsetDateTime::now_utc())?.pki;
    let told = async {
        let nodes = spec.nodes.iter().map(|node| credentials::renew(engine.as_ref(), spec, node, &pki));
        // All of them, so that one that fails leaves the others where they belong.
        join_all(nodes).await.into_iter().collect::<Result<Vec<()>, _>>()?;
        let (api, trusted) = (api(session).await?, pki.trusted(CertId::Ca));
        match stage {
            // A program reads the CA that it trusts when it starts.
            Stage::Announced => trust::restart_addons(api.as_ref(), spec, trusted, timeout).await?,
            Stage::Exchanging | Stage::Exchanged => {}
            Stage::Settled => trust::publish_anew(api.as_ref(), trusted, timeout).await?,
        }
        Ok::<(), BoxError>(())
    };
    tokio::select! {
        told = told => told,
        signal = interrupted() => Err(signal.map_or_else(BoxError::from, |signal| UpError::Interrupted(signal).into())),
    }
}
