//! Files of proc(5), read by pure functions.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::IpNet;

use super::{Bounding, HostRoute};

/// State of a socket that listens (Linux, include/net/tcp_states.h).
const LISTEN: &str = "0A";

/// Bytes of /proc/meminfo's `MemAvailable`.
pub(super) fn available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib << 10)
}

/// Intel's or AMD's flag for virtualization.
pub(super) fn virtualization(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().filter(|line| line.starts_with("flags"));
    flags.flat_map(str::split_whitespace).any(|flag| matches!(flag, "vmx" | "svm"))
}

/// Name and bounding set of a process.
pub(super) fn bounding(status: &str) -> Option<Bounding> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let capabilities = u64::from_str_radix(field("CapBnd:")?, 16).ok()?;
    Some(Bounding { process: field("Name:")?.to_owned(), capabilities })
}

/// Routes of /proc/net/route: numbers are in the machine's own order of bytes. Default routes are
/// left out: everybody has one.
pub(super) fn routes(table: &str) -> Vec<HostRoute> {
    let route = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let address = |word: Option<&&str>| {
            let number = u32::from_str_radix(word?, 16).ok()?;
            Some(Ipv4Addr::from(number.to_ne_bytes()))
        };
        let destination = IpNet::with_netmask(address(words.get(1))?.into(), address(words.get(7))?.into());
        let destination = destination.ok().filter(|net| net.prefix_len() > 0)?;
        Some(HostRoute { destination, interface: (*words.first()?).to_owned() })
    };
    table.lines().skip(1).filter_map(route).collect()
}

/// Routes of /proc/net/ipv6_route, without those that everybody has: default, loopback, multicast,
/// link-local.
pub(super) fn routes6(table: &str) -> Vec<HostRoute> {
    let route = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        let interface = *words.last()?;
        let address = Ipv6Addr::from(u128::from_str_radix(words.first()?, 16).ok()?);
        let prefix = u8::from_str_radix(words.get(1)?, 16).ok()?;
        let common = prefix == 0 || interface == "lo" || address.is_multicast();
        let common = common || address.is_unicast_link_local();
        let destination = IpNet::new(address.into(), prefix).ok().filter(|_| !common)?;
        Some(HostRoute { destination, interface: interface.to_owned() })
    };
    table.lines().filter_map(route).collect()
}

/// Where something listens, by /proc/net/tcp or tcp6: addresses are words of 32 bits, each in the
/// machine's own order of bytes.
pub(super) fn listening(table: &str) -> Vec<SocketAddr> {
    let socket = |line: &str| {
        let words: Vec<_> = line.split_whitespace().collect();
        words.get(3).filter(|state| **state == LISTEN)?;
        let (address, port) = words.get(1)?.split_once(':')?;
        let bytes: Vec<u8> = (0..address.len())
            .step_by(8)
            .map(|at| Some(u32::from_str_radix(address.get(at..at + 8)?, 16).ok()?.to_ne_bytes()))
            .collect::<Option<Vec<_>>>()?
            .concat();
        let ip: IpAddr = match <[u8; 4]>::try_from(bytes.as_slice()) {
            Ok(bytes) => bytes.into(),
            Err(_) => <[u8; 16]>::try_from(bytes.as_slice()).ok()?.into(),
        };
        Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
    };
    table.lines().filter_map(socket).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    // As the kernel writes it on a machine with the low byte first.
    #[cfg(target_endian = "little")]
    #[test]
    fn tables_are_read_as_the_kernel_writes_them() {
        let table = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
                     eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                     docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n";
        let shown = |routes: Vec<HostRoute>| {
            routes.iter().map(|r| format!("{} {}", r.destination, r.interface)).collect::<Vec<_>>()
        };
        assert_eq!(shown(routes(table)), ["172.17.0.0/16 docker0"]);
        let line = |address: &str, prefix: &str, device: &str| {
            format!(
                "{address} {prefix} {0} 00 {0} 00000100 00000001 00000000 00000001 {device}\n",
                "0".repeat(32)
            )
        };
        let table = line("fd000000000000000000000000000000", "40", "eth0")
            + &line("fe800000000000000000000000000000", "40", "eth0")
            + &line("00000000000000000000000000000001", "80", "lo")
            + &line(&"0".repeat(32), "00", "eth0");
        assert_eq!(shown(routes6(&table)), ["fd00::/64 eth0"]);

        let table = "  sl  local_address rem_address   st\n\
                     0: 0100007F:1F90 00000000:0000 0A 0\n\
                     1: 0100007F:1F91 0100007F:0050 01 0\n\
                     2: 00000000000000000000000001000000:192B 00000000000000000000000000000000:0000 0A 0\n";
        let expected: Vec<SocketAddr> =
            ["127.0.0.1:8080", "[::1]:6443"].iter().filter_map(|text| text.parse().ok()).collect();
        assert_eq!(listening(table), expected);
    }

    #[test]
    fn values_are_found_among_others() {
        assert_eq!(available("MemTotal: 9 kB\nMemAvailable:    2048 kB\n"), Some(2 << 20));
        assert_eq!(available("MemTotal: 9 kB\n"), None);
        assert!(virtualization("flags\t\t: fpu vmx sse\n") && !virtualization("flags: fpu\nbugs: vmx\n"));
        let status = "Name:\tcontainerd\nCapBnd:\t000001fffeffffff\n";
        let found = bounding(status).map(|found| (found.process, found.capabilities));
        assert_eq!(found, Some(("containerd".to_owned(), 0x01ff_feff_ffff)));
        assert_eq!(bounding("Name:\tx\n"), None);
    }
}
