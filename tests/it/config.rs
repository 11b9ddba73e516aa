//! Flags, configuration file and what becomes of them. No engine, no files but the ones given.

use std::path::Path;

use clap::{CommandFactory as _, Parser as _};
use hoist::cli::args::{Cli, Command, UpArgs};
use hoist::cluster::ready::Level;
use hoist::config::{Conflict, EXAMPLE, Origin, Settings, check_conflict, defaults, parse_file, settings};
use hoist_phases::phases::PhaseId;
use hoist_phases::phases::upgrade::rules;
use hoist_phases::spec::{
    BootstrapToken, ClusterName, ClusterSpec, Cni, Component, KubeProxyMode, KubernetesVersion, RoleNodes,
    RoleRule,
};

mod changes;
mod placement;
mod policies;
mod registries;
mod shape;
mod stores;
mod view;

const HEADER: &str = "apiVersion: hoist.dev/v1alpha1\nkind: Cluster\n";

fn base() -> ClusterSpec {
    defaults(ClusterName::new("t").unwrap(), BootstrapToken::parse("abcdef.1234567890123456").unwrap())
}

fn flags(args: &[&str]) -> UpArgs {
    let words = ["hoist", "up"].iter().chain(args);
    match Cli::try_parse_from(words).unwrap().command {
        Command::Up(args) => *args,
        other => panic!("{other:?}"),
    }
}

fn resolve(args: &[&str], yaml: Option<&str>) -> Result<Settings, String> {
    let file = yaml.map(|yaml| parse_file(Path::new("c.yaml"), &format!("{HEADER}{yaml}")));
    let file = file.transpose().map_err(|error| error.to_string())?;
    settings(flags(args), file, base(), None).map_err(|error| error.to_string())
}

fn shown(settings: &Settings) -> String {
    let spec = serde_json::to_string(&settings.spec).unwrap();
    let Settings {
        spec: _,
        origins: _,
        notes: _,
        ca,
        disks,
        skip,
        wait,
        timeout,
        retain,
        progress,
        profile,
        export_on_failure,
    } = settings;
    format!(
        "{spec} {ca:?} {disks:?} {skip:?} {wait} {timeout:?} {retain} {progress:?} {profile:?} {export_on_failure:?}"
    )
}

