//! What only the engine's host can tell of itself: read by this very program in a container of the
//! host's network and processes, since the engine may be on another machine.
//!
//! It only reads. What can't be read is left out; what a value means is judged by the doctor.

pub(crate) mod capabilities;
mod filter;
mod proc;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;

use ipnet::IpNet;
use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};

pub use filter::{BaseChain, Filter};

use crate::report::OutputError;

/// A route of the main table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostRoute {
    pub destination: IpNet,
    pub interface: String,
}

/// Free and whole bytes of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Room {
    pub free: u64,
    pub whole: u64,
}

/// The capabilities of a process that makes containers, or of the host's first one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounding {
    pub process: String,
    /// A bit each (Linux, include/uapi/linux/capability.h).
    pub capabilities: u64,
}

/// The engine's host.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HostReport {
    /// Hard limit of open files in a container; the largest number where there is none.
    pub nofile: u64,
    pub inotify_instances: Option<u64>,
    pub inotify_watches: Option<u64>,
    /// Bytes that can be taken without swapping.
    pub memory_available: Option<u64>,
    /// Of the file system that the engine keeps volumes on.
    pub disk: Option<Room>,
    /// Whether the kernel has IPv6 and it isn't turned off.
    pub ipv6: bool,
    /// Whether packets between ports of a bridge pass the packet filter; absent without br_netfilter.
    pub bridge_filter: Option<bool>,
    /// MTU by interface.
    pub mtus: BTreeMap<String, u32>,
    pub routes: Vec<HostRoute>,
    /// Where something listens for TCP.
    pub listening: Vec<SocketAddr>,
    pub bounding: Option<Bounding>,
    /// Whether the processors can virtualize.
    pub virtualization: bool,
    /// Whether the kernel offers KVM.
    pub kvm: bool,
    /// Whether KVM's guests can have guests; absent without KVM.
    pub nested: Option<bool>,
    /// Tables of the legacy packet filter, by family.
    pub legacy_tables: Vec<String>,
    /// What nft(8) says of the packet filter, or why it can't.
    pub filter: Filter,
}

/// Names of processes that start containers, the nearest to them first.
const ENGINES: [&str; 5] = ["containerd", "dockerd", "conmon", "podman", "crio"];

/// Reads everything that this process can see. `volume` is a directory that the engine made for it.
pub fn read(volume: &Path) -> HostReport {
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let number = |path: &str| text(path).trim().parse::<u64>().ok();
    let yes = |path: &str| std::fs::read_to_string(path).ok().map(|text| matches!(text.trim(), "1" | "Y"));
    HostReport {
        nofile: getrlimit(Resource::Nofile).maximum.unwrap_or(u64::MAX),
        inotify_instances: number("/proc/sys/fs/inotify/max_user_instances"),
        inotify_watches: number("/proc/sys/fs/inotify/max_user_watches"),
        memory_available: proc::available(&text("/proc/meminfo")),
        disk: rustix::fs::statvfs(volume)
            .ok()
            .map(|fs| Room { free: fs.f_bavail * fs.f_frsize, whole: fs.f_blocks * fs.f_frsize }),
        ipv6: number("/proc/sys/net/ipv6/conf/all/disable_ipv6") == Some(0),
        bridge_filter: yes("/proc/sys/net/bridge/bridge-nf-call-iptables"),
        mtus: mtus(),
        routes: [proc::routes(&text("/proc/net/route")), proc::routes6(&text("/proc/net/ipv6_route"))]
            .concat(),
        listening: [proc::listening(&text("/proc/net/tcp")), proc::listening(&text("/proc/net/tcp6"))]
            .concat(),
        bounding: bounding(),
        virtualization: proc::virtualization(&text("/proc/cpuinfo")),
        kvm: text("/proc/misc").lines().any(|line| line.trim_end().ends_with(" kvm")),
        nested: ["kvm_intel", "kvm_amd"]
            .into_iter()
            .find_map(|module| yes(&format!("/sys/module/{module}/parameters/nested"))),
        legacy_tables: ["ip_tables_names", "ip6_tables_names"]
            .into_iter()
            .flat_map(|file| {
                text(&format!("/proc/net/{file}")).lines().map(str::to_owned).collect::<Vec<_>>()
            })
            .collect(),
        filter: filter::read(),
    }
}

/// Reads, and prints as JSON.
///
/// # Errors
/// When stdout can't be written.
pub fn print(volume: &Path) -> Result<(), OutputError> {
    let json = serde_json::to_vec(&read(volume)).map_err(OutputError::Serialize)?;
    crate::report::data(json)
}

fn mtus() -> BTreeMap<String, u32> {
    let interfaces = std::fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mtu = |entry: std::fs::DirEntry| {
        let text = std::fs::read_to_string(entry.path().join("mtu")).ok()?;
        Some((entry.file_name().into_string().ok()?, text.trim().parse().ok()?))
    };
    interfaces.filter_map(mtu).collect()
}

/// What the nearest to a container can have, its containers can.
fn bounding() -> Option<Bounding> {
    let mut found: Vec<(usize, Bounding)> = Vec::new();
    for entry in std::fs::read_dir("/proc").ok()?.flatten() {
        let name = entry.file_name();
        if !name.to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let status = std::fs::read_to_string(entry.path().join("status")).unwrap_or_default();
        let Some(bounding) = proc::bounding(&status) else { continue };
        match ENGINES.iter().position(|engine| *engine == bounding.process) {
            Some(rank) => found.push((rank, bounding)),
            None if name == "1" => found.push((ENGINES.len(), bounding)),
            None => {}
        }
    }
    found.into_iter().min_by_key(|(rank, _)| *rank).map(|(_, bounding)| bounding)
}
