//! `hoist node` and `hoist join-command`.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use hoist_phases::causes;
use hoist_phases::phases::containers::node_name;
use hoist_phases::phases::{PhaseId, machines};
use hoist_phases::ports::{KubeApi, KubeConnect as _, Store as _};
use hoist_phases::spec::{ClusterName, MAX_NODE_NUMBER, NodeKind, NodeSpec, TokenTtl};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use std::sync::Arc;

use super::args::{Format, Global, JoinCommandArgs, NodeAddArgs, NodeCommand, NodeSizeArgs};
use super::session::{self, Session};
use super::{images, machine, status, token, up};
use crate::cluster::kube::Connector;
use crate::cluster::ready::Level;
use crate::config::{self, Problem, SizeFlags};
use crate::digest;
use crate::error::BoxError;
use crate::nodes::drain::{Machine, drain, node_ref};
use crate::nodes::{join_command, load};
use crate::report;

/// Time for a node's pods to end and be replaced elsewhere.
const DRAIN_WITHIN: Duration = Duration::from_secs(120);

/// Relative path of the cluster CA's certificate in the state directory.
const CA_CERT: &str = "pki/ca.crt";

#[derive(Debug, thiserror::Error)]
pub enum NodeCommandError {
    #[error("cluster {cluster} has no node {names}")]
    Unknown { cluster: ClusterName, names: String },
    #[error("{wanted} more nodes: only {free} of {MAX_NODE_NUMBER} numbers are free")]
    Full { wanted: u32, free: usize },
    #[error("{0}")]
    Kind(Problem),
    #[error("cluster {0} has no nodes to load images into")]
    NoNodes(ClusterName),
    #[error("the cluster CA's certificate {CA_CERT} is missing or can't be understood")]
    Ca,
}

pub(super) async fn run(global: &Global, command: NodeCommand) -> Result<(), BoxError> {
    match command {
        NodeCommand::List(output) => list(global, output.output).await,
        NodeCommand::Add(args) => add(global, args).await,
        NodeCommand::Remove { names } => remove(global, &names).await,
        NodeCommand::Ssh { node, command } => machine::ssh(global, &node, &command).await,
        NodeCommand::Console { node } => machine::console(global, &node).await,
        NodeCommand::Stop { names } => machine::stop(global, &names).await,
        NodeCommand::Start(args) => machine::start(global, &args).await,
        NodeCommand::Restart(args) => machine::restart(global, &args).await,
        NodeCommand::Load { images } => load_images(global, &images).await,
    }
}

async fn list(global: &Global, format: Format) -> Result<(), BoxError> {
    let session = Session::new(global)?;
    let status = status::look(&session).await?;
    report::output::formatted(format, &status.nodes, |_| status::nodes(&status))?;
    Ok(())
}

/// The same as `up` with more nodes: everything that is there stays as it is.
async fn add(global: &Global, args: NodeAddArgs) -> Result<(), BoxError> {
    let NodeAddArgs { count, kind, image, size, no_join, timeout, retain } = args;
    let NodeSizeArgs { cpus, memory, disk } = size;
    let kind = config::node_kind("--kind", &kind, &SizeFlags { cpus, memory, disk });
    let kind = kind.map_err(NodeCommandError::Kind)?;
    let timeout = config::time_limit("--timeout", &timeout)?;
    let (image, disk) = match &image {
        Some(text) => config::node_image("--image", text, Path::new(""), kind != NodeKind::Container).await?,
        None => (None, None),
    };
    let session = Session::new(global)?;
    let _lock = session.state.lock()?;
    let present = session.spec()?;
    let taken: BTreeSet<u8> = present.nodes.iter().map(NodeSpec::number).collect();
    let free: Vec<u32> =
        (1..=MAX_NODE_NUMBER).filter(|number| !taken.contains(number)).map(u32::from).collect();
    let numbers = free.get(..usize::try_from(count)?);
    let numbers = numbers.ok_or(NodeCommandError::Full { wanted: count, free: free.len() })?;
    let mut wanted = present.clone();
    for number in numbers {
        wanted.nodes.push(NodeSpec::new(*number, kind)?.with_image(image.clone()));
    }
    wanted.nodes.sort_by_key(NodeSpec::number);
    let mut settings = config::settings(Default::default(), None, wanted, None)?;
    (settings.timeout, settings.retain) = (timeout, retain);
    if no_join {
        settings.skip.push(PhaseId::Nodes);
        settings.wait = Level::Api;
    }
    let engine = session::engine().await?;
    images::make_disks(&engine, &present.kubernetes.to_string(), disk.as_slice()).await?;
    up::apply(global, &session, &engine, settings, Some(&present)).await
}

