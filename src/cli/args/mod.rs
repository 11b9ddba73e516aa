//! What can be typed. Only shapes live here: values are judged in [`crate::config`], all of them
//! at once, so that a user sees every mistake in one go.

mod access;
mod node;
mod up;
mod watch;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::images::ImagesCommand;
use crate::env;
use crate::kubevirtci::args::KubevirtciArgs;

pub use access::{CertsCommand, JoinCommandArgs, KubeconfigArgs, KubectlArgs, TokenCommand};
pub use node::{NodeAddArgs, NodeCommand, NodeStartArgs};
pub use up::{NodeSizeArgs, Progress, UpArgs, UpgradeArgs};
pub use watch::{DoctorArgs, ExportArgs, LogsArgs, ReportArgs, WaitArgs};

/// Lifts a real Kubernetes control plane out of the nodes: containers in one network namespace
/// that any node joins with kubeadm.
#[derive(Debug, Parser)]
#[command(name = "hoist", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// Options that every command takes.
#[derive(Debug, Clone, Default, Args)]
pub struct Global {
    /// Name of the cluster [default: hoist]
    #[arg(long, global = true, env = env::HOIST_NAME, value_name = "NAME", hide_env_values = true)]
    pub name: Option<String>,
    /// Tell more on stderr; twice for everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Log filter, such as `info` or `hoist::runtime=debug`
    #[arg(long, global = true, env = env::HOIST_LOG, value_name = "FILTER", hide_env_values = true)]
    pub log: Option<String>,
    /// Form of the log on stderr
    #[arg(long, global = true, value_name = "FORMAT", default_value = "text")]
    pub log_format: LogFormat,
    /// No colours, even on a terminal
    #[arg(long, global = true)]
    pub no_color: bool,
}

/// How the log is written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// Lines for people
    #[default]
    Text,
    /// One JSON object a line
    Json,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start a cluster, or bring one that is there to what is asked for
    Up(Box<UpArgs>),
    /// Tell what `up` would do, phase by phase; touches nothing
    Plan {
        #[command(flatten)]
        output: OutputArgs,
        #[command(flatten)]
        up: Box<UpArgs>,
    },
    /// Bring the control plane of a cluster to another version of Kubernetes; nodes stay as they are
    Upgrade(UpgradeArgs),
    /// Remove a cluster with everything it owns; no error when there is none
    Down {
        /// Name of the cluster, the same as --name
        cluster: Option<String>,
    },
    /// Freeze all containers of a cluster, its nodes too; no processor time is spent on it any more
    Pause,
    /// Let a paused cluster go on, and return when its nodes are Ready
    Resume(ResumeArgs),
    /// List the clusters of this engine
    List(OutputArgs),
    /// Tell how a cluster's components and nodes are; exit code 9 when not all is well
    Status(OutputArgs),
    /// Look for what is wrong with the engine, its host and the cluster, when there is one; exit code 9
    /// when a check fails
    Doctor(DoctorArgs),
    /// Tell what processor time and memory each component and node takes
    Report(ReportArgs),
    /// Gather logs, events, objects, settings and more into a directory, without secrets, for whoever looks
    /// into a failure; exit code 10 when something could not be had
    Export(ExportArgs),
    /// Apply manifests; what they refer to may appear meanwhile
    Apply(ApplyArgs),
    /// Return when Deployments are ready or a level is reached; exit code 6 when not in time
    Wait(WaitArgs),
    /// Print the kubeconfig, write it to a file, or merge it into the user's
    Kubeconfig(KubeconfigArgs),
    /// Write, check and explain configuration files; starts nothing
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Work with the phases of a bootstrap
    #[command(subcommand)]
    Phase(PhaseCommand),
    /// Print what a component or node wrote
    Logs(LogsArgs),
    /// Work with the container images of a Kubernetes version
    #[command(subcommand)]
    Images(ImagesCommand),
    /// Save all objects of the API, and put them back
    #[command(subcommand)]
    Snapshot(super::snapshot::SnapshotCommand),
    /// Work with the nodes of a cluster
    #[command(subcommand)]
    Node(NodeCommand),
    /// Print a `kubeadm join` line with a fresh token, for any machine that reaches the cluster's network
    JoinCommand(JoinCommandArgs),
    /// Work with the cluster's bootstrap tokens, by which machines join
    #[command(subcommand)]
    Token(TokenCommand),
    /// Work with the cluster's certificates
    #[command(subcommand)]
    Certs(CertsCommand),
    /// Run the kubectl of the cluster's version against it
    Kubectl(KubectlArgs),
    /// Stand in for gocli, the tool behind kubevirtci's `make cluster-up`
    Kubevirtci(KubevirtciArgs),
    /// Print the versions of hoist and of the Kubernetes it starts
    Version(OutputArgs),
    /// Print a completion script
    Completion {
        /// The shell it is for
        shell: clap_complete::Shell,
    },
    /// Keep what must follow the nodes; runs in the container that `up` makes for it
    #[command(hide = true)]
    Steward {
        /// Ask the one that runs here for what it can't do
        #[arg(long)]
        health: bool,
    },
    /// Print what only the host that this runs on can tell; runs in a container that `doctor` makes
    #[command(hide = true)]
    HostFacts {
        /// A directory of the engine's making
        #[arg(long)]
        volume: PathBuf,
    },
    /// Write the reference pages that are made from the code
    #[command(hide = true)]
    Docs {
        /// The directory to write into
        dir: PathBuf,
    },
}

/// How data is printed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[default]
    Text,
    Json,
}

#[derive(Debug, Clone, Copy, Default, Args)]
pub struct OutputArgs {
    /// Form of the data on stdout
    #[arg(short, long, value_name = "FORMAT", default_value = "text")]
    pub output: Format,
}

#[derive(Debug, Subcommand)]
pub enum ConfigCommand {
    /// Write a configuration file that says what holds by itself, with every field explained
    Init {
        /// Where to [default: stdout]
        file: Option<PathBuf>,
    },
    /// Judge a configuration as `up` would; exit code 2 and everything that is wrong when it isn't right
    Validate(Box<UpArgs>),
    /// Print the settings that `up` would take, each with its origin: a flag, a place in the file, the
    /// cluster that is there, or the default
    View {
        #[command(flatten)]
        output: OutputArgs,
        #[command(flatten)]
        up: Box<UpArgs>,
    },
    /// Print the JSON Schema of the configuration file
    Schema,
}

#[derive(Debug, Subcommand)]
pub enum PhaseCommand {
    /// List the phases in an order they can run in
    List(OutputArgs),
}

#[derive(Debug, Clone, Args)]
pub struct ApplyArgs {
    /// Manifests; `-` reads stdin
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Put into Deployments what they don't state: replicas preferably on different nodes, and
    /// what the cluster's placement policy says
    #[arg(long)]
    pub spread: bool,
    /// How long an object may wait for what it depends on, such as its namespace or kind
    #[arg(long, value_name = "DURATION", default_value = "1m")]
    pub timeout: String,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Clone, Args)]
pub struct ResumeArgs {
    /// Time until the API server and the nodes are ready
    #[arg(long, value_name = "DURATION", default_value = "2m")]
    pub timeout: String,
}