/// Each flag of `up` with the same as a field; the test below sees to it that none is missing.
/// `--config` has no field; `--kubeadm-config`, `--cni`, `--ca-*` and `--etcd-*` name files: they have tests of their own.
const PAIRS: &[(&str, &[&str], &str)] = &[
    ("attach", &["--attach=other"], "owner: {attach: other}"),
    ("nodes", &["--nodes=3"], "nodes: [{count: 3}]"),
    ("node-kind", &["--node-kind=container"], "nodes: [{kind: container}]"),
    ("node-image", &["--node-image=a.example/b:c"], "nodes: [{image: 'a.example/b:c'}]"),
    ("cpus", &["--node-kind=vm", "--cpus=4"], "nodes: [{kind: vm, cpus: 4}]"),
    ("memory", &["--node-kind=vm", "--memory=3Gi"], "nodes: [{kind: vm, memory: 3Gi}]"),
    ("disk", &["--node-kind=vm", "--disk=30Gi"], "nodes: [{kind: vm, disk: 30Gi}]"),
    ("kubernetes", &["--kubernetes=v1.35.4"], "kubernetes: v1.35.4"),
    ("pod-subnet", &["--pod-subnet=10.1.0.0/16"], "networking: {podSubnet: 10.1.0.0/16}"),
    ("service-subnet", &["--service-subnet=10.2.0.0/16"], "networking: {serviceSubnet: 10.2.0.0/16}"),
    ("ip-family", &["--ip-family=dual"], "networking: {ipFamily: dual}"),
    ("node-mask-size-ipv4", &["--node-mask-size-ipv4=20"], "networking: {nodeMaskSizeIpv4: 20}"),
    ("node-mask-size-ipv6", &["--node-mask-size-ipv6=72"], "networking: {nodeMaskSizeIpv6: 72}"),
    ("dns-domain", &["--dns-domain=a.example"], "networking: {dnsDomain: a.example}"),
    ("token", &["--token=aaaaaa.bbbbbbbbbbbbbbbb"], "token: aaaaaa.bbbbbbbbbbbbbbbb"),
    ("token-ttl", &["--token-ttl=90m"], "tokenTtl: 90m"),
    ("extra-san", &["--extra-san=a.example", "--extra-san=10.0.0.1"], "extraSans: [a.example, 10.0.0.1]"),
    ("durable-etcd", &["--durable-etcd"], "etcd: {durable: true}"),
    ("etcd-backend", &["--etcd-backend=kine"], "etcd: {backend: kine}"),
    ("kube-proxy-mode", &["--kube-proxy-mode=iptables"], "kubeProxy: {mode: iptables}"),
    ("reach", &["--reach=none"], "reach: none"),
    (
        "control-plane-endpoint",
        &["--control-plane-endpoint=a.example:6443", "--listen=10.0.0.1"],
        "controlPlaneEndpoint: a.example:6443\nlistenAddress: 10.0.0.1",
    ),
    ("listen", &["--listen=10.0.0.1:6443"], "listenAddress: 10.0.0.1:6443"),
    (
        "port",
        &["--port=8080:30080", "--port=0.0.0.0:0:53/udp@node02"],
        "ports: [{host: 8080, port: 30080}, {host: '0.0.0.0:0', port: 53, protocol: UDP, node: node02}]",
    ),
    ("registry", &["--registry"], "registry: {enabled: true}"),
    ("registry-port", &["--registry", "--registry-port=5001"], "registry: {enabled: true, port: 5001}"),
    (
        "mirror",
        &["--mirror=docker.io=https://a.example", "--mirror=docker.io=https://b.example"],
        "images: {mirrors: {docker.io: ['https://a.example', 'https://b.example']}}",
    ),
    ("http-proxy", &["--http-proxy=http://a.example:3128"], "proxy: {http: 'http://a.example:3128'}"),
    ("https-proxy", &["--https-proxy=http://a.example:3128"], "proxy: {https: 'http://a.example:3128'}"),
    (
        "no-proxy",
        &["--http-proxy=http://a.example:3128", "--no-proxy=a.example,10.0.0.0/8"],
        "proxy: {http: 'http://a.example:3128', noProxy: [a.example, 10.0.0.0/8]}",
    ),
    ("no-roles", &["--no-roles"], "placement: {roles: []}"),
    ("no-spread", &["--no-spread"], "placement: {spread: {enabled: false}}"),
    ("skip-phase", &["--skip-phase=cni,coredns"], "skipPhases: [cni, coredns]"),
    ("wait", &["--wait=api"], "wait: api"),
    ("timeout", &["--timeout=30s"], "timeout: 30s"),
    ("retain", &["--retain"], "retain: true"),
    ("progress", &["--progress=json"], "progress: json"),
    ("profile", &["--profile=up.json"], "profile: up.json"),
    ("export-on-failure", &["--export-on-failure=evidence"], "exportOnFailure: evidence"),
];

#[test]
fn every_flag_of_up_is_a_field_of_the_file() {
    let cli = Cli::command();
    let up = cli.find_subcommand("up").unwrap();
    let known = |flag: &str| {
        let files = ["etcd-endpoint", "etcd-prefix", "etcd-ca", "etcd-cert", "etcd-key"];
        ["config", "kubeadm-config", "cni", "ca-cert", "ca-key"].contains(&flag)
            || files.contains(&flag)
            || PAIRS.iter().any(|(name, ..)| *name == flag)
    };
    for flag in up.get_arguments().filter_map(|arg| arg.get_long()) {
        assert!(known(flag), "--{flag} has no field in the file, or no line in this test");
    }
    let plain = shown(&resolve(&[], None).unwrap());
    for (name, args, yaml) in PAIRS {
        let by_flag = shown(&resolve(args, None).unwrap());
        let by_file = shown(&resolve(&[], Some(yaml)).unwrap());
        assert_eq!(by_flag, by_file, "--{name}");
        let default = ["node-kind"].contains(name);
        assert!(default || by_flag != plain, "--{name} changes nothing");
    }
}

#[test]
fn what_belongs_to_the_maker_of_the_namespace_is_refused() {
    let attached = resolve(&["--attach=theirs"], None).unwrap().spec;
    assert!(attached.nodes.is_empty() && attached.owner.attach().is_some_and(|a| a.container == "theirs"));
    let yaml = "owner: {attach: theirs}\nnodes: [{count: 2}]\nlistenAddress: 10.0.0.5:6443\napiServer: {port: 7443}\n";
    let error = resolve(&[], Some(yaml)).unwrap_err();
    for field in ["nodes", "listenAddress", "apiServer.port"] {
        assert!(error.contains(&format!("{field} beside owner.attach theirs: ")), "{error}");
    }
}

