//! Mapped ports: connections to a port of the shared namespace, which the engine publishes on its
//! host, go on to a node that is Ready, and to the next one when that doesn't answer.
//!
//! A program rather than a rule of the packet filter: a rule would go on sending to a node that has
//! died, and couldn't lead from IPv4 on the host to nodes that have IPv6 alone.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hoist_phases::phases::steward::Relay;
use k8s_openapi::api::core::v1::Node;
use kube::runtime::reflector::Store;
use rustix::net::sockopt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

use super::routes;

/// For a node on the same bridge, busy as it may be; one that is dead answers nothing at all.
const CONNECT: Duration = Duration::from_secs(1);

/// How often all nodes are tried while one of them is silent.
const ROUNDS: usize = 5;

/// For all tries together, however many nodes there are: a client doesn't wait for ever.
const ALL: Duration = Duration::from_secs(15);

/// Connections of one mapping at once: each holds two descriptors. Others wait with the kernel.
const MOST: usize = 1_000;

/// After so long in silence, whether the other end is still there is asked.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// How long it has to answer that, asked so often.
const PROBE: (Duration, u32) = (Duration::from_secs(10), 3);

/// What a mapping leads to, at any moment.
#[derive(Clone)]
pub(super) struct Targets {
    relay: Relay,
    nodes: Store<Node>,
    turn: Arc<AtomicUsize>,
}

impl Targets {
    pub(super) fn new(relay: Relay, nodes: Store<Node>) -> Self {
        Self { relay, nodes, turn: Arc::default() }
    }

    /// The addresses to try, in order: another first each time.
    pub(super) fn next(&self) -> Vec<SocketAddr> {
        let nodes = self.nodes.state();
        let mut targets = targets(&self.relay, nodes.iter().map(AsRef::as_ref));
        if !targets.is_empty() {
            let turn = self.turn.fetch_add(1, Ordering::Relaxed) % targets.len();
            targets.rotate_left(turn);
        }
        targets
    }

    /// Whether it is still among them.
    pub(super) fn lead_to(&self, target: SocketAddr) -> bool {
        let nodes = self.nodes.state();
        targets(&self.relay, nodes.iter().map(AsRef::as_ref)).contains(&target)
    }
}

/// The one node of the mapping, whatever its state, or all that are Ready.
fn targets<'a>(relay: &Relay, nodes: impl IntoIterator<Item = &'a Node>) -> Vec<SocketAddr> {
    let at = |address| SocketAddr::new(address, relay.port);
    if let Some(address) = relay.to {
        return vec![at(address)];
    }
    let ready = nodes.into_iter().filter(|node| is_ready(node));
    let mut found: Vec<_> = ready.filter_map(|node| Some(at(routes::address(node, relay.ipv4)?))).collect();
    found.sort_unstable();
    found
}

