//! What kubevirtci's scripts type: the commands and flags of its own tool, gocli. Every flag of
//! `run` is understood; those that can't be served are refused by name in [`super::refuse`].

use clap::{ArgAction, Args, Subcommand, ValueEnum};

use super::ports::PortName;
use crate::env;

#[derive(Debug, Args)]
pub struct KubevirtciArgs {
    /// What the names of the containers begin with
    #[arg(short = 'p', long, global = true, default_value = "kubevirt")]
    pub prefix: String,
    #[command(subcommand)]
    pub command: KubevirtciCommand,
}

#[derive(Debug, Subcommand)]
pub enum KubevirtciCommand {
    /// Start a cluster from a cluster image
    Run(Box<RunArgs>),
    /// Print the port on the host that a port of the cluster is published on, or all
    Ports {
        port: Option<PortName>,
        /// The container that publishes them
        #[arg(long, default_value = "dnsmasq")]
        container_name: String,
    },
    /// Remove everything whose name begins with the prefix
    Rm,
    /// Run a command on a node, or a shell
    Ssh {
        /// A name such as `node01`
        node: String,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Copy a file of node01 to this machine; `-` is stdout
    Scp {
        source: String,
        destination: String,
        /// Ignored: the container is told by the prefix
        #[arg(long, default_value = "dnsmasq")]
        container_name: String,
        /// Ignored: files are read as root
        #[arg(long, default_value = "cloud-user")]
        ssh_user: String,
    },
}

/// Where the control plane runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum ControlPlane {
    /// In containers from two nodes on, on the node of a cluster that has but one
    #[default]
    Auto,
    /// In containers beside dnsmasq; every node is a worker
    Containers,
    /// On node01, by the provider's `kubeadm init`
    Node01,
}

/// A switch as gocli's users write it: alone, or with `=true` or `=false`.
macro_rules! switches {
    ($(#[doc = $doc:literal] $name:ident $(= $default:literal)?),+ $(,)?) => {
        /// The flags of `run` that are on or off.
        #[derive(Debug, Clone, PartialEq, Eq, Args)]
        pub struct Switches {
            $(
                #[doc = $doc]
                #[arg(long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
                      default_missing_value = "true", default_value_t = switches!(@ $($default)?), hide_possible_values = true)]
                pub $name: bool,
            )+
        }
    };
    (@) => { false };
    (@ $default:literal) => { $default };
}

switches! {
    /// Publish all ports on numbers of the engine's choice
    random_ports = true,
    /// Use the flavour of the cluster image without pulled images
    slim,
    /// Make a bridge of every secondary NIC
    enable_secondary_nic_bridges,
    /// Deploy rook-ceph
    enable_ceph,
    /// Deploy Istio
    enable_istio,
    /// Start the nodes in reverse order; they start side by side here
    reverse,
    /// Deploy the cluster network addons operator
    enable_cnao,
    /// Leave its custom resource out
    skip_cnao_cr,
    /// Deploy the dynamic networks controller with it
    deploy_dnc,
    /// Deploy Multus
    deploy_multus,
    /// Deploy CDI
    deploy_cdi,
    /// Deploy AAQ
    deploy_aaq,
    /// Deploy the NFS CSI driver
    enable_nfs_csi,
    /// Deploy the Prometheus operator
    enable_prometheus,
    /// Deploy its Alertmanager
    enable_prometheus_alertmanager,
    /// Deploy Grafana
    enable_grafana,
    /// Merge equal memory pages
    enable_ksm,
    /// Use swap
    enable_swap,
    /// Keep etcd's data in memory
    run_etcd_on_memory,
    /// Let realtime processes run without a limit
    enable_realtime_scheduler,
    /// Turn FIPS mode on
    enable_fips,
    /// Enforce the restricted Pod Security Standard
    enable_psa,
    /// IPv6 alone
    single_stack,
    /// Use the provider's Flannel instead of its Calico
    flannel,
    /// Let etcd not wait for the disk
    no_etcd_fsync,
    /// Write every request into the audit log
    enable_audit,
    /// Deploy the network resources injector
    deploy_network_resources_injector,
}

