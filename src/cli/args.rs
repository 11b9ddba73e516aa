//! What can be typed. Only shapes live here: values are judged in [`crate::config`], all of them
//! at once, so that a user sees every mistake in one go.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use super::images::ImagesCommand;
use crate::env;
use crate::kubevirtci::args::KubevirtciArgs;

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

/// How the progress of `up` is shown on stderr.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    ValueEnum,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Progress {
    /// Live lines on a terminal, plain lines elsewhere
    #[default]
    Auto,
    /// One line a phase when it has ended
    Plain,
    /// One JSON object an event
    Json,
}

/// The flags of `up`. Each is a field of the configuration file too; a flag wins.
#[derive(Debug, Clone, Default, Args)]
pub struct UpArgs {
    /// Configuration file; `-` reads stdin
    #[arg(short = 'f', long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Configuration of kubeadm's (v1beta3, v1beta4, v1), for what neither flag nor file says
    #[arg(long, value_name = "FILE")]
    pub kubeadm_config: Option<PathBuf>,
    /// Use the network namespace of this container, which has br0 with 192.168.66.2 and DHCP; its
    /// maker makes the nodes too
    #[arg(long, value_name = "CONTAINER")]
    pub attach: Option<String>,
    /// Number of nodes to start and join, 0 or `none` for none [default: 1; none with --attach]
    #[arg(short = 'n', long, value_name = "N")]
    pub nodes: Option<String>,
    /// What nodes run on: `container` or `vm` [default: container]
    #[arg(long, value_name = "KIND")]
    pub node_kind: Option<String>,
    /// What nodes are made from: an image of the engine's, or, for virtual machines, a disk image as a file or
    /// URL#sha256=HEX [default: hoist's own]
    #[arg(long, value_name = "IMAGE")]
    pub node_image: Option<String>,
    #[command(flatten)]
    pub size: NodeSizeArgs,
    /// Kubernetes version [default: v1.36.3]
    #[arg(long, value_name = "VERSION")]
    pub kubernetes: Option<String>,
    /// Pod network: `kube-router`, `none`, a manifest file, or URL#sha256=HEX [default: kube-router]
    #[arg(long, value_name = "CNI")]
    pub cni: Option<String>,
    /// Address families: `ipv4`, `ipv6` or `dual`, with default ranges of pods and services for each
    /// [default: ipv4]
    #[arg(long, value_name = "FAMILY")]
    pub ip_family: Option<String>,
    /// Addresses of pods: a range, or one of each family [default: 10.244.0.0/16; fd10:244::/56]
    #[arg(long, value_name = "CIDR[,CIDR]")]
    pub pod_subnet: Option<String>,
    /// Addresses of services: a range, or one of each family [default: 10.96.0.0/12; fd10:96::/112]
    #[arg(long, value_name = "CIDR[,CIDR]")]
    pub service_subnet: Option<String>,
    /// Prefix length of each node's range of pod addresses [default: 24]
    #[arg(long, value_name = "BITS")]
    pub node_mask_size_ipv4: Option<u8>,
    /// The same of IPv6 [default: 64]
    #[arg(long, value_name = "BITS")]
    pub node_mask_size_ipv6: Option<u8>,
    /// DNS domain of services [default: cluster.local]
    #[arg(long, value_name = "DOMAIN")]
    pub dns_domain: Option<String>,
    /// Bootstrap token [default: a random one, kept for the cluster's life]
    #[arg(long, value_name = "TOKEN", hide_env_values = true)]
    pub token: Option<String>,
    /// Lifetime of the token: `24h`, `90m`, 0 for ever [default: 24h]
    #[arg(long, value_name = "DURATION")]
    pub token_ttl: Option<String>,
    /// Where machines outside the cluster's network reach the control plane; with --listen
    #[arg(long, value_name = "HOST:PORT")]
    pub control_plane_endpoint: Option<String>,
    /// Address of the engine's host to publish the API port on
    /// [default: 127.0.0.1; port: the endpoint's, or of the engine's choice]
    #[arg(long, value_name = "IP[:PORT]")]
    pub listen: Option<String>,
    /// Port of the host that leads to a port of any node that is Ready, or of one; host port 0 is one of the
    /// engine's choice (repeatable) [default address: 127.0.0.1]
    #[arg(long, value_name = "[IP:]HOST:PORT[/udp][@NODE]")]
    pub port: Vec<String>,
    /// Make a registry that nodes pull from, published on 127.0.0.1 for `docker push localhost:PORT/…`
    #[arg(long)]
    pub registry: bool,
    /// Port of 127.0.0.1 that it is published on; with --registry [default: 0, one of the engine's choice]
    #[arg(long, value_name = "PORT")]
    pub registry_port: Option<u16>,
    /// Where nodes ask first for the images of a registry (repeatable, in order)
    #[arg(long, value_name = "REGISTRY=URL")]
    pub mirror: Vec<String>,
    /// Proxy through which nodes pull images over http [default: none, whatever the environment says]
    #[arg(long, value_name = "URL")]
    pub http_proxy: Option<String>,
    /// The same over https
    #[arg(long, value_name = "URL")]
    pub https_proxy: Option<String>,
    /// What nodes reach without it, beside all of the cluster's own (repeatable)
    #[arg(long, value_name = "HOST|DOMAIN|CIDR", value_delimiter = ',')]
    pub no_proxy: Vec<String>,
    /// Another name or address the API server's certificate is valid for (repeatable)
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub extra_san: Vec<String>,
    /// Certificate of a CA of yours to sign with, PEM; with --ca-key [default: a CA of the cluster's own]
    #[arg(long, value_name = "FILE")]
    pub ca_cert: Option<PathBuf>,
    /// Its key: PKCS#1, PKCS#8 or SEC1, not encrypted
    #[arg(long, value_name = "FILE")]
    pub ca_key: Option<PathBuf>,
    /// Keep etcd's data on disk with fsync, rather than in memory
    #[arg(long)]
    pub durable_etcd: bool,
    /// What keeps the API's objects: `etcd`, or `kine` on SQLite [default: etcd]
    #[arg(long, value_name = "BACKEND")]
    pub etcd_backend: Option<String>,
    /// An etcd that is there already, https://HOST:PORT, instead of one of the cluster's own; may be given
    /// several times
    #[arg(long, value_name = "URL")]
    pub etcd_endpoint: Vec<String>,
    /// What the cluster's keys in that etcd begin with [default: /hoist/NAME]
    #[arg(long, value_name = "PATH")]
    pub etcd_prefix: Option<String>,
    /// What signed that etcd's certificate, PEM
    #[arg(long, value_name = "FILE")]
    pub etcd_ca: Option<PathBuf>,
    /// A client's certificate for that etcd, PEM
    #[arg(long, value_name = "FILE")]
    pub etcd_cert: Option<PathBuf>,
    /// The key of that certificate, PEM
    #[arg(long, value_name = "FILE")]
    pub etcd_key: Option<PathBuf>,
    /// How kube-proxy programs services: `nftables` or `iptables` [default: nftables]
    #[arg(long, value_name = "MODE")]
    pub kube_proxy_mode: Option<String>,
    /// How the API server reaches pods: `routes`, `konnectivity` or `none`
    /// [default: routes; konnectivity with Calico or an endpoint]
    #[arg(long, value_name = "HOW")]
    pub reach: Option<String>,
    /// Give nodes no role labels and taints [default: node01 control-plane, every node worker]
    #[arg(long)]
    pub no_roles: bool,
    /// Leave all pods where they are [default: the cluster's DNS is spread over nodes]
    #[arg(long)]
    pub no_spread: bool,
    /// Leave out a phase, see `hoist phase list` (repeatable)
    #[arg(long, value_name = "PHASE", value_delimiter = ',')]
    pub skip_phase: Vec<String>,
    /// Return when this much answers: `join`, `api`, `nodes`, `dns` or `webhook`
    /// [default: dns; api when there are no nodes or no CNI]
    #[arg(long, value_name = "LEVEL")]
    pub wait: Option<String>,
    /// Time for everything together [default: 10m]
    #[arg(long, value_name = "DURATION")]
    pub timeout: Option<String>,
    /// Keep what a failed or interrupted run has made
    #[arg(long)]
    pub retain: bool,
    /// How progress is shown on stderr
    #[arg(long, value_name = "HOW")]
    pub progress: Option<Progress>,
    /// Write where the time went, in Chrome's trace format, and a page of the timeline beside it (.html)
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// When this run fails, gather what `hoist export` does before anything is removed; a directory that is new
    /// or empty
    #[arg(long, value_name = "DIR")]
    pub export_on_failure: Option<PathBuf>,
}

