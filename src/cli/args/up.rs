//! The flags of `up`, which `plan` and `config` take too.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

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

/// The flags of `upgrade`.
#[derive(Debug, Clone, Args)]
pub struct UpgradeArgs {
    /// Kubernetes version: another patch, or the next minor version
    #[arg(long, value_name = "VERSION")]
    pub kubernetes: String,
    /// Only tell what would change, phase by phase; touches nothing
    #[arg(long)]
    pub plan: bool,
    /// Time for everything together
    #[arg(long, value_name = "DURATION", default_value = "10m")]
    pub timeout: String,
    /// How progress is shown on stderr
    #[arg(long, value_name = "HOW", default_value = "auto")]
    pub progress: Progress,
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
