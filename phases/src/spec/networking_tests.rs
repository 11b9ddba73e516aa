use super::*;

fn networking(pods: &str, services: &str) -> Networking {
    let subnets = |text: &str| text.parse().unwrap();
    Networking { pod_subnet: subnets(pods), service_subnet: subnets(services), ..Networking::default() }
}

fn texts(networking: &Networking, taken: &[(&str, &str)]) -> Vec<String> {
    let taken: Vec<_> = taken.iter().map(|(name, net)| ((*name).to_owned(), net.parse().unwrap())).collect();
    networking.problems(&taken).iter().map(ToString::to_string).collect()
}

#[test]
fn defaults_are_sound() {
    let networking = Networking::default();
    assert_eq!(networking.problems(&[]), []);
    assert_eq!(networking.kubernetes_service().to_string(), "10.96.0.1");
    assert_eq!(networking.dns_service().to_string(), "10.96.0.10");
    assert_eq!(networking.api_endpoint().to_string(), "192.168.66.2:6443");
    assert_eq!(networking.node_ranges(), 256);
}

#[test]
fn the_first_family_is_the_primary_one() {
    let both = networking("10.244.0.0/16,fd10:244::/56", "10.96.0.0/12,fd10:96::/112");
    let six = networking("fd10:244::/56", "fd10:96::/112");
    let six_first = networking("fd10:244::/56,10.244.0.0/16", "fd10:96::/112,10.96.0.0/12");
    for (networking, endpoint, service, dns) in [
        (both, "192.168.66.2:6443", "10.96.0.1", "10.96.0.10 fd10:96::a"),
        (six, "[fd00::1]:6443", "fd10:96::1", "fd10:96::a"),
        (six_first, "[fd00::1]:6443", "fd10:96::1", "fd10:96::a 10.96.0.10"),
    ] {
        assert_eq!(networking.problems(&[]), []);
        assert_eq!(networking.api_endpoint().to_string(), endpoint);
        assert_eq!(networking.kubernetes_service().to_string(), service);
        let services: Vec<_> = networking.dns_services().map(|address| address.to_string()).collect();
        assert_eq!(services.join(" "), dns);
        assert_eq!(networking.node_ranges(), 256);
    }
}

#[test]
fn a_cluster_of_one_family_loads_from_an_older_spec() {
    let older = r#"{"podSubnet":"10.1.0.0/16","serviceSubnet":"10.96.0.0/12","dnsDomain":"cluster.local"}"#;
    let read: Networking = serde_json::from_str(older).unwrap();
    assert_eq!(read, networking("10.1.0.0/16", "10.96.0.0/12"));
}

#[test]
fn overlap_names_both_sides() {
    let taken = [("engine network bridge", "172.17.0.0/16")];
    assert_eq!(
        texts(&networking("172.16.0.0/12", "172.17.3.0/24"), &taken),
        [
            "networking.podSubnet 172.16.0.0/12: overlaps engine network bridge 172.17.0.0/16",
            "networking.serviceSubnet 172.17.3.0/24: overlaps engine network bridge 172.17.0.0/16",
            "networking.podSubnet 172.16.0.0/12: overlaps serviceSubnet 172.17.3.0/24",
        ]
    );
    let taken = [("engine network six", "fd10:244:0:80::/64"), ("engine network lab", "fd00::/48")];
    assert_eq!(
        texts(&networking("fd10:244::/56,10.244.0.0/16", "fd00::/112,10.96.0.0/12"), &taken),
        [
            "networking.podSubnet fd10:244::/56: overlaps engine network six fd10:244:0:80::/64",
            "networking.serviceSubnet fd00::/112: overlaps engine network lab fd00::/48",
            "networking.serviceSubnet fd00::/112: overlaps the node network fd00::/64",
            "the node network (fixed) fd00::/64: overlaps engine network lab fd00::/48",
        ]
    );
}

#[test]
fn kind_2970_the_node_network_is_checked_against_the_engines() {
    // What is IPv6 is no concern of a cluster without it.
    let taken = [
        ("engine network lab", "192.168.64.0/20"),
        ("engine network bridge", "172.17.0.0/16"),
        ("engine network six", "fd00::/64"),
    ];
    assert_eq!(
        texts(&Networking::default(), &taken),
        ["the node network (fixed) 192.168.66.0/24: overlaps engine network lab 192.168.64.0/20"]
    );
}

