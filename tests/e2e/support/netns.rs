//! A look from within a container's network namespace.

use std::collections::BTreeSet;
use std::fs::File;
use std::net::{IpAddr, SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::time::Duration;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::engine::pid;

/// Who doesn't answer by then is taken for one who does not: on this host nothing is far.
const PATIENCE: Duration = Duration::from_secs(1);

/// Ports are tried by so many at once.
const THREADS: u16 = 32;

/// Runs something with the network of a container; threads and processes that it starts have it too. The
/// engine has to be on this host.
pub(crate) fn within<T: Send>(container: &str, look: impl FnOnce() -> T + Send) -> T {
    let namespace = File::open(format!("/proc/{}/ns/net", pid(container))).expect("it runs");
    let enter = || {
        move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).expect("root may");
        look()
    };
    std::thread::scope(|scope| scope.spawn(enter).join().expect("the look ends well"))
}

pub(crate) fn answers(address: IpAddr, port: u16) -> bool {
    TcpStream::connect_timeout(&SocketAddr::new(address, port), PATIENCE).is_ok()
}

/// All TCP ports of an address that take connections.
pub(crate) fn open_ports(address: IpAddr) -> BTreeSet<u16> {
    let part = |first: u16| (first..=u16::MAX).step_by(THREADS.into()).filter(|port| answers(address, *port));
    std::thread::scope(|scope| {
        let parts: Vec<_> =
            (1..=THREADS).map(|first| scope.spawn(move || part(first).collect::<Vec<_>>())).collect();
        parts.into_iter().flat_map(|part| part.join().expect("a scan ends")).collect()
    })
}