/// What `report` is to do.
#[derive(Debug, Clone, Args)]
pub struct ReportArgs {
    /// How long to watch
    #[arg(long = "for", value_name = "DURATION", default_value = "10s")]
    pub duration: String,
    /// Write a page with bars as well
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
}

/// The size of nodes that are virtual machines.
#[derive(Debug, Clone, Default, Args)]
pub struct NodeSizeArgs {
    /// Processors of each virtual machine [default: 2]
    #[arg(long, value_name = "N")]
    pub cpus: Option<u16>,
    /// Memory of each virtual machine [default: 2Gi]
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// Disk of each virtual machine [default: 20Gi]
    #[arg(long, value_name = "SIZE")]
    pub disk: Option<String>,
}

#[derive(Debug, Clone, Default, Args)]
pub struct KubeconfigArgs {
    /// Write it to this file (mode 0600) rather than to stdout
    #[arg(long, value_name = "FILE", conflicts_with = "merge")]
    pub write: Option<PathBuf>,
    /// Merge it into the user's: $KUBECONFIG's first file, or ~/.kube/config
    #[arg(long)]
    pub merge: bool,
    /// Take out of the user's what an earlier merge put there
    #[arg(long, conflicts_with_all = ["write", "merge"])]
    pub unmerge: bool,
    /// With --merge: make it the current context
    #[arg(long, requires = "merge")]
    pub switch: bool,
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
pub struct ExportArgs {
    /// A directory that is new or empty
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    /// Configuration file of a cluster that is to be made here; `-` reads stdin [default: the cluster's
    /// own settings, or what `up` would take]
    #[arg(short = 'f', long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
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
pub struct WaitArgs {
    /// `deployment/NAME` (all replicas are of the newest revision and ready),
    /// `deployment/NAME=min-ready:N` (at least N are ready), or `level=LEVEL` as of `up --wait`
    /// (repeatable)
    #[arg(long = "for", required = true, value_name = "WHAT")]
    pub awaited: Vec<String>,
    /// Namespace of the Deployments
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
    /// Time for all of them together
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub timeout: String,
}

#[derive(Debug, Clone, Args)]
pub struct LogsArgs {
    /// A component (`etcd`, `kube-apiserver`, …) or node (`node01`)
    pub of: String,
    /// Go on with what is written from now on
    #[arg(short, long)]
    pub follow: bool,
    /// Number of lines from the end
    #[arg(long, value_name = "LINES", default_value_t = 1000)]
    pub tail: u32,
}

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

#[derive(Debug, Clone, Args)]
pub struct ResumeArgs {
    /// Time until the API server and the nodes are ready
    #[arg(long, value_name = "DURATION", default_value = "2m")]
    pub timeout: String,
}

#[derive(Debug, Clone, Args)]
pub struct JoinCommandArgs {
    /// Lifetime of the token: `24h`, `90m`, 0 for ever
    #[arg(long, value_name = "DURATION", default_value = "24h")]
    pub token_ttl: String,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Subcommand)]
pub enum CertsCommand {
    /// Tell when each certificate ends, the kubelets' own too; exit code 9 when one has to be renewed
    Check(OutputArgs),
    /// Issue all certificates but the authorities anew, and start the components again with them; nodes
    /// stay joined
    Renew,
}

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token and print it
    Create {
        /// Lifetime: `24h`, `90m`, 0 for ever
        #[arg(long, value_name = "DURATION", default_value = "24h")]
        ttl: String,
        /// What it is for, shown by `list`
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List the tokens that are there, by id
    List {
        /// Show the secret half too: whoever has it can join machines
        #[arg(long)]
        show_secret: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Delete tokens; nodes that have joined stay
    Delete {
        /// Ids such as `abcdef`, or whole tokens
        #[arg(required = true, value_name = "TOKEN")]
        tokens: Vec<String>,
    },
}

#[derive(Debug, Clone, Args)]
pub struct KubectlArgs {
    /// Arguments of kubectl
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub args: Vec<std::ffi::OsString>,
}
