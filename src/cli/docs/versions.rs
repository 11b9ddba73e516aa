//! docs/versions.md: what is built for each version of Kubernetes, and what differs from one to the next.

use std::fmt::Write as _;

use hoist_phases::spec::{KubernetesVersion, MINORS, MutatingPolicies};

use crate::images::RELEASES;

const HEAD: &str = "\
# Versions of Kubernetes

The tables are made from `phases/src/spec/minors.rs` and `src/images/release.rs` by `hoist docs`.

";

const BUILT: &str = "\
`hoist up --kubernetes VERSION`, or `kubernetes: VERSION` in a configuration, makes a cluster of another version than \
the default; `hoist images ensure --kubernetes VERSION` gets its images first. Images carry the version as their tag, \
so that those of several versions are side by side in an engine, as are clusters.

";

const OTHERS: &str = "
etcd is of the minor version that kubeadm names, in a newer patch. CoreDNS is of the version that kubeadm names or the \
nearest one whose module is published and needs no newer Kubernetes libraries than the release's. All programs of a \
version are built from one module (`scripts/images/go/MINOR`), each at the version that go.sum pins.

Another patch of these minor versions can be built too: its sources are resolved when it is built, with the other \
programs of its minor, and nobody has tested it. When its sources can't be had, the error names the pinned versions.

";

const DIFFERENCES: &str = "\
## What differs

Flags of the control plane's components and of etcd are the same in all four: what hoist sets is there, and means the \
same, from 1.34 to 1.37. The rest:

";

const FOOT: &str = "
- **Placement policy**: where the API server has no policies in v1, hoist puts the same rules into what it applies \
itself, and `hoist status` says so; see [placement](placement.md).
- **kubeadm's API**: hoist writes v1beta4, which all of them read, and so does the kubeadm of a node that is up to \
three minor versions older.
- **Control groups v1**: container nodes tell the kubelet `failCgroupV1: false`, in all versions; see [nodes](nodes.md).
- **API server to kubelet**: hoist's certificate has no group, in all versions; a binding to \
`system:kubelet-api-admin` gives its user what logs and exec need, and no more.
- **containerd**: node images have Debian's 1.7, which lacks CRI's RuntimeConfig. The kubelets of all four take the \
cgroup driver from their configuration instead; kubeadm 1.37 warns that 1.38 will not.

## Nodes of another version

A node's kubelet may be up to three minor versions older than the control plane, and never newer \
([version skew policy](https://kubernetes.io/releases/version-skew-policy/)). hoist asks a node's kubelet for its \
version before it joins, and refuses what doesn't fit, with both versions named.

A cluster that is there gets another version by `hoist upgrade`, with its nodes joined: see [upgrades](upgrade.md).

## What is tested

`make test-versions` makes a cluster of each of these versions with a container node, up to its DNS. It tries the \
node's settings, pods, a Service by its name, logs and exec, and placement; then it joins a node of 1.35 to a control \
plane of 1.36, and sees one of 1.37 refused. It upgrades a cluster from 1.34 to 1.35 and 1.36, and another from 1.36 to \
1.37, each with a node joined while somebody writes. All else is tested with the default version alone: virtual machines, \
IPv6, konnectivity, kubevirtci, and the comparison with kubeadm's objects.
";

pub(super) fn page() -> String {
    let mut page = [HEAD, BUILT].concat();
    head(&mut page, KubernetesVersion::pinned().map(|version| format!("{version}{}", default(version))));
    let releases: Vec<_> = RELEASES.iter().rev().collect();
    for (name, module) in [
        ("etcd", "go.etcd.io/etcd/server/v3"),
        ("CoreDNS", "github.com/coredns/coredns"),
        ("kube-router", "github.com/cloudnativelabs/kube-router/v2"),
        ("CNI plugins", "github.com/containernetworking/plugins"),
        ("crictl", "sigs.k8s.io/cri-tools"),
    ] {
        row(&mut page, name, releases.iter().map(|release| release.module_version(module).unwrap_or("none")));
    }
    for (name, tag) in [("etcd", 0), ("CoreDNS", 1), ("pause", 2)] {
        let tags =
            releases.iter().map(|release| [release.etcd_tag, release.coredns_tag, release.pause_tag][tag]);
        row(&mut page, &format!("kubeadm's {name}"), tags);
    }
    page.push_str(OTHERS);
    page.push_str(DIFFERENCES);
    differences(&mut page);
    page.push_str(FOOT);
    page
}

fn default(version: KubernetesVersion) -> &'static str {
    if version == KubernetesVersion::DEFAULT { " (default)" } else { "" }
}

fn differences(page: &mut String) {
    head(page, MINORS.iter().map(|minor| format!("1.{}", minor.pinned.minor)));
    let yes = |yes: bool| if yes { "yes" } else { "no" };
    row(
        page,
        "MutatingAdmissionPolicy",
        MINORS.iter().map(|minor| match minor.mutating_policies {
            MutatingPolicies::Beta => "v1beta1, off",
            MutatingPolicies::Stable => "v1",
        }),
    );
    row(
        page,
        "`kubeadm.k8s.io` that kubeadm reads",
        MINORS.iter().map(|minor| minor.kubeadm_apis.join(", ")),
    );
    row(
        page,
        "kubelet refuses control groups v1 by default",
        MINORS.iter().map(|minor| yes(minor.fail_cgroup_v1)),
    );
    row(
        page,
        "group of kubeadm's apiserver-kubelet-client",
        MINORS.iter().map(|minor| minor.kubelet_client_group.unwrap_or("none")),
    );
    row(
        page,
        "kubeadm sets `--pod-infra-container-image`",
        MINORS.iter().map(|minor| yes(minor.pause_by_flag)),
    );
}

/// The head of a table with a column for each version.
fn head<T: AsRef<str>>(page: &mut String, columns: impl Iterator<Item = T>) {
    row(page, "", columns);
    let _ = writeln!(page, "| --- |{}", " --- |".repeat(MINORS.len()));
}

fn row<T: AsRef<str>>(page: &mut String, name: &str, cells: impl Iterator<Item = T>) {
    let cells: Vec<_> = cells.map(|cell| cell.as_ref().to_owned()).collect();
    let _ = writeln!(page, "| {name} | {} |", cells.join(" | "));
}