#[test]
fn families_are_the_same_in_the_same_order() {
    for (pods, services) in [
        ("10.244.0.0/16", "fd10:96::/112"),
        ("10.244.0.0/16,fd10:244::/56", "10.96.0.0/12"),
        ("10.244.0.0/16,fd10:244::/56", "fd10:96::/112,10.96.0.0/12"),
    ] {
        let found = texts(&networking(pods, services), &[]);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].contains(&format!("serviceSubnet {services}: must have the families")), "{found:?}");
        assert!(found[0].contains("--ip-family"), "{found:?}");
    }
}

/// The limits of the components, on both sides of each.
#[test]
fn refuses_ranges_no_component_can_work_with() {
    let with_masks = |pods: &str, services: &str, ipv4, ipv6| Networking {
        node_mask_size_ipv4: ipv4,
        node_mask_size_ipv6: ipv6,
        ..networking(pods, services)
    };
    let (four, six) = ("10.96.0.0/12", "fd10:96::/112");
    for (pods, services, ipv4, ipv6, problem) in [
        ("10.0.0.0/9", four, 24, 64, Some("overlaps serviceSubnet")),
        ("11.0.0.0/8", four, 24, 64, None),
        ("11.0.0.0/8", four, 25, 64, Some("podSubnet 11.0.0.0/8: the prefix must be between /9 and /24")),
        ("10.244.0.0/23", four, 24, 64, None),
        ("10.244.0.0/24", four, 24, 64, Some("nodeMaskSizeIpv4")),
        ("10.244.0.0/16", four, 20, 0, None),
        ("10.244.0.0/16", four, 29, 64, Some("networking.nodeMaskSizeIpv4 29: must be between 9 and 28")),
        ("10.244.0.0/16", four, 8, 64, Some("networking.nodeMaskSizeIpv4 8")),
        ("10.244.0.0/16", "10.96.0.0/11", 24, 64, Some("between /12 and /28")),
        ("10.244.0.0/16", "10.96.0.0/28", 24, 64, None),
        ("10.244.0.0/16", "10.96.0.0/30", 24, 64, Some("between /12 and /28")),
        ("fd10:244::/48", six, 24, 64, None),
        ("fd10:244::/47", six, 24, 64, Some("/48 and /63, since each node gets a /64")),
        ("fd10:244::/56", six, 24, 72, None),
        ("fd10:244::/56", six, 24, 73, Some("networking.nodeMaskSizeIpv6")),
        ("fd10:244::/63", six, 24, 64, None),
        ("fd10:244::/64", six, 24, 64, Some("the prefix must be between")),
        ("fd10:244::/120", six, 24, 124, None),
        ("fd10:244::/120", six, 24, 125, Some("must be between 9 and 124")),
        ("fd10:244::/56", "fd10:96::/108", 24, 64, None),
        ("fd10:244::/56", "fd10:96::/107", 24, 64, Some("between /108 and /124")),
        ("fd10:244::/56", "fd10:96::/124", 24, 64, None),
        ("fd10:244::/56", "fd10:96::/125", 24, 64, Some("between /108 and /124")),
        ("192.168.0.0/16", four, 24, 64, Some("overlaps the node network 192.168.66.0/24")),
    ] {
        let found = texts(&with_masks(pods, services, ipv4, ipv6), &[]);
        match problem {
            None => assert_eq!(found, Vec::<String>::new(), "{pods} {services} {ipv4} {ipv6}"),
            Some(problem) => {
                assert_eq!(found.len(), 1, "{found:?}");
                assert!(found[0].contains(problem), "{problem:?} is not in {found:?}");
            }
        }
    }
}

#[test]
fn pod_subnets_have_ranges_for_so_many_nodes() {
    let kubevirtci = Networking {
        node_mask_size_ipv4: 20,
        node_mask_size_ipv6: 72,
        ..networking("10.244.0.0/16,fd10:244::/56", "10.96.0.0/12,fd10:96::/112")
    };
    assert_eq!(kubevirtci.problems(&[]), []);
    assert_eq!(kubevirtci.node_ranges(), 16, "the smaller of 2^4 and 2^16");
}