/// The flags of `run`.
#[derive(Debug, Clone, Args)]
pub struct RunArgs {
    /// Name of the cluster image without its tag, such as `k8s-1.36`
    pub cluster: String,
    #[command(flatten)]
    pub switches: Switches,
    /// Return once the cluster is up; otherwise stay and remove it at the end
    #[arg(short, long, action = ArgAction::Set, num_args = 0..=1, require_equals = true,
          default_missing_value = "true", default_value_t = true, hide_possible_values = true)]
    pub background: bool,
    /// Where the control plane runs
    #[arg(long, value_enum, default_value = "auto", env = env::HOIST_KUBEVIRTCI_CONTROL_PLANE, hide_env_values = true)]
    pub control_plane: ControlPlane,
    /// Number of nodes
    #[arg(short, long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub nodes: u32,
    /// NUMA nodes of each node
    #[arg(short = 'u', long, default_value_t = 1)]
    pub numa: u32,
    /// Memory of each node
    #[arg(short, long, default_value = "3096M")]
    pub memory: String,
    /// Processors of each node
    #[arg(short, long, default_value_t = 2)]
    pub cpu: u32,
    /// Network cards of each node beside the first
    #[arg(long, default_value_t = 0)]
    pub secondary_nics: u32,
    /// More arguments for qemu
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    pub qemu_args: String,
    /// More arguments for the kernel
    #[arg(long, default_value = "", allow_hyphen_values = true)]
    pub kernel_args: String,
    #[command(flatten)]
    pub ports: PortArgs,
    /// Directory of the engine's host to serve by NFS
    #[arg(long, default_value = "")]
    pub nfs_data: String,
    /// Version of CDI instead of that of the manifests
    #[arg(long, default_value = "")]
    pub cdi_version: String,
    /// Version of AAQ
    #[arg(long, default_value = "")]
    pub aaq_version: String,
    /// Pages that KSM looks at in one go
    #[arg(long, default_value_t = 10)]
    pub ksm_page_count: u32,
    /// Milliseconds that KSM sleeps between two goes
    #[arg(long, default_value_t = 20)]
    pub ksm_scan_interval: u32,
    /// How the kubelet uses swap
    #[arg(long, default_value = "")]
    pub swap_behavior: String,
    /// Swap file in GiB
    #[arg(long, default_value_t = 0)]
    pub swap_size: u32,
    /// The kernel's swappiness
    #[arg(long, default_value_t = 0)]
    pub swapiness: u32,
    /// A caching proxy for images
    #[arg(long, default_value = "")]
    pub docker_proxy: String,
    /// Registry of the cluster image
    #[arg(long, default_value = "quay.io")]
    pub container_registry: String,
    /// Its organization there
    #[arg(long, default_value = "kubevirtci")]
    pub container_org: String,
    /// Its tag with the colon
    #[arg(long, default_value = "", env = env::HOIST_KUBEVIRTCI_SUFFIX, hide_env_values = true)]
    pub container_suffix: String,
    /// A GPU's PCI address
    #[arg(long, default_value = "")]
    pub gpu: String,
    /// Size of an NVMe disk of each node (repeatable)
    #[arg(long)]
    pub nvme: Vec<String>,
    /// Size of a SCSI disk of each node (repeatable)
    #[arg(long)]
    pub scsi: Vec<String>,
    /// Size of a USB disk of each node (repeatable)
    #[arg(long)]
    pub usb: Vec<String>,
    /// Size of a disk that all nodes share (repeatable)
    #[arg(long)]
    pub shared_block_device: Vec<String>,
    /// Size of etcd's file system in memory, with --run-etcd-on-memory
    #[arg(long, default_value = "1G")]
    pub etcd_capacity: String,
    /// Huge pages of 2 MiB
    #[arg(long, default_value_t = 64)]
    pub hugepages_2m: u32,
    /// Huge pages of 1 GiB
    #[arg(long, default_value_t = 0)]
    pub hugepages_1g: u32,
    /// vsock in namespaces: `global` or `local`
    #[arg(long, default_value = "")]
    pub vsock_child_ns_mode: String,
    /// The kubelet's topology manager policy
    #[arg(long, default_value = "")]
    pub topology_manager_policy: String,
    /// Processors that the kubelet reserves for the system
    #[arg(long, default_value = "")]
    pub reserved_system_cpus: String,
}

/// Ports on 127.0.0.1 of the host that are asked for by number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct PortArgs {
    /// For VNC of node01
    #[arg(long)]
    pub vnc_port: Option<u16>,
    /// For HTTP
    #[arg(long)]
    pub http_port: Option<u16>,
    /// For HTTPS
    #[arg(long)]
    pub https_port: Option<u16>,
    /// For the registry
    #[arg(long)]
    pub registry_port: Option<u16>,
    /// For port 8443
    #[arg(long)]
    pub ocp_port: Option<u16>,
    /// For the API server
    #[arg(long)]
    pub k8s_port: Option<u16>,
    /// For SSH to node01
    #[arg(long)]
    pub ssh_port: Option<u16>,
    /// For Prometheus
    #[arg(long)]
    pub prometheus_port: Option<u16>,
    /// For Grafana
    #[arg(long)]
    pub grafana_port: Option<u16>,
    /// For DNS, by UDP
    #[arg(long)]
    pub dns_port: Option<u16>,
}
