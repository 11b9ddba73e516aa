//! Routes of the network namespace that this process is in, over netlink (rtnetlink(7)).

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use futures_util::TryStreamExt as _;
use ipnet::IpNet;
use rtnetlink::packet_route::route::{RouteAddress, RouteAttribute, RouteMessage, RouteProtocol, RouteType};
use rtnetlink::{Handle, RouteMessageBuilder};

use super::routes::Route;

/// Marks routes as the steward's (`ip route` shows `proto 72`). None of the numbers that iproute2's
/// rt_protos knows.
const PROTOCOL: RouteProtocol = RouteProtocol::Other(72);

#[derive(Debug, thiserror::Error)]
pub(super) enum NetlinkError {
    #[error("netlink can't be used")]
    Open(#[source] std::io::Error),
    #[error("routes can't be listed")]
    List(#[source] rtnetlink::Error),
    #[error("{operation} route {route}")]
    Change {
        operation: &'static str,
        route: Route,
        #[source]
        source: rtnetlink::Error,
    },
    #[error("route {0} joins two families")]
    Families(Route),
}

/// A connection to the kernel.
pub(super) struct Routes {
    handle: Handle,
}

impl Routes {
    /// Costs a socket, so that a new one each time is cheaper than to find out whether the old
    /// one still works.
    pub(super) fn open() -> Result<Self, NetlinkError> {
        let (connection, handle, _) = rtnetlink::new_connection().map_err(NetlinkError::Open)?;
        // Ends with the handle.
        tokio::spawn(connection);
        Ok(Self { handle })
    }

    /// The routes of the main table that carry our mark.
    pub(super) async fn ours(&self) -> Result<BTreeSet<Route>, NetlinkError> {
        let mut found = BTreeSet::new();
        let v4 = RouteMessageBuilder::<Ipv4Addr>::new().build();
        let v6 = RouteMessageBuilder::<Ipv6Addr>::new().build();
        for family in [v4, v6] {
            let mut messages = std::pin::pin!(self.handle.route().get(family).execute());
            while let Some(message) = messages.try_next().await.map_err(NetlinkError::List)? {
                found.extend(ours(&message));
            }
        }
        Ok(found)
    }

    pub(super) async fn add(&mut self, route: Route) -> Result<(), NetlinkError> {
        let message = message(route)?;
        let failed = |source| NetlinkError::Change { operation: "add", route, source };
        self.handle.route().add(message).execute().await.map_err(failed)
    }

    /// Succeeds when it is gone already.
    pub(super) async fn remove(&mut self, route: Route) -> Result<(), NetlinkError> {
        match self.handle.route().del(message(route)?).execute().await {
            Err(rtnetlink::Error::NetlinkError(error)) if is_absent(&error.to_io()) => Ok(()),
            Err(source) => Err(NetlinkError::Change { operation: "remove", route, source }),
            Ok(()) => Ok(()),
        }
    }
}

/// ESRCH is how the kernel says that there is no such route.
fn is_absent(error: &std::io::Error) -> bool {
    error.raw_os_error() == Some(rustix::io::Errno::SRCH.raw_os_error())
}

fn message(route: Route) -> Result<RouteMessage, NetlinkError> {
    let Route { destination, gateway } = route;
    Ok(match (destination, gateway) {
        (IpNet::V4(net), IpAddr::V4(gateway)) => RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(net.addr(), net.prefix_len())
            .gateway(gateway)
            .protocol(PROTOCOL)
            .build(),
        (IpNet::V6(net), IpAddr::V6(gateway)) => RouteMessageBuilder::<Ipv6Addr>::new()
            .destination_prefix(net.addr(), net.prefix_len())
            .gateway(gateway)
            .protocol(PROTOCOL)
            .build(),
        _ => return Err(NetlinkError::Families(route)),
    })
}

fn ours(message: &RouteMessage) -> Option<Route> {
    let header = &message.header;
    if header.protocol != PROTOCOL || header.kind != RouteType::Unicast {
        return None;
    }
    let (mut destination, mut gateway) = (None, None);
    for attribute in &message.attributes {
        match attribute {
            RouteAttribute::Destination(found) => destination = address(found),
            RouteAttribute::Gateway(found) => gateway = address(found),
            _ => {}
        }
    }
    let destination = IpNet::new(destination?, header.destination_prefix_length).ok()?;
    Some(Route { destination, gateway: gateway? })
}

fn address(found: &RouteAddress) -> Option<IpAddr> {
    match found {
        RouteAddress::Inet(address) => Some((*address).into()),
        RouteAddress::Inet6(address) => Some((*address).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_recognised_when_it_comes_back() -> Result<(), Box<dyn std::error::Error>> {
        for (destination, gateway) in [("10.244.1.0/24", "192.168.66.102"), ("fd00:10::/64", "fd00::102")] {
            let route = Route { destination: destination.parse()?, gateway: gateway.parse()? };
            let sent = message(route)?;
            assert_eq!(ours(&sent), Some(route));
            let mut others = sent;
            others.header.protocol = RouteProtocol::Static;
            assert_eq!(ours(&others), None, "never touched");
        }
        let mixed = Route { destination: "10.244.1.0/24".parse()?, gateway: "fd00::1".parse()? };
        assert!(matches!(message(mixed), Err(NetlinkError::Families(_))));
        Ok(())
    }
}
