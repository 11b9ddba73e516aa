//! Arguments and limits of single components.

use std::collections::BTreeMap;
use std::net::IpAddr;

use hoist_phases::phases::konnectivity::AGENT_PORT;
use hoist_phases::spec::{ClusterSpec, Component, ComponentSpec};

use super::file::ComponentFile;
use super::problem::{Problem, Problems};
use super::resolve::converted;
use super::units;

/// Least memory a component starts in; with less the engine refuses or the kernel kills at once.
const MIN_MEMORY: u64 = 16 << 20;

/// Puts what the file says about components into their specifications.
pub(super) fn apply(
    cluster: &mut ClusterSpec,
    files: BTreeMap<String, ComponentFile>,
    problems: &mut Problems,
) {
    let (control_plane, api_port) = (cluster.networking.control_plane(), cluster.api_port());
    let specs = &mut cluster.components;
    for (name, ComponentFile { extra_args, memory, cpus }) in files {
        let Some(component) = Component::ALL.into_iter().find(|component| component.name() == name) else {
            let names = Component::ALL.map(Component::name).join(", ");
            problems.push(Problem::of(&format!("components.{name}"), format_args!("must be one of {names}")));
            continue;
        };
        let mut spec = ComponentSpec::default_for(component);
        if let Some(text) = memory {
            let field = format!("components.{name}.memory");
            let bytes = problems.keep(converted(&field, &text, units::bytes));
            match bytes {
                Some(bytes) if bytes < MIN_MEMORY => {
                    problems.push(Problem::new(&field, text, "must be 16Mi or more"));
                }
                Some(bytes) => spec.memory_bytes = bytes,
                None => {}
            }
        }
        if let Some(text) = cpus {
            let field = format!("components.{name}.cpus");
            if let Some(millis) = problems.keep(converted(&field, &text, units::cpu_millis)) {
                spec.cpu_millis = millis;
            }
        }
        problems_of_args(component, &extra_args, (control_plane, api_port), problems);
        spec.extra_args = extra_args;
        specs.retain(|other| other.component != component);
        specs.push(spec);
    }
    specs.sort_by_key(|spec| spec.component);
}

/// Where kube-apiserver dials etcd.
const ETCD_CLIENT: &str = "https://127.0.0.1:2379";

/// The same as kine has it.
const KINE_LISTEN: &str = "127.0.0.1:2379";

/// Whom etcd trusts, and as whom it is known.
const ETCD_KEYS: [&str; 8] = [
    "cert-file",
    "key-file",
    "trusted-ca-file",
    "auto-tls",
    "peer-cert-file",
    "peer-key-file",
    "peer-trusted-ca-file",
    "peer-auto-tls",
];

/// Where kube-apiserver keeps objects.
const STORE: [&str; 6] =
    ["etcd-servers", "etcd-servers-overrides", "etcd-prefix", "etcd-cafile", "etcd-certfile", "etcd-keyfile"];

/// Files that hoist puts into the containers; there are none of the user's in them.
const API_SERVER_KEYS: [&str; 13] = [
    "client-ca-file",
    "kubelet-certificate-authority",
    "kubelet-client-certificate",
    "kubelet-client-key",
    "proxy-client-cert-file",
    "proxy-client-key-file",
    "requestheader-client-ca-file",
    "service-account-key-file",
    "service-account-signing-key-file",
    "tls-cert-file",
    "tls-private-key-file",
    "tls-sni-cert-key",
    "token-auth-file",
];

/// The same of kube-controller-manager and kube-scheduler.
const CLIENT_KEYS: [&str; 11] = [
    "authentication-kubeconfig",
    "authorization-kubeconfig",
    "client-ca-file",
    "cluster-signing-cert-file",
    "cluster-signing-key-file",
    "kubeconfig",
    "requestheader-client-ca-file",
    "root-ca-file",
    "service-account-private-key-file",
    "tls-cert-file",
    "tls-private-key-file",
];

/// Node and RBAC are there, and nothing that lets everybody in.
fn authorizes(modes: &str) -> bool {
    let modes: Vec<_> = modes.split(',').map(str::trim).collect();
    ["Node", "RBAC"].iter().all(|wanted| modes.contains(wanted)) && !modes.contains(&"AlwaysAllow")
}

fn listens_on(urls: &str, wanted: &str) -> bool {
    urls.split(',').any(|url| url.trim().trim_end_matches('/') == wanted)
}

