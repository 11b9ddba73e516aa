//! What the end-to-end tests share: the program as a child process, the engine, one cluster for
//! all checks that leave it as it was, and waits with a deadline.

mod engine;
mod hoist;
mod issuer;
mod kubevirtci;
mod netns;
#[cfg(feature = "faults")]
mod private;
mod program;
mod shared;
mod terminal;
mod wait;
mod webhook;
mod workload;
mod writer;

pub(crate) use engine::{
    Traces, archive_files, block, build_image, containers, copy_out, engine, exec, inspect, kill, pid,
    processes_in, remove_image, state, things,
};
pub(crate) use hoist::{Done, Hoist, events, wait};
pub(crate) use issuer::{Issuer, Token};
pub(crate) use kubevirtci::{Kubevirtci, PODS, has_role};
pub(crate) use netns::{answers, open_ports, within};
#[cfg(feature = "faults")]
pub(crate) use private::{CONTROL_PLANE, PrivateEngine};
pub(crate) use shared::{CONFIG_TOKEN, Shared, alone, calm};
pub(crate) use terminal::Terminal;
pub(crate) use wait::until;
pub(crate) use webhook::{WITHIN, Webhook, available, calls, judged};
pub(crate) use workload::{
    BIG, CLIENT, NODE_PORT, SERVER, deploy, fetch, forwarded, in_pod, on_node, server_ip, service_ip,
    workload,
};
pub(crate) use writer::Writer;

/// The network image has a shell, Perl and glibc's resolver; a pod needs no more to be client or server.
pub(crate) const IMAGE: &str = "localhost/hoist/network:v1.36.3";

/// Tells a figure where libtest doesn't swallow it.
pub(crate) fn tell(line: &str) {
    use std::io::Write as _;
    let _ = writeln!(std::io::stderr(), "{line}");
}
