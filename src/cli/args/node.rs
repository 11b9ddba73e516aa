//! Flags of `node`.

use clap::{Args, Subcommand};

use super::NodeSizeArgs;
use super::OutputArgs;

#[derive(Debug, Subcommand)]
pub enum NodeCommand {
    /// List the nodes of the cluster
    List(OutputArgs),
    /// Start and join more nodes
    Add(NodeAddArgs),
    /// Drain, remove and forget nodes
    Remove {
        /// Names such as `node02`
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Run a command on a node, or a shell
    Ssh {
        /// A name such as `node01`
        node: String,
        /// The command; a login shell when none is given
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Talk to the serial console of a virtual machine; Ctrl-] leaves it
    Console {
        /// A name such as `node01`
        node: String,
    },
    /// Shut machines down; they keep their disks and stay members
    Stop {
        /// Names such as `node02`
        #[arg(required = true)]
        names: Vec<String>,
    },
    /// Start machines that were stopped or have died, and wait until their nodes are Ready
    Start(NodeStartArgs),
    /// Stop, then start
    Restart(NodeStartArgs),
    /// Put images of the engine, or of archives, into the nodes' containerd
    Load {
        /// References of the engine's store, or paths of image archives
        #[arg(required = true)]
        images: Vec<String>,
    },
}

#[derive(Debug, Clone, Args)]
pub struct NodeAddArgs {
    /// How many
    #[arg(default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub count: u32,
    /// What they run on: `container` or `vm`
    #[arg(long, value_name = "KIND", default_value = "container")]
    pub kind: String,
    /// What they are made from, as --node-image of `up` [default: hoist's own]
    #[arg(long, value_name = "IMAGE")]
    pub image: Option<String>,
    #[command(flatten)]
    pub size: NodeSizeArgs,
    /// Only start the machines; `kubeadm join` is typed by hand, or left to the next `up`
    #[arg(long)]
    pub no_join: bool,
    /// Time for everything together
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    pub timeout: String,
    /// Keep what a failed or interrupted run has made
    #[arg(long)]
    pub retain: bool,
}

#[derive(Debug, Clone, Args)]
pub struct NodeStartArgs {
    /// Names such as `node02`
    #[arg(required = true)]
    pub names: Vec<String>,
    /// Time from the start of the machines until their nodes are Ready
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    pub timeout: String,
}
