//! Who reaches which port, compared with the tables.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::time::Duration;

use hoist_phases::ports::{ContainerSpec, Network, Runtime as _};

use super::document::{Row, table};
use crate::support::{
    Hoist, IMAGE, answers, block, calm, engine, exec, inspect, open_ports, pid, state, until, within,
};

const CONTROL_PLANE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 66, 2));
const FIRST_NODE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 66, 101));
const SECOND_NODE: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 66, 102));

/// A socket that waits: port and protocol, and the address as the table has it.
type Listener = (String, String);

/// Rows that hold for a cluster with these extras.
fn rows(extras: &[&str]) -> Vec<Row> {
    let mut rows = table("Ports of the control plane");
    rows.retain(|row| row["when"] == "always" || extras.contains(&row["when"].as_str()));
    rows
}

fn tcp_ports<'a>(rows: impl IntoIterator<Item = &'a Row>) -> BTreeSet<u16> {
    let ports = rows.into_iter().filter_map(|row| row["port"].strip_suffix("/tcp"));
    ports.map(|port| port.parse().expect("a port")).collect()
}

/// What waits for connections or datagrams in the network namespace of a container (proc_net(5), "State"
/// in include/net/tcp_states.h: 0A listens; 07 is a datagram socket that is connected to nobody).
fn listeners(container: &str) -> BTreeSet<Listener> {
    let mut found = BTreeSet::new();
    for (file, protocol, wanted) in
        [("tcp", "tcp", "0A"), ("tcp6", "tcp", "0A"), ("udp", "udp", "07"), ("udp6", "udp", "07")]
    {
        let text = std::fs::read_to_string(format!("/proc/{}/net/{file}", pid(container))).expect("it runs");
        for line in text.lines().skip(1) {
            let fields: Vec<_> = line.split_whitespace().collect();
            let (address, port) = fields[1].split_once(':').expect("an address and a port");
            let port = u16::from_str_radix(port, 16).expect("hexadecimal");
            let address = match address {
                "0100007F" => "127.0.0.1",
                "0242A8C0" => "192.168.66.2",
                other if other.bytes().all(|digit| digit == b'0') => "any",
                other => other,
            };
            if fields[3] == wanted {
                found.insert((format!("{port}/{protocol}"), address.to_owned()));
            }
        }
    }
    found
}

/// Another container on the engine's network, with the right to send packets where it likes.
struct Neighbour(String);

impl Neighbour {
    fn new(hoist: &Hoist) -> Self {
        let mut spec = ContainerSpec::new(format!("{}-neighbour", hoist.name), IMAGE, Network::Own);
        spec.entrypoint = ["sleep", "infinity"].map(str::to_owned).to_vec();
        spec.capabilities = vec!["NET_ADMIN".to_owned()];
        let _ = block(engine().remove(&spec.name));
        block(engine().create(&spec)).expect("a container can be made");
        let neighbour = Self(spec.name);
        block(engine().start(&neighbour.0)).expect("it starts");
        neighbour
    }
}

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = block(engine().remove(&self.0));
    }
}

/// Where the namespace is on the engine's network.
fn address(owner: &str) -> IpAddr {
    let networks = inspect(owner)["NetworkSettings"]["Networks"].clone();
    let mut networks = networks.as_object().expect("networks").values();
    networks.find_map(|network| network["IPAddress"].as_str()?.parse().ok()).expect("an address")
}

/// Whether a DNS server answers at all.
fn resolves(server: IpAddr) -> bool {
    // A query for the A record of `control-plane` (RFC 1035, 4.1).
    let query = b"\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x0dcontrol-plane\x00\x00\x01\x00\x01";
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(1))).expect("a timeout");
    socket.send_to(query, (server, 53)).is_ok() && socket.recv(&mut [0; 512]).is_ok_and(|length| length > 12)
}

/// Compares a cluster that has what the table calls by these names with it: what listens, what another
/// container reaches, and what is published.
pub(crate) fn ports_are_as_told(hoist: &Hoist, extras: &[&str]) {
    let rows = rows(extras);
    let owner = format!("hoist-{}-owner", hoist.name);
    let bound = |row: &Row| if row["address"] == "br0" { "any".to_owned() } else { row["address"].clone() };
    let wanted: BTreeSet<_> = rows.iter().map(|row| (row["port"].clone(), bound(row))).collect();
    // What dnsmasq asks others with is a socket as well, for as long as it waits for the answer.
    until("what listens is what docs/security.md says", Duration::from_secs(20), || {
        let found = listeners(&owner);
        if found == wanted { Ok(()) } else { Err(format!("{found:?}\n  instead of {wanted:?}")) }
    });

    let (owner_address, neighbour) = (address(&owner), Neighbour::new(hoist));
    let open = within(&neighbour.0, || open_ports(owner_address));
    assert_eq!(
        open,
        tcp_ports(rows.iter().filter(|row| row["others"] == "yes")),
        "reached by another container"
    );
    // Nor by way of the namespace, which is a router.
    let way =
        exec(&neighbour.0, &["ip", "route", "add", "192.168.66.0/24", "via", &owner_address.to_string()]);
    assert_eq!(way.code, 0, "{}", way.stderr);
    within(&neighbour.0, || {
        assert!(answers(CONTROL_PLANE, 6443), "there is a way");
        assert!(
            !answers(CONTROL_PLANE, 53) && !resolves(CONTROL_PLANE) && !resolves(owner_address),
            "dnsmasq"
        );
        assert!(!answers(FIRST_NODE, 10250), "a kubelet");
    });

    let published = state(&owner).expect("it runs").published;
    assert!(published.iter().all(|port| port.host.ip().is_loopback()), "{published:?}");
    let published: BTreeSet<_> = published.iter().map(|port| port.container).collect();
    assert_eq!(published, tcp_ports(rows.iter().filter(|row| row["host"] == "published")));
}

#[test]
fn what_listens_and_who_reaches_it() {
    let (shared, _calm) = calm();
    ports_are_as_told(&shared.hoist, &[]);
}

#[test]
fn nodes_reach_what_the_tables_say() {
    let (shared, _calm) = calm();
    let node = format!("hoist-{}-node01", shared.hoist.name);
    let (control_plane, other) = within(&node, || {
        assert!(resolves(CONTROL_PLANE), "dnsmasq");
        (open_ports(CONTROL_PLANE), open_ports(SECOND_NODE))
    });
    let rows = rows(&[]);
    assert_eq!(control_plane, tcp_ports(rows.iter().filter(|row| row["nodes"] == "yes")));

    let (mut wanted, mut services) = (BTreeSet::new(), 0..=0);
    for row in table("Ports of a node") {
        let port = row["port"].strip_suffix("/tcp").expect("TCP");
        match port.split_once('-') {
            Some((first, last)) => services = first.parse().expect("a port")..=last.parse().expect("a port"),
            None => _ = wanted.insert(port.parse().expect("a port")),
        }
    }
    let other: BTreeSet<u16> = other.into_iter().filter(|port| !services.contains(port)).collect();
    assert_eq!(other, wanted);
    // On the node itself kube-router's own command line still works.
    let second = format!("hoist-{}-node02", shared.hoist.name);
    assert!(within(&second, || answers(SECOND_NODE, 50051)));
}
