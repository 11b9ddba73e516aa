//! Flags, configuration file and what becomes of them. No engine, no files but the ones given.

use std::path::Path;

use clap::{CommandFactory as _, Parser as _};
use hoist::cli::args::{Cli, Command, UpArgs};
use hoist::cluster::ready::Level;
use hoist::config::{Conflict, EXAMPLE, Origin, Settings, check_conflict, defaults, parse_file, settings};
use hoist_phases::phases::PhaseId;
use hoist_phases::spec::{
    BootstrapToken, ClusterName, ClusterSpec, Cni, Component, KubeProxyMode, RoleNodes, RoleRule,
};

mod policies;
mod registries;

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

/// PEM of no real key, with the name of the file before it, as a comment.
fn keys() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, kind) in [("ca", "CERTIFICATE"), ("cert", "CERTIFICATE"), ("key", "EC PRIVATE KEY")] {
        std::fs::write(
            dir.path().join(name),
            format!("{name}\n-----BEGIN {kind}-----\nMAA=\n-----END {kind}-----\n"),
        )
        .unwrap();
    }
    dir
}

#[test]
fn an_etcd_elsewhere_needs_its_endpoints_and_three_files() {
    let dir = keys();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (ca, cert, key) = (at("ca"), at("cert"), at("key"));
    let external = |prefix: &str| {
        format!(
            "etcd: {{external: {{endpoints: ['https://10.0.0.5:2379'], {prefix}ca: {ca}, cert: {cert}, key: {key}}}}}"
        )
    };
    let by_file = resolve(&[], Some(&external("prefix: /a, "))).unwrap();
    let given = [format!("--etcd-ca={ca}"), format!("--etcd-cert={cert}"), format!("--etcd-key={key}")];
    let given = given.iter().map(String::as_str);
    let given: Vec<_> = given.chain(["--etcd-endpoint=https://10.0.0.5:2379", "--etcd-prefix=/a"]).collect();
    let by_flag = resolve(&given, None).unwrap();
    assert_eq!(shown(&by_file), shown(&by_flag));
    let spec = by_file.spec;
    let etcd = spec.etcd.backend.external().unwrap();
    assert_eq!((etcd.prefix.as_str(), etcd.endpoints.len()), ("/a", 1));
    assert!(etcd.ca.contains("ca") && etcd.cert.contains("cert") && etcd.key.expose().contains("key"));
    assert!(!format!("{spec:?}").contains("EC PRIVATE"), "a key is never shown");
    let named = resolve(&[], Some(&external(""))).unwrap().spec;
    assert_eq!(named.etcd.backend.external().unwrap().prefix, "/hoist/t");

    // Once known, the keys stay; another endpoint needs no new cluster, another prefix does.
    let again = parse_file(
        Path::new("c.yaml"),
        &format!("{HEADER}etcd: {{external: {{endpoints: ['https://10.0.0.6:2379']}}}}"),
    );
    let again = settings(flags(&[]), Some(again.unwrap()), spec.clone(), None).unwrap().spec;
    assert_eq!(again.etcd.backend.external().unwrap().key, etcd.key);
    assert!(check_conflict(&spec, &again).is_ok());
    let other = parse_file(Path::new("c.yaml"), &format!("{HEADER}{}", external("prefix: /b, ")));
    let other = settings(flags(&[]), Some(other.unwrap()), spec.clone(), None).unwrap().spec;
    let fields = check_conflict(&spec, &other).unwrap_err().differences;
    assert_eq!(
        fields.iter().map(|difference| difference.field).collect::<Vec<_>>(),
        ["etcd.external.prefix"]
    );
}