#[test]
fn the_api_servers_port_moves_by_its_field_alone() {
    let yaml = "apiServer: {port: 7443}\n";
    let spec = resolve(&[], Some(yaml)).unwrap().spec;
    assert_eq!((spec.api_port(), spec.api_authority().as_str()), (7443, "192.168.66.2:7443"));
    let by_flag = "components: {kube-apiserver: {extraArgs: {secure-port: 7443}}}\n";
    assert!(resolve(&[], Some(&format!("{yaml}{by_flag}"))).is_ok(), "they agree");
    let error = resolve(&[], Some(by_flag)).unwrap_err();
    assert!(error.contains("dial 6443; apiServer.port moves them all"), "{error}");
    let error = resolve(&[], Some("apiServer: {port: 443}\n")).unwrap_err();
    assert!(error.contains("apiServer.port 443: must be from 1024 on"), "{error}");
    let fields = check_conflict(&base(), &spec).unwrap_err().differences;
    assert_eq!(fields.iter().map(|difference| difference.field).collect::<Vec<_>>(), ["apiServer.port"]);
}

#[test]
fn policies_of_the_api_server_are_read_and_judged() {
    let yaml = "
etcd: {durable: true, fsync: false}
apiServer:
  admissionPlugins: [ResourceQuota]
  admissionConfig: |
    kind: AdmissionConfiguration
  audit: {policy: 'kind: Policy', logMaxSize: 10Mi, logMaxBackups: 1}
";
    let spec = resolve(&[], Some(yaml)).unwrap().spec;
    assert!(spec.etcd.durable && !spec.etcd.syncs());
    assert_eq!(spec.api_server.admission_plugins, ["ResourceQuota"]);
    let audit = spec.api_server.audit.unwrap();
    assert_eq!((audit.log_max_size_mib, audit.log_max_backups), (10, 1));
    let error = resolve(&[], Some(&yaml.replace("kind: Policy", "kind: Pod"))).unwrap_err();
    assert!(error.contains("apiServer.audit.policy kind Pod: must be a Policy"), "{error}");
}

#[test]
fn a_flag_wins_over_the_file() {
    let settings =
        resolve(&["--nodes=0", "--kubernetes=1.37.2"], Some("nodes: [{count: 5}]\nkubernetes: v1.34.0\n"));
    let settings = settings.unwrap();
    assert_eq!(settings.spec.nodes.len(), 0);
    assert_eq!(settings.spec.kubernetes.to_string(), "v1.37.2");
    assert_eq!(settings.wait, Level::Api, "without nodes no DNS can be waited for");
}

#[test]
fn every_field_of_the_file_arrives() {
    let yaml = "
kubernetes: v1.35.4
kubeProxy: {mode: iptables}
etcd: {durable: false, tmpfsSize: 2Gi, quota: 1Gi}
components:
  kube-apiserver: {extraArgs: {v: 4, audit-log-path: '-'}, memory: 2Gi, cpus: 1500m}
  etcd: {memory: 4Gi}
skipPhases: [coredns]
";
    let settings = resolve(&[], Some(yaml)).unwrap();
    let spec = &settings.spec;
    assert_eq!(spec.kube_proxy, KubeProxyMode::Iptables);
    assert_eq!((spec.etcd.tmpfs_bytes, spec.etcd.quota_bytes), (2 << 30, 1 << 30));
    let apiserver = spec.component(Component::ApiServer);
    assert_eq!(apiserver.extra_args.get("v").map(String::as_str), Some("4"));
    assert_eq!((apiserver.memory_bytes, apiserver.cpu_millis), (2 << 30, 1500));
    assert_eq!(settings.spec.skip_phases, [PhaseId::CoreDns]);
    assert_eq!(settings.wait, Level::Nodes, "nobody answers DNS queries");
    assert_eq!(spec.components.len(), Component::ALL.len(), "each component once");
}

#[test]
fn kind_2798_controllers_without_those_that_let_nodes_join() {
    let with = |controllers: &str| {
        let yaml = format!(
            "components: {{kube-controller-manager: {{extraArgs: {{controllers: '{controllers}'}}}}}}"
        );
        resolve(&[], Some(&yaml))
    };
    assert!(with("*").unwrap_err().contains("bootstrapsigner"));
    assert!(with("*,tokencleaner").is_err());
    assert!(with("*,-tokencleaner,bootstrapsigner").is_err());
    assert!(with("*,bootstrapsigner,tokencleaner").is_ok());
}

#[test]
fn kubeadm_1105_anonymous_auth_off() {
    let with = |value: &str| {
        resolve(
            &[],
            Some(&format!("components: {{kube-apiserver: {{extraArgs: {{anonymous-auth: '{value}'}}}}}}")),
        )
    };
    assert!(with("false").unwrap_err().contains("authentication-config"));
    assert!(with("true").is_ok());
}

