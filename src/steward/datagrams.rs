//! Mapped ports of UDP: a socket of its own to a node for each client, so that answers find back.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::UdpSocket;

use super::relay::Targets;

/// After so long without a word from the node, the next datagram of the client may go to another one.
const IDLE: Duration = Duration::from_secs(60);

/// Largest datagram (RFC 768: a length of 16 bits).
const LARGEST: usize = 65_535;

/// Clients at once: each holds a descriptor.
const MOST: usize = 1_000;

type Sessions = Arc<Mutex<HashMap<SocketAddr, Arc<UdpSocket>>>>;

/// Relays datagrams for as long as the process lives.
///
/// # Errors
/// When the port is taken.
pub(super) async fn udp(targets: Targets, at: SocketAddr) -> io::Result<Infallible> {
    let socket = Arc::new(UdpSocket::bind(at).await?);
    let sessions = Sessions::default();
    let mut buffer = vec![0; LARGEST];
    loop {
        // Errors of earlier answers arrive here too, and are nobody's business.
        let Ok((length, client)) = socket.recv_from(&mut buffer).await else { continue };
        let Some(node) = session(&socket, &sessions, client, &targets).await else { continue };
        if node.send(&buffer[..length]).await.is_err() {
            // Nobody listens there: the client's next try goes to another.
            forget(&sessions, client);
        }
    }
}

async fn session(
    socket: &Arc<UdpSocket>,
    sessions: &Sessions,
    client: SocketAddr,
    targets: &Targets,
) -> Option<Arc<UdpSocket>> {
    {
        let known = sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(node) = known.get(&client) {
            return Some(Arc::clone(node));
        }
        if known.len() >= MOST {
            return None;
        }
    }
    let target = *targets.next().first()?;
    let any: SocketAddr = match target {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let node = Arc::new(UdpSocket::bind(any).await.ok()?);
    node.connect(target).await.ok()?;
    sessions.lock().unwrap_or_else(PoisonError::into_inner).insert(client, Arc::clone(&node));
    let (socket, sessions, answers) = (Arc::clone(socket), Arc::clone(sessions), Arc::clone(&node));
    tokio::spawn(async move {
        let mut buffer = vec![0; LARGEST];
        while let Ok(Ok(length)) = tokio::time::timeout(IDLE, answers.recv(&mut buffer)).await {
            if socket.send_to(&buffer[..length], client).await.is_err() {
                break;
            }
        }
        forget(&sessions, client);
    });
    Some(node)
}

fn forget(sessions: &Sessions, client: SocketAddr) {
    sessions.lock().unwrap_or_else(PoisonError::into_inner).remove(&client);
}