fn is_ready(node: &Node) -> bool {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.into_iter().flatten().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Where a mapping listens: engines deliver to the namespace's IPv4 address in any case.
pub(super) fn listen_address(relay: &Relay) -> SocketAddr {
    let any = if relay.ipv6 { IpAddr::V6(Ipv6Addr::UNSPECIFIED) } else { IpAddr::V4(Ipv4Addr::UNSPECIFIED) };
    SocketAddr::new(any, relay.listen)
}

/// Relays connections for as long as the process lives.
///
/// # Errors
/// When the port is taken.
pub(super) async fn tcp(targets: Targets) -> io::Result<Infallible> {
    let listener = TcpListener::bind(listen_address(&targets.relay)).await?;
    Ok(serve(targets, listener, MOST).await)
}

async fn serve(targets: Targets, listener: TcpListener, most: usize) -> Infallible {
    let free = Arc::new(Semaphore::new(most));
    loop {
        // It is never closed.
        let Ok(place) = Arc::clone(&free).acquire_owned().await else { return std::future::pending().await };
        // Out of descriptors for example: the next connection may do better.
        let Ok((client, _)) = listener.accept().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let targets = targets.next();
        tokio::spawn(async move {
            if let Ok(Some(node)) = tokio::time::timeout(ALL, connect(&targets)).await {
                relay(client, node).await;
            }
            drop(place);
        });
    }
}

/// The first that answers. A node that is alive may have sent us on to a pod of one that isn't, and may
/// choose another pod the next time; one that refuses means it.
async fn connect(targets: &[SocketAddr]) -> Option<TcpStream> {
    for _ in 0..ROUNDS {
        let mut silent = false;
        for target in targets {
            match tokio::time::timeout(CONNECT, TcpStream::connect(target)).await {
                Ok(Ok(stream)) => return Some(stream),
                Ok(Err(error)) => tracing::debug!("{target}: {error}"),
                Err(_) => silent = true,
            }
        }
        if !silent {
            return None;
        }
    }
    None
}

/// Until both have said all. Whoever hangs up early isn't interested.
async fn relay(mut client: TcpStream, mut node: TcpStream) {
    // What is written goes out at once, as the two ends mean it.
    let _ = client.set_nodelay(true).and(node.set_nodelay(true));
    // One that has died says nothing: without asking, its place would be held for ever.
    for end in [&client, &node] {
        if let Err(error) = keep_alive(end) {
            tracing::debug!("keepalive: {error}");
        }
    }
    let _ = tokio::io::copy_bidirectional(&mut client, &mut node).await;
}

fn keep_alive(end: &TcpStream) -> rustix::io::Result<()> {
    sockopt::set_tcp_keepidle(end, KEEPALIVE)?;
    sockopt::set_tcp_keepintvl(end, PROBE.0)?;
    sockopt::set_tcp_keepcnt(end, PROBE.1)?;
    sockopt::set_socket_keepalive(end, true)
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;

    /// What leads to one node, whatever its state.
    pub(in super::super) fn targets_to(at: SocketAddr) -> Targets {
        let relay = Relay {
            listen: 0,
            protocol: Default::default(),
            port: at.port(),
            to: Some(at.ip()),
            ipv4: true,
            ipv6: false,
        };
        Targets::new(relay, kube::runtime::reflector::store().0)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;

    type Check = Result<(), Box<dyn std::error::Error>>;

    fn node(name: &str, address: &str, ready: &str) -> Result<Node, serde_json::Error> {
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "status": {
                "addresses": [{"type": "InternalIP", "address": address}],
                "conditions": [{"type": "Ready", "status": ready}],
            },
        }))
    }

    fn relay_to(port: u16) -> Relay {
        Relay { listen: 0, protocol: Default::default(), port, to: None, ipv4: true, ipv6: false }
    }

    #[test]
    fn nodes_that_are_not_ready_get_nothing() -> Check {
        let nodes = [
            node("b", "192.168.66.102", "True")?,
            node("a", "192.168.66.101", "Unknown")?,
            node("c", "192.168.66.103", "True")?,
        ];
        let found = targets(&relay_to(30080), &nodes);
        assert_eq!(found, ["192.168.66.102:30080".parse()?, "192.168.66.103:30080".parse()?]);
        let one = Relay { to: Some("192.168.66.101".parse()?), ..relay_to(22) };
        assert_eq!(targets(&one, &nodes), ["192.168.66.101:22".parse()?]);
        Ok(())
    }

    #[tokio::test]
    async fn the_next_answers_for_one_that_is_dead() -> Check {
        let dead = TcpListener::bind("127.0.0.1:0").await?;
        let gone = dead.local_addr()?;
        drop(dead);
        let server = TcpListener::bind("127.0.0.1:0").await?;
        let here = server.local_addr()?;
        let mut stream = connect(&[gone, here]).await.ok_or("nobody answers")?;
        let (mut peer, _) = server.accept().await?;
        stream.write_all(b"hello").await?;
        drop(stream);
        let mut said = String::new();
        peer.read_to_string(&mut said).await?;
        assert_eq!(said, "hello");
        assert!(connect(&[gone]).await.is_none());
        Ok(())
    }
    #[tokio::test]
    async fn a_connection_above_the_most_waits_for_a_place() -> Check {
        let server = TcpListener::bind("127.0.0.1:0").await?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let at = listener.local_addr()?;
        let served = tokio::spawn(serve(testing::targets_to(server.local_addr()?), listener, 1));
        let first = TcpStream::connect(at).await?;
        let (first_there, _) = server.accept().await?;
        let mut second = TcpStream::connect(at).await?;
        second.write_all(b"hello").await?;
        let early = tokio::time::timeout(Duration::from_millis(100), server.accept()).await;
        assert!(early.is_err(), "there is one place");
        drop((first, first_there));
        let (mut second_there, _) = server.accept().await?;
        drop(second);
        let mut said = String::new();
        second_there.read_to_string(&mut said).await?;
        assert_eq!(said, "hello");
        served.abort();
        Ok(())
    }

    #[tokio::test]
    async fn both_ends_are_asked_whether_they_are_still_there() -> Check {
        let server = TcpListener::bind("127.0.0.1:0").await?;
        let end = TcpStream::connect(server.local_addr()?).await?;
        keep_alive(&end)?;
        assert!(sockopt::socket_keepalive(&end)?);
        assert_eq!(sockopt::tcp_keepidle(&end)?, KEEPALIVE);
        Ok(())
    }
}