/// Nodes of hoist's go with their machines; of others only the Node object does.
async fn remove(global: &Global, names: &[String]) -> Result<(), BoxError> {
    let session = Session::new(global)?;
    let _lock = session.state.lock()?;
    let mut spec = session.spec()?;
    let api = Connector.connect(&session.kubeconfig()?).await?;
    let engine = session::engine().await?;

    let mut unknown = Vec::new();
    for name in names {
        let ours = spec.nodes.iter().any(|node| node.name() == *name);
        if !ours && api.get(&node_ref(name)).await?.is_none() {
            unknown.push(name.as_str());
        }
    }
    if !unknown.is_empty() {
        return Err(NodeCommandError::Unknown { cluster: session.name, names: unknown.join(", ") }.into());
    }
    for name in names {
        report::tell(format_args!("draining {name}"));
        let position = spec.nodes.iter().position(|node| node.name() == *name);
        let container = node_name(&spec.name, name);
        let machine = position.map(|_| Machine { runtime: engine.as_ref(), container: &container });
        if let Some(left) = drain(api.as_ref(), name, machine, DRAIN_WITHIN).await? {
            report::tell(format_args!("{name}: {left}"));
        }
        if let Some(position) = position {
            machines::remove(engine.as_ref(), &spec, &spec.nodes[position]).await?;
            let node = spec.nodes.remove(position);
            if let Err(error) = machines::release(engine.as_ref(), &spec, &node).await {
                report::tell(format_args!("warning: {}; this does no harm", causes(error.as_ref())));
            }
            session.state.write_spec(&spec)?;
        }
        api.delete(&node_ref(name)).await?;
        let machine = if position.is_some() { "" } else { "; its machine is not hoist's and still runs" };
        report::tell(format_args!("removed {name}{machine}"));
    }
    Ok(())
}

async fn load_images(global: &Global, images: &[String]) -> Result<(), BoxError> {
    let session = Session::new(global)?;
    let spec = session.spec()?;
    if spec.nodes.is_empty() {
        return Err(NodeCommandError::NoNodes(session.name).into());
    }
    let engine = session::engine().await?;
    load::load(&engine, &spec, images).await?;
    report::tell(format_args!("loaded {} into {} nodes", images.join(", "), spec.nodes.len()));
    Ok(())
}

pub(super) async fn join(global: &Global, args: &JoinCommandArgs) -> Result<(), BoxError> {
    let ttl = config::duration("--token-ttl", &args.token_ttl)?;
    let session = Session::new(global)?;
    let authority = session.spec()?.api_authority();
    let api: Arc<dyn KubeApi> = Connector.connect(&session.kubeconfig()?).await?;
    let ca = session.state.read(CA_CERT)?.ok_or(NodeCommandError::Ca)?;
    let hash = ca_cert_hash(&ca).ok_or(NodeCommandError::Ca)?;
    let made = join_command::make(api.as_ref(), &authority, &hash, TokenTtl(ttl.as_secs())).await?;
    report::output::formatted(args.output.output, &made, |made| made.command.clone() + "\n")?;
    token::tell_lifetime(made.lifetime_secs);
    Ok(())
}

/// `sha256:` and the digest of the public key, as `kubeadm join` wants it (RFC 7469, 2.4).
fn ca_cert_hash(pem: &[u8]) -> Option<String> {
    let der = CertificateDer::from_pem_slice(pem).ok()?;
    let parsed = rustls::server::ParsedCertificate::try_from(&der).ok()?;
    Some(format!("sha256:{}", digest::of_bytes(&parsed.subject_public_key_info())))
}