#[test]
fn a_san_is_judged_as_the_certificate_will_judge_it() {
    let with = |san: &str| resolve(&[&format!("--extra-san={san}")], None);
    for bad in ["0.0.0.0", "::", "a.123", "10.0.0", "a..b", "*"] {
        let error = with(bad).unwrap_err();
        assert!(error.contains("--extra-san") && error.contains(bad), "{bad}: {error}");
    }
    for good in ["localhost", "*.example.org", "10.0.0.1", "fd00::2"] {
        assert!(with(good).is_ok(), "{good}");
    }
}

#[test]
fn levels_that_are_never_reached_are_refused() {
    assert!(resolve(&["--nodes=none", "--wait=dns"], None).unwrap_err().contains("without nodes"));
    let without_cni = |args: &[&str]| settings(flags(args), None, base(), Some(Cni::None));
    assert_eq!(without_cni(&[]).unwrap().wait, Level::Api);
    assert!(without_cni(&["--wait=nodes"]).is_err());
    assert!(without_cni(&["--wait=join"]).is_ok());
}

#[tokio::test]
async fn a_manifest_of_the_users_is_read_from_beside_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("c.yaml");
    std::fs::write(dir.path().join("cni.yaml"), "kind: List\n").unwrap();
    std::fs::write(&config, format!("{HEADER}name: other\ncni: cni.yaml\n")).unwrap();
    let args = flags(&["--config", config.to_str().unwrap()]);
    let (file, name) = hoist::config::begin(&Default::default(), &args).unwrap();
    assert_eq!(name.as_str(), "other");
    let settings = hoist::config::finish(args, file, name, None).await.unwrap();
    let origin = dir.path().join("cni.yaml").display().to_string();
    assert_eq!(settings.spec.cni, Cni::Manifest { origin, yaml: "kind: List\n".to_owned() });

    let args = flags(&["--cni", "none", "--config", config.to_str().unwrap()]);
    let (file, name) = hoist::config::begin(&Default::default(), &args).unwrap();
    assert_eq!(hoist::config::finish(args, file, name, None).await.unwrap().spec.cni, Cni::None);
}

#[tokio::test]
async fn a_ca_of_the_users_is_read_whole_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("hoist.yaml");
    std::fs::write(&config, "apiVersion: hoist.dev/v1alpha1\nkind: Cluster\nca: {cert: a.crt, key: a.key}\n")
        .unwrap();
    let args = || flags(&["--config", config.to_str().unwrap()]);
    let finish = async |args| {
        let (file, name) = hoist::config::begin(&Default::default(), &args).unwrap();
        hoist::config::finish(args, file, name, None).await
    };
    let pem = |kind: &str| format!("-----BEGIN {kind}-----\nMAA=\n-----END {kind}-----\n");
    let (cert, key) = (pem("CERTIFICATE"), pem("PRIVATE KEY"));
    std::fs::write(dir.path().join("a.crt"), &cert).unwrap();
    let error = finish(args()).await.unwrap_err().to_string();
    assert!(error.contains("a.key") && error.contains("no such file"), "{error}");

    std::fs::write(dir.path().join("a.key"), pem("ENCRYPTED PRIVATE KEY")).unwrap();
    let error = finish(args()).await.unwrap_err().to_string();
    assert!(error.contains("a.key") && error.contains("is encrypted"), "{error}");

    std::fs::write(dir.path().join("a.key"), &key).unwrap();
    let ca = finish(args()).await.unwrap().ca.unwrap();
    assert_eq!((ca.cert.as_slice(), ca.key.as_slice()), (cert.as_bytes(), key.as_bytes()));
    assert_eq!(format!("{ca:?}"), "UsersCa", "a key in a log is no key any more");

    let error = finish(flags(&["--ca-cert", "a.crt"])).await.unwrap_err().to_string();
    assert_eq!(error, "--ca-cert: without ca.key (--ca-key): a CA signs with its key; give both");
}

