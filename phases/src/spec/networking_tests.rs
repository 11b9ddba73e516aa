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

#[test]
fn ranges_that_nothing_is_routed_to_are_refused() {
    const SIX: &str = "fd10:96::/112";
    for (pods, services, what) in [
        ("127.0.0.0/16", "10.96.0.0/12", "podSubnet 127.0.0.0/16: loopback addresses (127.0.0.0/8)"),
        ("10.244.0.0/16", "127.1.0.0/16", "serviceSubnet 127.1.0.0/16: loopback"),
        ("224.0.0.0/8", "10.96.0.0/12", "multicast addresses (224.0.0.0/4)"),
        ("10.244.0.0/16", "239.0.0.0/16", "serviceSubnet 239.0.0.0/16: multicast"),
        ("169.254.0.0/16", "10.96.0.0/12", "link-local addresses (169.254.0.0/16)"),
        ("0.0.0.0/16", "10.96.0.0/12", "unspecified addresses (0.0.0.0/8)"),
        ("fe80::/56", SIX, "link-local addresses (fe80::/10)"),
        ("ff02::/56", SIX, "multicast addresses (ff00::/8)"),
        ("fd10:244::/56", "::/112", "a meaning of their own (::/8)"),
        ("fd10:244::/56", "::ffff:0:0/112", "a meaning of their own (::/8)"),
    ] {
        let found = texts(&networking(pods, services), &[]);
        assert!(found.len() == 1 && found[0].contains(what), "{pods} {services}: {found:?}");
        assert!(found[0].contains("take a private range"), "{found:?}");
    }
    // Their neighbours are as good as any.
    for (pods, services) in [
        ("128.0.0.0/16", "126.0.0.0/12"),
        ("223.0.0.0/16", "169.253.0.0/16"),
        ("240.0.0.0/16", "1.0.0.0/12"),
        ("fec0::/56", "100::/112"),
    ] {
        assert_eq!(texts(&networking(pods, services), &[]), Vec::<String>::new());
    }
}

mod properties {
    use proptest::prelude::*;

    use super::*;
    use crate::spec::subnets::testing::any_net;

    proptest! {
        #[test]
        fn to_share_is_mutual_and_to_contain_an_end(a in any_net(), b in any_net()) {
            prop_assert_eq!(share(a, b), share(b, a));
            prop_assert!(share(a, a));
            if family(a) != family(b) {
                prop_assert!(!share(a, b));
            }
            // By the addresses themselves: the later first one lies before the earlier last one.
            let disjoint = a.broadcast() < b.network() || b.broadcast() < a.network();
            prop_assert_eq!(share(a, b), family(a) == family(b) && !disjoint);
        }

        #[test]
        fn halves_share_nothing_but_with_the_whole(net in any_net()) {
            prop_assume!(net.prefix_len() < net.max_prefix_len());
            let halves: Vec<_> = net.subnets(net.prefix_len() + 1).unwrap().collect();
            prop_assert!(!share(halves[0], halves[1]));
            prop_assert!(halves.iter().all(|half| share(*half, net)));
        }

        #[test]
        fn node_ranges_are_as_many_as_the_subnet_divides_into(net in any_net(), size in 9_u8..=124) {
            let networking = Networking {
                pod_subnet: Subnets::single(net),
                node_mask_size_ipv4: size,
                node_mask_size_ipv6: size,
                ..Networking::default()
            };
            let bits = size.saturating_sub(net.prefix_len());
            // More than these are never made one by one.
            prop_assume!(bits < 12 && size <= net.max_prefix_len());
            let wanted = match size >= net.prefix_len() {
                true => net.subnets(size).unwrap().count() as u64,
                false => 1,
            };
            prop_assert_eq!(networking.node_ranges(), wanted);
        }

        #[test]
        fn a_sound_network_keeps_all_its_addresses_apart(
            pods in any_net(), services in any_net(), size in 1_u8..=128,
        ) {
            let networking = Networking {
                pod_subnet: Subnets::single(pods),
                service_subnet: Subnets::single(services),
                node_mask_size_ipv4: size.min(32),
                node_mask_size_ipv6: size,
                ..Networking::default()
            };
            if networking.problems(&[]).is_empty() {
                prop_assert!(!share(pods, services));
                prop_assert!(services.contains(&networking.kubernetes_service()));
                prop_assert!(services.contains(&networking.dns_service()));
                prop_assert!(!pods.contains(&networking.control_plane()));
                prop_assert!(networking.node_ranges() >= 2);
                prop_assert!(!pods.addr().is_loopback() && !pods.addr().is_multicast());
            }
        }

        #[test]
        fn taken_networks_are_told_whichever_is_wider(net in any_net()) {
            let networking = Networking::default();
            let taken = [("engine network lab".to_owned(), net)];
            let told = networking.problems(&taken).iter().any(|problem| {
                matches!(problem, NetworkingError::Overlap { other, .. } if *other == net)
            });
            let ranges = [
                networking.pod_subnet.primary(),
                networking.service_subnet.primary(),
                Family::Ipv4.node_subnet(),
            ];
            prop_assert_eq!(told, ranges.into_iter().any(|range| share(range, net)));
        }
    }
}