#[test]
fn what_a_store_has_no_use_for_is_refused_by_name() {
    let wrong = |yaml: &str, fields: &[&str]| {
        let error = resolve(&[], Some(yaml)).unwrap_err();
        for field in fields {
            assert!(error.contains(field), "{field}: {error}");
        }
    };
    wrong("etcd: {backend: sqlite}", &["etcd.backend \"sqlite\": must be etcd or kine"]);
    wrong("etcd: {backend: kine, quota: 512Mi}", &["etcd.quota 512Mi: kine has no quota"]);
    wrong(
        "etcd: {external: {endpoints: ['http://10.0.0.5:2379']}}",
        &[
            "etcd.external.endpoints \"http://10.0.0.5:2379\": must be https://",
            "etcd.external.ca: must name a file",
            "etcd.external.cert: ",
            "etcd.external.key: ",
        ],
    );
    wrong(
        "etcd: {external: {ca: /nowhere/ca.crt}}",
        &[
            "etcd.external.ca \"/nowhere/ca.crt\": there is no such file",
            "etcd.external.endpoints: must name",
        ],
    );
    let dir = keys();
    let key = dir.path().join("key");
    wrong(&format!("etcd: {{external: {{ca: {}}}}}", key.display()), &["must hold certificates in PEM"]);
    wrong(
        "etcd: {durable: true, tmpfsSize: 2Gi, backend: kine, external: {prefix: nope}}",
        &[
            "etcd.backend kine: beside etcd.external",
            "etcd.durable true: beside etcd.external",
            "etcd.tmpfsSize 2Gi",
            "etcd.external.prefix \"nope\"",
        ],
    );
}