fn problems_of_args(
    component: Component,
    args: &BTreeMap<String, String>,
    (control_plane, api_port): (IpAddr, u16),
    problems: &mut Problems,
) {
    let mut refuse = |flag: &str, value: &str, rule: &str| {
        problems.push(Problem::new(
            &format!("components.{component}.extraArgs.{flag}"),
            format_args!("{value:?}"),
            rule,
        ));
    };
    // Each value of a flag that is given more than once.
    let each = args.iter().flat_map(|(flag, value)| {
        let values: Vec<_> = if value.is_empty() { vec![""] } else { value.lines().collect() };
        values.into_iter().map(move |value| (flag, value))
    });
    for (flag, value) in each {
        let malformed = flag.is_empty() || flag.starts_with('-') || flag.contains(['=', ' ', '\n']);
        match (component, flag.as_str()) {
            _ if malformed => refuse(flag, value, "a flag is written without dashes and `=`, such as `v`"),
            (Component::Owner, _) => {
                refuse(flag, value, "this container only holds the network namespace; it takes no flags")
            }
            (Component::Steward, _) => {
                refuse(flag, value, "the steward is told by `placement`; it takes no flags")
            }
            (Component::Registry, _) => {
                refuse(flag, value, "the registry reads its image's configuration; it takes no flags")
            }
            (Component::Dnsmasq, _) => {
                refuse(flag, value, "dnsmasq reads hoist's own configuration; it takes no flags")
            }
            (Component::ApiServer, "secure-port") if value.parse() != Ok(api_port) => refuse(
                flag,
                value,
                &format!(
                    "nodes, components and the published port dial {api_port}; apiServer.port moves them all"
                ),
            ),
            (Component::ApiServer, "advertise-address") if value.parse() != Ok(control_plane) => {
                refuse(flag, value, &format!("nodes and pods reach the API server at {control_plane} alone"))
            }
            (Component::ApiServer, "bind-address")
                if !value.parse().is_ok_and(|address: IpAddr| address.is_unspecified()) =>
            {
                refuse(
                    flag,
                    value,
                    "components dial loopback, nodes the bridge and you the engine's network: must be 0.0.0.0 or ::",
                )
            }
            (Component::Etcd, "listen-client-urls") if !listens_on(value, ETCD_CLIENT) => {
                refuse(flag, value, &format!("kube-apiserver dials {ETCD_CLIENT}, which must be among them"))
            }
            (Component::Etcd, "data-dir") => refuse(
                flag,
                value,
                "the data are in a volume of the cluster's own, which outlives the container",
            ),
            (Component::Etcd, "client-cert-auth" | "peer-client-cert-auth") if value != "true" => refuse(
                flag,
                value,
                "whoever reaches etcd reads and writes every Secret: it asks each client for a certificate",
            ),
            (Component::Etcd, name) if ETCD_KEYS.contains(&name) => refuse(
                flag,
                value,
                "kube-apiserver and etcd know each other by certificates of the cluster's own",
            ),
            (Component::Etcd, "config-file") => refuse(
                flag,
                value,
                "with such a file etcd takes no other flag, those that keep it safe included",
            ),
            (Component::ApiServer, name) if STORE.contains(&name) => refuse(
                flag,
                value,
                "where objects are kept is said by etcd.backend and etcd.external, with what clients need for it",
            ),
            (Component::Kine, "listen-address") if value.trim_start_matches("tcp://") != KINE_LISTEN => {
                refuse(flag, value, &format!("kube-apiserver dials {KINE_LISTEN} alone"))
            }
            (Component::Kine, "endpoint") => refuse(
                flag,
                value,
                "kine keeps its data in SQLite, in the cluster's own volume; for a store elsewhere see etcd.external",
            ),
            (Component::Kine, "trusted-ca-file" | "server-cert-file" | "server-key-file") => refuse(
                flag,
                value,
                "kube-apiserver and kine know each other by certificates of the cluster's own",
            ),
            (Component::Konnectivity, "agent-port") if value.parse() != Ok(AGENT_PORT) => {
                refuse(flag, value, &format!("agents and the published port dial {AGENT_PORT}"))
            }
            (Component::Konnectivity, "mode" | "server-port" | "uds-name") => {
                refuse(flag, value, "the API server speaks gRPC to it over a socket in a volume of the two")
            }
            (Component::ApiServer, "enable-bootstrap-token-auth") if value != "true" => {
                refuse(flag, value, "kubeadm join shows a bootstrap token")
            }
            (Component::ApiServer, "authorization-mode") if !authorizes(value) => refuse(
                flag,
                value,
                "must have Node and RBAC, by whose rules nodes join, and not AlwaysAllow, by which everybody may do everything",
            ),
            (Component::ApiServer | Component::ControllerManager, "service-cluster-ip-range") => {
                refuse(flag, value, "networking.serviceSubnet says it, and certificates and DNS follow")
            }
            (Component::ControllerManager, "cluster-cidr") => {
                refuse(flag, value, "networking.podSubnet says it, and kube-proxy and the pod network follow")
            }
            (Component::ApiServer, name) if API_SERVER_KEYS.contains(&name) => refuse(
                flag,
                value,
                "the container holds keys of the cluster's own alone; for a CA of yours see --ca-cert",
            ),
            (Component::ControllerManager | Component::Scheduler, name) if CLIENT_KEYS.contains(&name) => {
                refuse(
                    flag,
                    value,
                    "the container holds keys of the cluster's own alone; for a CA of yours see --ca-cert",
                )
            }
            // Discovery by token reads cluster-info before it has any identity (kubeadm join).
            (Component::ApiServer, "anonymous-auth") if value != "true" => refuse(
                flag,
                value,
                "kubeadm join reads cluster-info anonymously; to restrict it use authentication-config with anonymous.conditions instead",
            ),
            (Component::ApiServer, "disable-admission-plugins")
                if value.split(',').any(|name| name.trim() == "NodeRestriction") =>
            {
                refuse(
                    flag,
                    value,
                    "without NodeRestriction a node's identity could change any other node: leave it on",
                )
            }
            // Both are off by default in kube-controller-manager, and `*` doesn't turn them on.
            (Component::ControllerManager, "controllers") => {
                let names: Vec<_> = value.split(',').map(str::trim).collect();
                if !["bootstrapsigner", "tokencleaner"].iter().all(|wanted| names.contains(wanted)) {
                    refuse(
                        flag,
                        value,
                        "must keep bootstrapsigner and tokencleaner, which nodes need to join",
                    );
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use hoist_phases::spec::Family;

    use super::*;
    use crate::config::origin::Origins;

    fn refused(component: Component, flag: &str, value: &str) -> String {
        let mut problems = Problems::default();
        let args = BTreeMap::from([(flag.to_owned(), value.to_owned())]);
        problems_of_args(component, &args, (Family::Ipv4.control_plane(), 6443), &mut problems);
        problems.into_result(&Origins::default()).err().map(|invalid| invalid.to_string()).unwrap_or_default()
    }

    #[test]
    fn arguments_that_can_not_work_are_refused_with_the_reason() {
        for (component, flag, value, reason) in [
            (Component::ApiServer, "secure-port", "7443", "6443"),
            (Component::ApiServer, "advertise-address", "10.0.0.1", "192.168.66.2"),
            (Component::ApiServer, "bind-address", "127.0.0.1", "0.0.0.0"),
            (Component::ApiServer, "bind-address", "::1", "0.0.0.0"),
            (Component::Etcd, "listen-client-urls", "https://192.168.66.2:2379", ETCD_CLIENT),
            (Component::Etcd, "listen-client-urls", "http://127.0.0.1:2379", ETCD_CLIENT),
            (Component::Kine, "listen-address", "0.0.0.0:2379", KINE_LISTEN),
            (Component::Etcd, "data-dir", "/tmp", "volume"),
            (Component::Etcd, "client-cert-auth", "false", "certificate"),
            (Component::Etcd, "peer-client-cert-auth", "false", "certificate"),
            (Component::Etcd, "trusted-ca-file", "/tmp/ca.crt", "certificates"),
            (Component::Etcd, "cert-file", "/tmp/tls.crt", "certificates"),
            (Component::Etcd, "key-file", "/tmp/tls.key", "certificates"),
            (Component::Etcd, "auto-tls", "true", "certificates"),
            (Component::Etcd, "config-file", "/tmp/etcd.yaml", "no other flag"),
            (Component::ApiServer, "etcd-servers", "http://10.0.0.5:2379", "etcd.external"),
            (Component::ApiServer, "etcd-prefix", "/registry", "etcd.external"),
            (Component::ApiServer, "etcd-cafile", "", "etcd.external"),
            (Component::ApiServer, "etcd-certfile", "", "etcd.external"),
            (Component::ApiServer, "etcd-keyfile", "", "etcd.external"),
            (Component::Kine, "endpoint", "http://", "SQLite"),
            (Component::Kine, "trusted-ca-file", "", "certificates"),
            (Component::Dnsmasq, "no-resolv", "true", "takes no flags"),
            (Component::Owner, "v", "4", "network namespace"),
            (Component::Konnectivity, "agent-port", "8091", "8132"),
            (Component::Konnectivity, "uds-name", "/tmp/s", "socket"),
        ] {
            let error = refused(component, flag, value);
            assert!(error.contains(&format!("components.{component}.extraArgs.{flag} ")), "{flag}: {error}");
            assert!(error.contains(reason), "{flag}: {error}");
        }
    }

    #[test]
    fn arguments_that_change_nothing_needed_pass() {
        for (component, flag, value) in [
            (Component::ApiServer, "secure-port", "6443"),
            (Component::ApiServer, "bind-address", "::"),
            (Component::Etcd, "listen-client-urls", "https://127.0.0.1:2379, https://192.168.66.2:2379/"),
            (Component::Scheduler, "secure-port", "7443"),
        ] {
            assert_eq!(refused(component, flag, value), "", "{component} {flag}={value}");
        }
    }
}
