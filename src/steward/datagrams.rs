//! Mapped ports of UDP: a socket of its own to a node for each client, so that answers find back.

use std::collections::HashMap;
use std::convert::Infallible;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::time::{Instant, timeout_at};

use super::relay::Targets;

/// After so long without a word from either end, the client's port may be somebody else's.
const IDLE: Duration = Duration::from_secs(60);

/// Largest datagram (RFC 768: a length of 16 bits).
const LARGEST: usize = 65_535;

/// Clients at once: each holds a descriptor.
const MOST: usize = 1_000;

/// What a client and a node say to each other.
struct Session {
    node: UdpSocket,
    target: SocketAddr,
    /// When either of them has said something.
    last: Mutex<Instant>,
}

impl Session {
    async fn open(target: SocketAddr) -> io::Result<Self> {
        let any: SocketAddr = match target {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let node = UdpSocket::bind(any).await?;
        node.connect(target).await?;
        Ok(Self { node, target, last: Mutex::new(Instant::now()) })
    }

    fn heard(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn until(&self) -> Instant {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) + IDLE
    }

    /// The node's answers to the client, until nobody has said anything for long.
    async fn answer(&self, socket: &UdpSocket, client: SocketAddr) {
        let mut buffer = vec![0; LARGEST];
        loop {
            match timeout_at(self.until(), self.node.recv(&mut buffer)).await {
                Ok(Ok(length)) => {
                    self.heard();
                    if socket.send_to(&buffer[..length], client).await.is_err() {
                        return;
                    }
                }
                Ok(Err(_)) => return,
                // The client may have spoken meanwhile.
                Err(_) if self.until() <= Instant::now() => return,
                Err(_) => {}
            }
        }
    }
}

#[derive(Clone, Default)]
struct Sessions(Arc<Mutex<HashMap<SocketAddr, Arc<Session>>>>);

impl Sessions {
    fn with<T>(&self, change: impl FnOnce(&mut HashMap<SocketAddr, Arc<Session>>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// This session of the client's, and no later one.
    fn forget(&self, client: SocketAddr, session: &Arc<Session>) {
        self.with(|all| {
            if all.get(&client).is_some_and(|known| Arc::ptr_eq(known, session)) {
                all.remove(&client);
            }
        });
    }
}

/// Relays datagrams for as long as the process lives.
///
/// # Errors
/// When the port is taken.
pub(super) async fn udp(targets: Targets, at: SocketAddr) -> io::Result<Infallible> {
    let socket = Arc::new(UdpSocket::bind(at).await?);
    Ok(relay(targets, socket, Sessions::default()).await)
}

async fn relay(targets: Targets, socket: Arc<UdpSocket>, sessions: Sessions) -> Infallible {
    let mut buffer = vec![0; LARGEST];
    loop {
        // Errors of earlier answers arrive here too, and are nobody's business.
        let Ok((length, client)) = socket.recv_from(&mut buffer).await else { continue };
        // What a datagram of before came to is told with the next one, which hasn't been sent then.
        for _ in 0..2 {
            let Some(session) = session(&socket, &sessions, client, &targets).await else { break };
            session.heard();
            if session.node.send(&buffer[..length]).await.is_ok() {
                break;
            }
            sessions.forget(client, &session);
        }
    }
}

/// The client's session; another when its node takes no more.
async fn session(
    socket: &Arc<UdpSocket>,
    sessions: &Sessions,
    client: SocketAddr,
    targets: &Targets,
) -> Option<Arc<Session>> {
    if let Some(known) = sessions.with(|all| all.get(&client).cloned()) {
        if targets.lead_to(known.target) {
            return Some(known);
        }
        sessions.forget(client, &known);
    }
    if sessions.with(|all| all.len()) >= MOST {
        return None;
    }
    let session = Arc::new(Session::open(*targets.next().first()?).await.ok()?);
    sessions.with(|all| all.insert(client, Arc::clone(&session)));
    let (socket, sessions, answered) = (Arc::clone(socket), sessions.clone(), Arc::clone(&session));
    tokio::spawn(async move {
        answered.answer(&socket, client).await;
        sessions.forget(client, &answered);
    });
    Some(session)
}

#[cfg(test)]
mod tests {
    use super::super::relay::testing::targets_to;
    use super::*;

    type Check = Result<(), Box<dyn std::error::Error>>;

    const SOON: Duration = Duration::from_secs(10);

    async fn said(socket: &UdpSocket) -> Result<(String, SocketAddr), Box<dyn std::error::Error>> {
        let mut buffer = [0; 64];
        let (length, from) = tokio::time::timeout(SOON, socket.recv_from(&mut buffer)).await??;
        Ok((String::from_utf8_lossy(&buffer[..length]).into_owned(), from))
    }

    #[tokio::test]
    async fn a_datagram_goes_to_the_node_and_its_answer_comes_back() -> Check {
        let node = UdpSocket::bind("127.0.0.1:0").await?;
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await?);
        let at = socket.local_addr()?;
        let relayed = tokio::spawn(relay(targets_to(node.local_addr()?), socket, Sessions::default()));
        let mut sources = Vec::new();
        for name in ["one", "two"] {
            let client = UdpSocket::bind("127.0.0.1:0").await?;
            for word in ["first", "again"] {
                client.send_to(format!("{name} {word}").as_bytes(), at).await?;
                let (text, from) = said(&node).await?;
                assert_eq!(text, format!("{name} {word}"));
                sources.push(from);
                node.send_to(format!("hello {name}").as_bytes(), from).await?;
                assert_eq!(said(&client).await?, (format!("hello {name}"), at));
            }
        }
        assert!(
            sources[0] == sources[1] && sources[2] == sources[3] && sources[0] != sources[2],
            "{sources:?}"
        );
        relayed.abort();
        Ok(())
    }

    /// A refusal is told with the datagram after it, which must not be lost as well.
    #[tokio::test]
    async fn a_datagram_that_learns_of_a_refusal_is_sent_again() -> Check {
        let node = UdpSocket::bind("127.0.0.1:0").await?;
        let target = node.local_addr()?;
        let socket = Arc::new(UdpSocket::bind("127.0.0.1:0").await?);
        let at = socket.local_addr()?;
        let client = UdpSocket::bind("127.0.0.1:0").await?;
        // A session whose node has refused: what is sent next fails.
        drop(node);
        let session = Session::open(target).await?;
        session.node.send(b"refused").await?;
        session.node.ready(tokio::io::Interest::ERROR).await?;
        let node = UdpSocket::bind(target).await?;
        let sessions = Sessions::default();
        let known = client.local_addr()?;
        sessions.with(|all| all.insert(known, Arc::new(session)));
        let relayed = tokio::spawn(relay(targets_to(target), socket, sessions));
        client.send_to(b"hello", at).await?;
        assert_eq!(said(&node).await?.0, "hello");
        relayed.abort();
        Ok(())
    }

    #[tokio::test]
    async fn a_session_that_ends_takes_no_later_one_with_it() -> Check {
        let target = "127.0.0.1:9".parse()?;
        let (old, new) = (Arc::new(Session::open(target).await?), Arc::new(Session::open(target).await?));
        let (sessions, client) = (Sessions::default(), "127.0.0.1:1".parse()?);
        sessions.with(|all| all.insert(client, Arc::clone(&new)));
        sessions.forget(client, &old);
        assert_eq!(sessions.with(|all| all.len()), 1);
        sessions.forget(client, &new);
        assert_eq!(sessions.with(|all| all.len()), 0);
        Ok(())
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_goes_on_speaking_keeps_its_session() -> Check {
        let session = Session::open("127.0.0.1:9".parse()?).await?;
        let opened = session.until();
        tokio::time::advance(IDLE / 2).await;
        session.heard();
        assert_eq!(session.until(), opened + IDLE / 2);
        Ok(())
    }
}