#[test]
fn kine_keeps_its_data_where_etcd_would() {
    let spec = resolve(&["--etcd-backend=kine", "--durable-etcd"], None).unwrap().spec;
    assert!(spec.etcd.durable && spec.runs(Component::Kine) && !spec.runs(Component::Etcd));
    let error = resolve(&[], Some("etcd: {backend: kine}\ncomponents: {kine: {memory: 512Mi}}")).unwrap_err();
    assert!(error.contains("components.kine.memory"), "{error}");
    let etcd = resolve(&[], None).unwrap().spec;
    let fields = check_conflict(&etcd, &resolve(&["--etcd-backend=kine"], None).unwrap().spec)
        .unwrap_err()
        .differences;
    assert_eq!(fields.iter().map(|difference| difference.field).collect::<Vec<_>>(), ["etcd.backend"]);
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
fn a_placement_policy_arrives_and_can_be_turned_off() {
    let yaml = "
placement:
  policy:
    namespaces: [kubevirt, cdi]
    nodeSelector: {kubernetes.io/os: linux}
    tolerations: [{key: CriticalAddonsOnly, operator: Exists}]
    replicas: 2
";
    let present = resolve(&[], Some(yaml)).unwrap().spec;
    let policy = present.placement.policy.clone().unwrap();
    assert_eq!(policy.namespaces, ["kubevirt", "cdi"]);
    assert_eq!(policy.node_selector.get("kubernetes.io/os").map(String::as_str), Some("linux"));
    assert_eq!(policy.tolerations[0].key.as_deref(), Some("CriticalAddonsOnly"));
    assert_eq!(policy.replicas, Some(2));
    assert_eq!(resolve(&[], None).unwrap().spec.placement.policy, None, "nobody gets one unasked");

    let again = settings(flags(&[]), None, present.clone(), None).unwrap().spec;
    assert_eq!(again, present, "what is not said stays");
    let off = parse_file(Path::new("c.yaml"), &format!("{HEADER}placement: {{policy: {{namespaces: []}}}}"));
    let off = settings(flags(&[]), Some(off.unwrap()), present.clone(), None).unwrap().spec;
    assert!(off.placement.policy.as_ref().is_some_and(|policy| policy.namespaces.is_empty()));
    assert_eq!(check_conflict(&present, &off), Ok(()), "a policy may change on a cluster that is there");
}

#[test]
fn a_placement_policy_that_the_server_would_refuse() {
    let with = |fields: &str| {
        resolve(&[], Some(&format!("placement: {{policy: {{{fields}}}}}"))).map(|_| ()).unwrap_err()
    };
    assert!(with("replicas: 2").contains("namespaces"), "they have to be named");
    let all = with(
        "namespaces: [Kube_Virt], nodeSelector: {'a b': c, d: '-'}, tolerations: [{effect: NoSchedule}], replicas: 0",
    );
    for wrong in ["Kube_Virt", "a b", "\"-\"", "without a key", "replicas 0"] {
        assert!(all.contains(wrong), "{wrong}: {all}");
    }
    assert!(with("namespaces: [a], tolerations: [{tolerationSecond: 5}]").contains("tolerationSecond"));
}

#[test]
fn an_unknown_field_is_refused_with_its_place() {
    let error = resolve(&[], Some("networking:\n  podSubnett: 10.1.0.0/16\n")).unwrap_err();
    assert!(error.contains("c.yaml, line 4, column 3"), "{error}");
    assert!(error.contains("podSubnett"), "{error}");
}

#[test]
fn a_file_for_something_else_is_refused() {
    let parse = |text: &str| parse_file(Path::new("c.yaml"), text).map(|_| ()).unwrap_err().to_string();
    let error = parse("apiVersion: kind.x-k8s.io/v1alpha4\nkind: Cluster\n");
    assert_eq!(
        error,
        r#"configuration file c.yaml: apiVersion is "kind.x-k8s.io/v1alpha4", must be "hoist.dev/v1alpha1""#
    );
    assert!(parse("apiVersion: hoist.dev/v1alpha1\nkind: Node\n").contains("kind is \"Node\""));
    assert!(parse("kind: Cluster\n").contains("apiVersion"));
    assert!(parse("a: [").contains("line "));
}

#[test]
fn everything_wrong_is_told_at_once() {
    let yaml = "
extraSans: ['not a name']
etcd: {tmpfsSize: 64Mi}
components: {kubelet: {}, owner: {extraArgs: {x: y}}}
";
    let args = [
        "--kubernetes=v1.20.0",
        "--pod-subnet=192.168.66.0/24",
        "--service-subnet=10.96.0.1/12",
        "--nodes=100",
        "--skip-phase=nope",
        "--wait=soon",
        "--timeout=5",
        "--token-ttl=x",
        "--kube-proxy-mode=ipvs",
        "--node-kind=pod",
    ];
    let error = resolve(&args, Some(yaml)).unwrap_err();
    for part in [
        "not a name",
        "tmpfsSize",
        "components.kubelet",
        "owner",
        "v1.20.0",
        "192.168.66.0/24",
        "--service-subnet",
        "100",
        "nope",
        "soon",
        "--timeout",
        "--token-ttl",
        "ipvs",
        "--node-kind",
    ] {
        assert!(error.contains(part), "{part} is missing from:\n{error}");
    }
    let problems = error.lines().filter(|line| line.starts_with("- ")).count();
    assert!(error.starts_with(&format!("{problems} settings are wrong\n- ")), "{error}");
}

#[test]
fn a_token_is_not_echoed() {
    let error = resolve(&["--token=ABCDEF.supersecretvalue"], None).unwrap_err();
    assert!(error.contains("token") && !error.contains("supersecret"), "{error}");
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
fn a_durable_etcd_has_a_quota_of_its_own() {
    let quota = |base: ClusterSpec, yaml: &str| {
        let file = parse_file(Path::new("c.yaml"), &format!("{HEADER}{yaml}")).unwrap();
        settings(flags(&[]), Some(file), base, None).unwrap().spec
    };
    assert_eq!(quota(base(), "etcd: {durable: true}").etcd.quota_bytes, 2 << 30);
    let given = quota(base(), "etcd: {durable: true, quota: 5Gi}");
    assert_eq!(given.etcd.quota_bytes, 5 << 30);
    let again = quota(given, "etcd: {durable: true}");
    assert_eq!(again.etcd.quota_bytes, 5 << 30, "what a cluster has stays when nothing is said");
}

#[test]
fn project_infra_2815_a_quota_that_fills_the_file_system() {
    let error = resolve(&[], Some("etcd: {tmpfsSize: 1Gi, quota: 1Gi}")).unwrap_err();
    assert!(error.contains("etcd.quota 1024Mi") && error.contains("896Mi"), "{error}");
    assert!(resolve(&[], Some("etcd: {durable: true, quota: 8Gi}")).is_ok());
    let error = resolve(&[], Some("components: {etcd: {memory: 1Gi}}")).unwrap_err();
    assert!(error.contains("components.etcd.memory"), "{error}");
}

#[test]
fn levels_that_are_never_reached_are_refused() {
    assert!(resolve(&["--nodes=none", "--wait=dns"], None).unwrap_err().contains("without nodes"));
    let without_cni = |args: &[&str]| settings(flags(args), None, base(), Some(Cni::None));
    assert_eq!(without_cni(&[]).unwrap().wait, Level::Api);
    assert!(without_cni(&["--wait=nodes"]).is_err());
    assert!(without_cni(&["--wait=join"]).is_ok());
}

#[test]
fn what_is_not_said_stays_as_it_is() {
    let mut present = base();
    present.networking.pod_subnet = "10.1.0.0/16".parse().unwrap();
    let again = settings(flags(&[]), None, present.clone(), None).unwrap();
    assert_eq!(again.spec, present);
    assert_eq!(check_conflict(&present, &again.spec), Ok(()));
}

#[test]
fn a_machine_does_not_change_its_size_under_its_pods() {
    let vm = ["--node-kind=vm", "--memory=4Gi"];
    let present = resolve(&vm, None).unwrap().spec;
    for other in [["--memory=2Gi", "--cpus=2"], ["--memory=4Gi", "--cpus=3"], ["--memory=4Gi", "--disk=30Gi"]]
    {
        let args = [&["--node-kind=vm"], &other[..]].concat();
        let wanted = settings(flags(&args), None, present.clone(), None).unwrap().spec;
        let differences = check_conflict(&present, &wanted).unwrap_err().differences;
        assert_eq!(differences.iter().map(|one| one.field).collect::<Vec<_>>(), ["nodes"], "{other:?}");
    }
    let same = settings(flags(&vm), None, present.clone(), None).unwrap().spec;
    assert_eq!(check_conflict(&present, &same), Ok(()));
}

#[test]
fn a_conflict_names_each_field_and_the_way_out() {
    let present = base();
    let args = ["--nodes=2", "--pod-subnet=10.1.0.0/16", "--kubernetes=v1.35.4", "--durable-etcd"];
    let wanted = settings(flags(&args), None, present.clone(), Some(Cni::None)).unwrap().spec;
    let conflict = check_conflict(&present, &wanted).unwrap_err();
    let fields: Vec<_> = conflict.differences.iter().map(|difference| difference.field).collect();
    assert_eq!(fields, ["kubernetes", "networking.podSubnet", "etcd.durable", "cni", "nodes"]);
    assert!(conflict.hints().iter().any(|hint| hint.contains("hoist down --name t")));
    let only_nodes = settings(flags(&["--nodes=2"]), None, present.clone(), None).unwrap().spec;
    let hints = check_conflict(&present, &only_nodes).as_ref().map_err(Conflict::hints).unwrap_err();
    assert!(hints.len() == 1 && hints[0].contains("hoist node add"), "{hints:?}");
}

#[test]
fn kamaji_1165_and_641_arguments_and_sans_may_change() {
    let present = base();
    let yaml = "extraSans: [a.example]\ncomponents: {kube-scheduler: {extraArgs: {v: '4'}}}\n";
    let file = parse_file(Path::new("c.yaml"), &format!("{HEADER}{yaml}")).unwrap();
    let wanted = settings(flags(&["--token-ttl=1h"]), Some(file), present.clone(), None).unwrap().spec;
    assert_ne!(present, wanted);
    assert_eq!(check_conflict(&present, &wanted), Ok(()));
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

#[test]
fn the_example_says_what_holds_by_itself_and_names_every_field() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/configuration.md")).unwrap();
    assert!(page.contains(&format!("```yaml\n{EXAMPLE}```")), "docs/configuration.md has another example");
    let file = parse_file(Path::new("example.yaml"), &EXAMPLE.replace("name: hoist", "name: t")).unwrap();
    let by_example = shown(&settings(flags(&[]), Some(file), base(), None).unwrap());
    assert_eq!(by_example, shown(&resolve(&[], None).unwrap()));
    for (flag, ..) in PAIRS {
        assert!(EXAMPLE.contains(&format!("--{flag}")), "--{flag} is missing from the example");
    }
    let mut fields = Vec::new();
    names(hoist::config::schema(), &mut fields);
    assert!(fields.len() > 50, "{fields:?}");
    for field in fields {
        assert!(EXAMPLE.contains(&field), "{field} is missing from the example");
    }
}

/// Every name of a field in a schema.
fn names(schema: &serde_json::Value, found: &mut Vec<String>) {
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        found.push(name.clone());
        names(schema, found);
    }
    for inner in ["items", "additionalProperties"].map(|inner| &schema[inner]) {
        if inner.is_object() {
            names(inner, found);
        }
    }
}

#[test]
fn every_mistake_of_shape_is_told_with_its_place() {
    let yaml = "\
networking:
  podSubnett: 10.1.0.0/16
  nodeMaskSizeIpv4: 300
etcd: {durable: 'yes', quota: 8Gb}
retain: [true]
components:
  etcd: {extraArgs: {v: [2]}}
nodes:
- {kind: container, cont: 2}
placement: {roles: [{count: 1}]}
progress: pretty
";
    let error = resolve(&[], Some(yaml)).unwrap_err();
    for wanted in [
        "c.yaml, line 4, column 3: networking.podSubnett: unknown field; did you mean podSubnet?",
        "c.yaml, line 5, column 3: networking.nodeMaskSizeIpv4 300: must be 255 or less",
        "c.yaml, line 6, column 8: etcd.durable: is text, must be true or false",
        "c.yaml, line 6, column 24: etcd.quota \"8Gb\": must be a size such as",
        "c.yaml, line 7, column 1: retain: is a list, must be true or false",
        "c.yaml, line 9, column 22: components.etcd.extraArgs.v: is a list, must be text or a number",
        "c.yaml, line 11, column 21: nodes[0].cont: unknown field; did you mean count?",
        "c.yaml, line 12, column 21: placement.roles[0].role: is missing",
        "c.yaml, line 13, column 1: progress: \"pretty\" is none of its values; there are auto, plain, json",
    ] {
        assert!(error.contains(wanted), "{wanted} is missing from:\n{error}");
    }
    assert!(error.starts_with("9 settings are wrong"), "{error}");
}

#[test]
fn numbers_in_place_of_text_hide_no_other_mistake() {
    let yaml = "etcd: {quota: 1}\ntimeout: 0\nnope: 1\nnodes: [{count: 254}]\n";
    let error = resolve(&[], Some(yaml)).unwrap_err();
    for wanted in ["timeout 0: must be longer", "nope: unknown field", "nodes 254: at most 99"] {
        assert!(error.contains(wanted), "{wanted} is missing from:\n{error}");
    }
}

#[test]
fn a_device_that_never_ends_is_no_file() {
    let error = hoist::config::read_file(Path::new("/dev/zero")).unwrap_err();
    let cause = std::error::Error::source(&error).unwrap().to_string();
    assert!(cause.contains("is larger than 8 MiB"), "{error}: {cause}");
}

#[test]
fn text_is_taken_as_it_is_written() {
    let yaml = "components: {etcd: {extraArgs: {a: 0644, b: 1.10, c: true, d: ~}}}\ntokenTtl: 0\n";
    let spec = resolve(&[], Some(&yaml.replace(", d: ~", ""))).unwrap().spec;
    let args = spec.component(Component::Etcd).extra_args;
    assert_eq!(args.values().collect::<Vec<_>>(), ["0644", "1.10", "true"]);
    assert_eq!(spec.token_ttl.0, 0);
}

#[test]
fn a_view_is_a_file_that_says_the_same() {
    for (_, args, _) in PAIRS {
        let first = resolve(args, None).unwrap();
        let yaml = hoist::config::view::yaml(&first, &Origin::Default);
        let again =
            parse_file(Path::new("view.yaml"), &yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}"));
        let mut base = base();
        base.token = first.spec.token.clone();
        // Read from the image that the field names, or resolved from the name, later.
        let again = settings(flags(&[]), Some(again), base, None).unwrap();
        assert_eq!(shown(&again), shown(&first), "{args:?}\n{yaml}");
        assert!(!yaml.contains(&first.spec.token.expose()), "a secret");
    }
}

#[test]
fn a_view_tells_who_has_said_what() {
    let settings = resolve(&["--pod-subnet=10.1.0.0/16"], Some("etcd: {quota: 512Mi}\n")).unwrap();
    let yaml = hoist::config::view::yaml(&settings, &Origin::Present);
    for wanted in [
        "  podSubnet: 10.1.0.0/16  # --pod-subnet\n",
        "  quota: 512Mi  # c.yaml, line 3, column 8\n",
        "  dnsDomain: cluster.local  # the cluster that is there\n",
    ] {
        assert!(yaml.contains(wanted), "{wanted} is missing from:\n{yaml}");
    }
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
fn roles_are_read_with_their_nodes() {
    let yaml = "
placement:
  roles:
  - {role: control-plane, nodes: [node01, node02], taint: true}
  - {role: infra, count: 2}
  - {role: fast, selector: {disk: ssd}}
  - {role: worker}
";
    let roles = resolve(&[], Some(yaml)).unwrap().spec.placement.roles;
    let rule = |role: &str, nodes, taint| RoleRule { role: role.to_owned(), nodes, taint };
    let names = ["node01", "node02"].map(str::to_owned).into();
    let labels = [("disk".to_owned(), "ssd".to_owned())].into();
    assert_eq!(
        roles,
        [
            rule("control-plane", RoleNodes::Named(names), true),
            rule("infra", RoleNodes::Count(2), false),
            rule("fast", RoleNodes::Selected(labels), false),
            rule("worker", RoleNodes::All, false),
        ]
    );
    assert_eq!(resolve(&[], None).unwrap().spec.placement.roles, RoleRule::defaults());
}

#[test]
fn roles_that_can_not_be_are_refused_together() {
    let yaml = "
placement:
  roles:
  - {role: a/b}
  - {role: both, nodes: [node01], count: 1}
  - {role: none, count: 0}
  - {role: any, selector: {}}
  - {role: twice}
  - {role: twice}
  spread: {labels: {'not a label': x}}
";
    let error = resolve(&[], Some(yaml)).unwrap_err();
    for wanted in [
        "placement.roles \"a/b\": must be a label's name",
        "placement.roles \"both\": takes one of",
        "placement.roles \"none\": count",
        "placement.roles \"any\": selector",
        "placement.roles \"twice\": stands there more than once",
        "placement.spread.labels",
    ] {
        assert!(error.contains(wanted), "{wanted}: {error}");
    }
}

#[test]
fn level_webhook_is_refused_where_it_is_never_reached() {
    assert_eq!(resolve(&["--wait=webhook"], None).unwrap().wait, Level::Webhook);
    assert_eq!(resolve(&[], None).unwrap().wait, Level::Dns, "not unless it is asked for");
    let error = resolve(&["--wait=webhook", "--reach=none"], None).unwrap_err();
    assert!(error.contains("--wait webhook") && error.contains("use dns"), "{error}");
}

/// Commenting out what is in a section is no mistake.
#[test]
fn an_empty_section_says_nothing() {
    let plain = shown(&resolve(&[], None).unwrap());
    for section in ["networking", "etcd", "apiServer", "kubelet", "components", "placement", "owner", "nodes"]
    {
        let settings =
            resolve(&[], Some(&format!("{section}:\n"))).unwrap_or_else(|e| panic!("{section}: {e}"));
        assert_eq!(shown(&settings), plain, "{section}");
    }
    let settings = resolve(&[], Some("components:\n  kube-apiserver:\n    extraArgs:\n")).unwrap();
    assert_eq!(shown(&settings), plain);
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

#[test]
fn names_of_a_file_do_not_reach_the_terminal_as_they_are() {
    let error = resolve(&[], Some("\"\\e[31mkey\\nx\": 1\n")).unwrap_err();
    assert!(!error.contains('\u{1b}') && error.contains("u{1b}[31mkey\\nx"), "{error:?}");
}