#[tokio::test]
async fn addons_are_read_in_order_or_refused() {
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("hoist.yaml");
    let finish = async |addons: &str| {
        std::fs::write(&config, format!("{HEADER}addons: {addons}\n")).unwrap();
        let args = flags(&["--config", config.to_str().unwrap()]);
        let (document, name) = hoist::config::begin(&Default::default(), &args).unwrap();
        hoist::config::finish(args, document, name, None).await.map_err(|error| error.to_string())
    };
    for name in ["b", "a"] {
        let text = format!("{{apiVersion: v1, kind: Namespace, metadata: {{name: {name}}}}}\n");
        std::fs::write(dir.path().join(format!("{name}.yaml")), text).unwrap();
    }
    let settings = finish("[{manifest: b.yaml}, {manifest: a.yaml, wait: false}]").await.unwrap();
    let names: Vec<_> = settings.spec.addons.iter().map(|addon| (addon.origin.clone(), addon.wait)).collect();
    let at = |name: &str| dir.path().join(name).display().to_string();
    assert_eq!(names, [(at("b.yaml"), true), (at("a.yaml"), false)]);
    let error = finish("[{manifest: 'https://a.example/x.yaml'}]").await.unwrap_err();
    assert!(error.contains("addons[0].manifest") && error.contains("#sha256="), "{error}");
    assert!(finish("[{manifest: c.yaml}]").await.unwrap_err().contains("addons[0].manifest"));
    std::fs::write(dir.path().join("c.yaml"), "a: b\n").unwrap();
    assert!(finish("[{manifest: c.yaml}]").await.unwrap_err().contains("c.yaml"));
}

#[tokio::test]
async fn a_configuration_of_kubeadms_holds_where_nothing_else_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kubeadm.yaml");
    let text = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.35.4\n\
                networking: {podSubnet: 10.1.0.0/16, dnsDomain: a.example}\nclusterName: other\n";
    std::fs::write(&path, text).unwrap();
    let config = dir.path().join("hoist.yaml");
    std::fs::write(
        &config,
        format!("{HEADER}kubeadmConfig: kubeadm.yaml\nnetworking: {{dnsDomain: b.example}}\n"),
    )
    .unwrap();
    let finish = async |args: &[&str]| {
        let args = flags(&[&["--config", config.to_str().unwrap()], args].concat());
        let (document, name) = hoist::config::begin(&Default::default(), &args).unwrap();
        hoist::config::finish(args, document, name, None).await
    };
    let settings = finish(&["--kubernetes=v1.36.3"]).await.unwrap();
    let spec = &settings.spec;
    assert_eq!(spec.kubernetes.to_string(), "v1.36.3", "a flag wins");
    assert_eq!(spec.networking.dns_domain, "b.example", "the file wins");
    assert_eq!(spec.networking.pod_subnet.to_string(), "10.1.0.0/16");
    assert_eq!(settings.notes.len(), 1, "{:?}", settings.notes);
    assert!(settings.notes[0].contains("ClusterConfiguration.clusterName has no meaning here"));
    let yaml = hoist::config::view::yaml(&settings, &Origin::Default);
    assert!(yaml.contains(&format!("podSubnet: 10.1.0.0/16  # {}", path.display())), "{yaml}");

    std::fs::write(&path, text.replace("10.1.0.0/16", "10.96.0.0/16")).unwrap();
    let error = finish(&[]).await.unwrap_err().to_string();
    assert!(error.contains(&format!("{}: networking.podSubnet", path.display())), "{error}");
    std::fs::remove_file(&path).unwrap();
    let error = finish(&["--wait=soon"]).await.unwrap_err().to_string();
    assert!(error.contains("kubeadmConfig") && error.contains("--wait"), "all at once: {error}");
}

#[test]
fn what_would_break_join_or_security_is_refused_before_anything_starts() {
    for (yaml, wanted) in [
        ("components: {kube-apiserver: {extraArgs: {authorization-mode: AlwaysAllow}}}", "AlwaysAllow"),
        ("components: {kube-apiserver: {extraArgs: {authorization-mode: RBAC}}}", "Node and RBAC"),
        (
            "components: {kube-apiserver: {extraArgs: {enable-bootstrap-token-auth: 'false'}}}",
            "bootstrap token",
        ),
        ("components: {kube-apiserver: {extraArgs: {client-ca-file: /x}}}", "--ca-cert"),
        ("components: {kube-controller-manager: {extraArgs: {cluster-signing-cert-file: /x}}}", "--ca-cert"),
        ("components: {kube-scheduler: {extraArgs: {kubeconfig: /x}}}", "cluster's own"),
        (
            "components: {kube-controller-manager: {extraArgs: {cluster-cidr: 10.0.0.0/8}}}",
            "networking.podSubnet",
        ),
        (
            "nodes: [{taints: [{key: a, value: b, effect: NoSchedule}, {key: a, effect: NoSchedule}]}]",
            "twice",
        ),
        ("etcd: {quota: 1}", "32Mi or more"),
    ] {
        let error = resolve(&[], Some(yaml)).expect_err(yaml);
        assert!(error.contains(wanted), "{yaml}: {error}");
    }
    let good = "components: {kube-apiserver: {extraArgs: {authorization-mode: 'RBAC,Node,Webhook'}}}";
    resolve(&[], Some(good)).unwrap();
}
