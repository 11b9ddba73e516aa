//! What takes emulated machines too long for every run of the tests: `make test-vm`.

use std::time::Instant;

use crate::support::{Hoist, build_image, copy_out, events, remove_image, tell, things};

/// Brings a cluster of virtual machines up and down; gives the milliseconds to the end of its phases and to Ready.
fn up_and_down(count: u32) -> (u64, u64) {
    let hoist = Hoist::new(&format!("vm-{count}"));
    let config = hoist.config(&format!("nodes:\n- kind: vm\n  count: {count}\ntimeout: 25m\nwait: nodes\n"));
    let begin = Instant::now();
    let up = hoist.run(&["up", "--config", &config, "--progress", "json"]);
    let took = u64::try_from(begin.elapsed().as_millis()).expect("less than an age");
    assert_eq!(up.code, Some(0), "{}", up.stderr);
    let joined = events(&up.stderr).iter().find_map(|event| {
        (event["event"] == "finished" && event["phase"] == "nodes").then(|| event["atMs"].as_u64())?
    });
    let nodes = hoist.kubectl(&["get", "nodes", "-o", "name"]);
    assert_eq!(nodes.lines().count(), count as usize, "{nodes}");
    hoist.ok(&["down"]);
    assert_eq!(things(&hoist.name), Vec::<String>::new(), "left behind");
    (joined.expect("the phase nodes has an end"), took)
}

#[test]
fn two_machines_boot_and_join_side_by_side() {
    for count in [1, 2] {
        let (joined, ready) = up_and_down(count);
        tell(&format!("virtual machines: {count}: joined after {joined} ms, Ready after {ready} ms"));
    }
}

/// A disk that hoist knows nothing of: it boots by firmware, boot loader and initrd, takes its keys and its clients of
/// DHCP from cloud-init, and has none of hoist's images.
#[test]
fn a_cloud_image_with_kubeadm_boots_and_joins() {
    const DOCKERFILE: &str = include_str!("../fixtures/vm-disk/Dockerfile");
    const MAKE: &[u8] = include_bytes!("../fixtures/vm-disk/disk.sh");
    let hoist = Hoist::new("vm-image");
    let fixture = format!("localhost/e2e/vm-disk:{}", std::process::id());
    build_image(&fixture, DOCKERFILE, &[("disk.sh", MAKE)]);
    let disk = hoist.home().join("disk.qcow2");
    copy_out(&fixture, "/disk.qcow2", &disk);
    remove_image(&fixture);

    let config =
        hoist.config("networking: {ipFamily: dual}\nnodes:\n- kind: vm\n  image: disk.qcow2\ntimeout: 25m\n");
    let up = hoist.run(&["up", "--config", &config]);
    tell(&format!("a cloud image:\n{}", up.stderr));
    assert_eq!(up.code, Some(0), "{}", up.stderr);
    let addresses = hoist.ok(&["node", "ssh", "node01", "--", "ip", "-o", "addr", "show", "scope", "global"]);
    assert!(addresses.contains("192.168.66.101/24") && addresses.contains("fd00::101/"), "{addresses}");
    let command = hoist.ok(&["node", "ssh", "node01", "--", "cat", "/proc/cmdline"]);
    assert!(command.contains("root=/dev/vda2"), "its own boot loader started it: {command}");
    let name = hoist.ok(&["node", "ssh", "node01", "--", "hostname"]);
    assert_eq!(name.trim(), "node01");
    // The same again changes nothing: the disk is known by its contents.
    hoist.ok(&["up", "--config", &config]);
    let nodes = hoist.ok(&["node", "list"]);
    assert!(nodes.contains("v1.36.3"), "{nodes}");

    let images = hoist.ok(&["images", "list", "-o", "json"]);
    hoist.ok(&["down"]);
    assert_eq!(things(&hoist.name), Vec::<String>::new(), "left behind");
    let images: Vec<serde_json::Value> = serde_json::from_str(&images).expect("JSON");
    let made = images.iter().find(|image| image["component_version"] == "disk.qcow2");
    remove_image(made.and_then(|image| image["reference"].as_str()).expect("the image is listed"));
}
