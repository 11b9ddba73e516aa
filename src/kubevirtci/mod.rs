//! `hoist kubevirtci`: in the place of gocli, the tool behind kubevirtci's `make cluster-up`. It
//! starts the same containers from the same cluster image, but the control plane runs beside
//! dnsmasq, and every virtual machine, node01 included, joins it as a worker.
//!
//! A cluster is told by the prefix of its containers' names, whoever made them; nothing is kept on
//! the host. stdout holds only what the scripts capture. docs/kubevirtci.md says how it fits.

mod addons;
pub mod args;
mod containers;
mod guest;
mod machine;
mod ports;
mod privileges;
mod provider;
mod provision;
mod refuse;
mod rm;
mod run;
mod scp;
mod spec;
mod ssh;

use std::sync::Arc;

use args::{KubevirtciArgs, KubevirtciCommand};

use crate::error::BoxError;
use crate::runtime::Engine;

pub use guest::StepError;
pub use ports::PortsError;
pub use provider::ProviderError;
pub use refuse::Refused;
pub use rm::Taken;
pub use scp::ScpError;
pub use ssh::SshError;

/// One cluster: an engine and a prefix.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    engine: Arc<Engine>,
    prefix: String,
}

impl Cluster {
    /// Name of a container of the cluster.
    fn container(&self, name: &str) -> String {
        format!("{}-{name}", self.prefix)
    }

    /// Name of a node's container; nodes count from 1.
    fn node(&self, number: u32) -> String {
        self.container(&node_name(number))
    }
}

fn node_name(number: u32) -> String {
    format!("node{number:02}")
}

/// Runs a command.
///
/// # Errors
/// Whatever went wrong; what `run` had made is gone by then.
pub async fn run(args: KubevirtciArgs) -> Result<(), BoxError> {
    let KubevirtciArgs { prefix, command } = args;
    if let KubevirtciCommand::Run(args) = &command {
        refuse::check(args)?;
    }
    let cluster = Cluster { engine: Arc::new(Engine::connect().await?), prefix };
    match command {
        KubevirtciCommand::Run(args) => run::run(&cluster, &args).await,
        KubevirtciCommand::Ports { port, container_name } => {
            ports::run(&cluster, port, &container_name).await
        }
        KubevirtciCommand::Rm => rm::run(&cluster).await,
        KubevirtciCommand::Ssh { node, command } => ssh::run(&cluster, &node, &command).await,
        KubevirtciCommand::Scp { source, destination, container_name: _, ssh_user: _ } => {
            scp::run(&cluster, &source, &destination).await
        }
    }
}
