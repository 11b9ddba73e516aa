//! Attach mode: the control plane in the network namespace of a container that is not hoist's, as
//! kubevirtci's dnsmasq is, without any virtual machine.

use std::time::Duration;

use hoist_phases::ports::{ContainerPort, ContainerSpec, Network, Runtime as _};

use crate::support::{Hoist, IMAGE, block, engine, exec, kill, state, things, until};

/// What a maker of virtual machines leaves in its namespace: bridge and address, and rules that
/// send the API port to the first of them, which isn't there.
const LAY_OUT: &str = "
ip link add br0 type bridge
ip address add 192.168.66.2/24 dev br0
ip link set br0 up
for chain in 'PREROUTING -i eth0' OUTPUT; do
    iptables -w -t nat -A $chain -p tcp --dport 6443 -j DNAT --to-destination 192.168.66.101:6443
done
exec sleep infinity";

/// Takes the scheduler's port, on any address.
const LISTEN: &str =
    r#"socket(S, 2, 1, 0) && bind(S, pack("S n N x8", 2, 10259, 0)) && listen(S, 1) or die $!; sleep"#;

/// A container of the test's own, removed in the end.
struct Foreign(String);

impl Foreign {
    fn start(name: String, script: &str, publish: bool) -> Self {
        let mut spec = ContainerSpec::new(&name, IMAGE, Network::Own);
        spec.entrypoint = ["/bin/sh", "-euc", script].map(str::to_owned).to_vec();
        spec.capabilities = vec!["NET_ADMIN".to_owned()];
        spec.read_only_root = false;
        spec.publish = if publish { vec![ContainerPort::on_loopback(6443)] } else { Vec::new() };
        block(engine().create(&spec)).expect("the container can be made");
        block(engine().start(&name)).expect("it starts");
        Self(name)
    }

    fn nat(&self) -> Vec<String> {
        let output = exec(&self.0, &["iptables", "-w", "-t", "nat", "-S"]);
        output.stdout.lines().filter(|line| line.starts_with("-A")).map(str::to_owned).collect()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        block(engine().remove(&self.0)).expect("the container can be removed");
    }
}

fn first<'a>(rules: &'a [String], chain: &str) -> &'a str {
    let chain = format!("-A {chain} ");
    rules.iter().find(|rule| rule.starts_with(&chain)).map_or("", String::as_str)
}

#[test]
fn a_control_plane_in_somebody_elses_namespace() {
    let hoist = Hoist::new("attach");
    let owner = Foreign::start(format!("{}-foreign", hoist.name), LAY_OUT, true);
    let before = state(&owner.0).expect("it is there");
    until("the rules of the maker are there", Duration::from_secs(20), || {
        let rules = owner.nat();
        if rules.len() == 2 { Ok(()) } else { Err(format!("{rules:?}")) }
    });
    let rules_before = owner.nat();

    hoist.ok(&["up", "--attach", &owner.0]);
    assert_eq!(hoist.kubectl(&["get", "--raw", "/readyz"]), "ok", "through the published port");
    let server =
        hoist.kubectl(&["get", "endpoints", "kubernetes", "-o", "jsonpath={.subsets[0].addresses[0].ip}"]);
    assert_eq!(server, "192.168.66.2");
    let rules = owner.nat();
    for chain in ["PREROUTING", "OUTPUT"] {
        assert!(first(&rules, chain).ends_with("--dport 6443 -j ACCEPT"), "{rules:?}");
    }
    let status: serde_json::Value = serde_json::from_str(&hoist.ok(&["status", "-o", "json"])).expect("JSON");
    assert_eq!(status["overall"], "running", "{status}");

    // Once more: nothing to do, no rule twice.
    hoist.ok(&["up"]);
    assert_eq!(owner.nat(), rules);

    // The data outlives etcd's container, though the owner doesn't mount it.
    hoist.kubectl(&["create", "configmap", "kept", "--from-literal=a=b"]);
    kill(&format!("hoist-{}-etcd", hoist.name));
    block(engine().remove(&format!("hoist-{}-etcd", hoist.name))).expect("etcd's container goes");
    hoist.ok(&["up"]);
    assert_eq!(hoist.kubectl(&["get", "configmap", "kept", "-o", "jsonpath={.data.a}"]), "b");

    hoist.ok(&["down"]);
    let after = state(&owner.0).expect("the owner is still there");
    assert_eq!((after.id, after.started_at), (before.id, before.started_at));
    assert_eq!(after.labels, before.labels);
    assert_eq!(owner.nat(), rules_before, "the namespace is as it was");
    let left: Vec<_> = things(&hoist.name).into_iter().filter(|thing| !thing.contains(&owner.0)).collect();
    assert_eq!(left, Vec::<String>::new());
}

#[test]
fn an_owner_that_can_not_serve_is_refused() {
    let hoist = Hoist::new("attach-bad");
    let refused = |attach: &str| {
        let done = hoist.run(&["up", "--attach", attach]);
        assert_eq!(done.code, Some(5), "{}", done.stderr);
        done.stderr
    };
    assert!(refused("no-such-container").contains("there is no such container"));

    let name = format!("{}-foreign", hoist.name);
    {
        let _owner = Foreign::start(name.clone(), LAY_OUT, false);
        assert!(refused(&name).contains("port 6443 of the container is not published"));
    }
    let listen = format!("perl -e '{LISTEN}' & {LAY_OUT}");
    let owner = Foreign::start(name.clone(), &listen, true);
    let told = refused(&name);
    assert!(told.contains("port 10259, which kube-scheduler needs, is in use"), "{told}");
    let left: Vec<_> = things(&hoist.name).into_iter().filter(|thing| !thing.contains(&owner.0)).collect();
    assert_eq!(left, Vec::<String>::new(), "what the run had made is gone");
    assert!(state(&name).is_some());
}
