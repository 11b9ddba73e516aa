//! control-plane: kube-apiserver, kube-controller-manager and kube-scheduler, started without
//! waiting for etcd or each other: each retries until what it needs is there.

use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, try_join_all};
use serde_json::{Value, json};

use crate::causes;
use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::manifest::{self, ManifestError};
use crate::phases::containers::{self, Watch, component_name};
use crate::phases::flags::Flags;
use crate::phases::network::NONROOT;
use crate::phases::postmortem::Restarts;
use crate::phases::{Context, PhaseId, etcd, images, konnectivity, policies, wait};
use crate::pki::{CLUSTER_NAME, CONTAINER_PKI_DIR, FRONT_PROXY_CLIENT};
use crate::ports::{ContainerSpec, FileEntry, Network};
use crate::spec::{ClusterSpec, Component, Family, Reach};

pub(super) const CONTROLLER_MANAGER_PORT: u16 = 10257;
pub(super) const SCHEDULER_PORT: u16 = 10259;

/// kubernetes/kubernetes#137743: 20 s is too short on a busy host. A process that ended doesn't
/// wait for it: it fails the phase at once.
const DEADLINE: Duration = Duration::from_secs(180);

pub(super) const COMPONENTS: [Component; 3] =
    [Component::ApiServer, Component::ControllerManager, Component::Scheduler];

const SCHEDULER_KUBECONFIG: &str = "/etc/kubernetes/scheduler.conf";
const SCHEDULER_CONFIG: &str = "/etc/kubernetes/scheduler.yaml";

/// Open files a component asks for, when the engine's host allows that many.
const NOFILE: u64 = 65_536;

pub(super) fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    apply(cx).boxed()
}

async fn apply(cx: &Context) -> Result<Outcome, PhaseError> {
    let nofile = cx.outputs.network.get()?.nofile;
    let kubeconfigs = cx.outputs.kubeconfigs.get()?;
    let pki = cx.outputs.pki.get()?;
    let specs = COMPONENTS.map(|component| {
        let mut files = pki.files_for(component);
        files.extend(kubeconfigs.file_for(component));
        desired(&cx.spec, component, files, nofile).map(|spec| (component, spec))
    });
    let changed = try_join_all(specs.map(|spec| async move {
        let (component, spec) = spec?;
        let changed = containers::reconcile(&cx.ports.runtime, &cx.spec.name, component.name(), spec).await?;
        if changed {
            cx.events.step(PhaseId::ControlPlane, format!("{component} started"));
        }
        Ok::<_, PhaseError>(changed)
    }))
    .await?
    .into_iter()
    .any(|changed| changed);

    // What has to run before the next can, first.
    let by_need = cx.spec.etcd.backend.component().into_iter().chain(COMPONENTS);
    let restarts = Restarts::now(&cx.ports.runtime, &cx.spec, by_need).await;
    let api = cx.ports.connect.connect(kubeconfigs.super_admin()).await?;
    // Serving is enough: a system:masters user is let in from the first moment, and all later
    // phases retry what the start hooks have not made yet.
    let watch = Watch::default().reviving(&cx.spec);
    let served = wait::until(DEADLINE, || async {
        check_components(cx, &watch).await?;
        match api.get_path("/api/v1/namespaces?limit=1").await {
            Ok((200, _)) => Ok(wait::Poll::Ready(())),
            Ok((code, body)) => Ok(wait::Poll::Pending(format!("kube-apiserver answers {code}: {body}"))),
            Err(error) if error.is_transient() => Ok(wait::Poll::Pending(causes(&error))),
            Err(error) => Err(error.into()),
        }
    })
    .await;
    if let Err(error) = served {
        return Err(restarts.explain(&cx.ports.runtime, error).await);
    }
    cx.outputs.api.set(api);
    Ok(Outcome::changed(changed))
}

/// Fails when a component has ended for good, with its exit code and last log lines. etcd (or kine) counts
/// from the moment on that its own phase, which runs beside, is through with its container.
///
/// # Errors
/// [`containers::ContainerError`], naming the component.
pub async fn check_components(cx: &Context, watch: &Watch) -> Result<(), PhaseError> {
    let checks = judged(&cx.spec, cx.outputs.etcd.get().is_ok()).map(|component| async move {
        watch.check(&cx.ports.runtime, &component_name(&cx.spec, component)).await
    });
    try_join_all(checks).await?;
    Ok(())
}

fn judged(spec: &ClusterSpec, store_is_made: bool) -> impl Iterator<Item = Component> {
    COMPONENTS.into_iter().chain(spec.etcd.backend.component().filter(|_| store_is_made))
}

/// One of [`COMPONENTS`] as this cluster needs it, with these keys.
///
/// # Errors
/// When a configuration of the user's isn't YAML.
pub(super) fn desired(
    spec: &ClusterSpec,
    component: Component,
    files: Vec<FileEntry>,
    nofile: u64,
) -> Result<ContainerSpec, ManifestError> {
    let flags = match component {
        Component::ControllerManager => controller_manager(spec),
        Component::Scheduler => scheduler(spec),
        _ => api_server(spec),
    };
    let mut container = container(spec, component, flags, files, nofile);
    match component {
        Component::ApiServer => {
            container.files.extend(etcd::external::files(spec));
            if spec.reach == Reach::Konnectivity {
                container.files.push(konnectivity::egress_selector());
                container.mounts.push(konnectivity::socket(spec));
            }
            policies::mount(spec, &mut container);
        }
        Component::Scheduler => container.files.extend(scheduler_config(spec)?),
        _ => {}
    }
    Ok(container)
}

/// The container of one component: no root, no capability, read-only root file system, its own
/// keys and nothing else.
pub(super) fn container(
    spec: &ClusterSpec,
    component: Component,
    flags: Flags,
    files: Vec<FileEntry>,
    nofile: u64,
) -> ContainerSpec {
    let limits = spec.component(component);
    let mut container = ContainerSpec::new(
        component_name(spec, component),
        images::reference(spec, component.name()),
        Network::Container(component_name(spec, Component::Owner)),
    );
    container.args = flags.render();
    container.user = Some(NONROOT.to_owned());
    container.mounts = vec![containers::private_mount(spec, &container.name, "/etc/kubernetes")];
    container.files = files;
    container.memory_bytes = Some(limits.memory_bytes);
    container.cpu_millis = Some(limits.cpu_millis);
    container.nofile = Some(nofile.min(NOFILE));
    container.restart = true;
    container
}

/// Flags of kube-apiserver, after those that kubeadm 1.34 to 1.37 give it. Differences: the kubelet is dialled
/// by address first, since node names mean nothing to the engine's resolver, and aggregated APIs
/// and webhooks by endpoint address, since no kube-proxy serves this namespace.
fn api_server(spec: &ClusterSpec) -> Flags {
    let pki = CONTAINER_PKI_DIR;
    let mut flags = Flags::new([
        ("advertise-address", spec.networking.control_plane().to_string()),
        ("allow-privileged", "true".to_owned()),
        ("authorization-mode", "Node,RBAC".to_owned()),
        ("client-ca-file", format!("{pki}/ca.crt")),
        ("enable-admission-plugins", policies::admission_plugins(spec)),
        ("enable-aggregator-routing", "true".to_owned()),
        ("enable-bootstrap-token-auth", "true".to_owned()),
        ("etcd-cafile", format!("{pki}/etcd/ca.crt")),
        ("etcd-certfile", format!("{pki}/apiserver-etcd-client.crt")),
        ("etcd-keyfile", format!("{pki}/apiserver-etcd-client.key")),
        ("etcd-servers", etcd::servers(spec)),
        ("kubelet-client-certificate", format!("{pki}/apiserver-kubelet-client.crt")),
        ("kubelet-client-key", format!("{pki}/apiserver-kubelet-client.key")),
        ("kubelet-preferred-address-types", "InternalIP,ExternalIP,Hostname".to_owned()),
        ("profiling", "false".to_owned()),
        ("proxy-client-cert-file", format!("{pki}/{FRONT_PROXY_CLIENT}.crt")),
        ("proxy-client-key-file", format!("{pki}/{FRONT_PROXY_CLIENT}.key")),
        ("requestheader-allowed-names", FRONT_PROXY_CLIENT.to_owned()),
        ("requestheader-client-ca-file", format!("{pki}/front-proxy-ca.crt")),
        ("requestheader-extra-headers-prefix", "X-Remote-Extra-".to_owned()),
        ("requestheader-group-headers", "X-Remote-Group".to_owned()),
        ("requestheader-username-headers", "X-Remote-User".to_owned()),
        ("secure-port", spec.api_port().to_string()),
        ("service-account-issuer", format!("https://kubernetes.default.svc.{}", spec.networking.dns_domain)),
        ("service-account-key-file", format!("{pki}/sa.pub")),
        ("service-account-signing-key-file", format!("{pki}/sa.key")),
        ("service-cluster-ip-range", spec.networking.service_subnet.to_string()),
        ("tls-cert-file", format!("{pki}/apiserver.crt")),
        ("tls-private-key-file", format!("{pki}/apiserver.key")),
    ]);
    if spec.control_plane_endpoint.is_some() {
        // hoist lays down the endpoints of Service kubernetes itself (bootstrap-config).
        flags.set("endpoint-reconciler-type", "none");
    }
    if spec.reach == Reach::Konnectivity {
        flags.set("egress-selector-config-file", konnectivity::EGRESS_SELECTOR);
    }
    if let Some(external) = spec.etcd.backend.external() {
        flags.set("etcd-prefix", &external.prefix);
    }
    policies::set_flags(spec, &mut flags);
    set_feature_gates(spec, &mut flags);
    flags.overridden_by(&spec.component(Component::ApiServer).extra_args)
}

/// Flags of kube-controller-manager. Differences from kubeadm's: no leader election, since a
/// restarted single instance would wait 15 s for its own old lease; and client limits that don't
/// make starting its controllers take five seconds.
fn controller_manager(spec: &ClusterSpec) -> Flags {
    let pki = CONTAINER_PKI_DIR;
    let kubeconfig = "/etc/kubernetes/controller-manager.conf";
    let networking = &spec.networking;
    let mut flags = Flags::new([
        ("allocate-node-cidrs", "true".to_owned()),
        ("authentication-kubeconfig", kubeconfig.to_owned()),
        ("authorization-kubeconfig", kubeconfig.to_owned()),
        ("bind-address", "127.0.0.1".to_owned()),
        ("client-ca-file", format!("{pki}/ca.crt")),
        ("cluster-cidr", networking.pod_subnet.to_string()),
        ("cluster-name", CLUSTER_NAME.to_owned()),
        ("cluster-signing-cert-file", format!("{pki}/ca-signing.crt")),
        ("cluster-signing-key-file", format!("{pki}/ca.key")),
        ("controllers", "*,bootstrapsigner,tokencleaner".to_owned()),
        ("kube-api-burst", "2000".to_owned()),
        ("kube-api-qps", "1000".to_owned()),
        ("kubeconfig", kubeconfig.to_owned()),
        ("leader-elect", "false".to_owned()),
        ("profiling", "false".to_owned()),
        ("requestheader-client-ca-file", format!("{pki}/front-proxy-ca.crt")),
        ("root-ca-file", format!("{pki}/ca.crt")),
        ("secure-port", CONTROLLER_MANAGER_PORT.to_string()),
        ("service-account-private-key-file", format!("{pki}/sa.key")),
        ("service-cluster-ip-range", networking.service_subnet.to_string()),
        ("use-service-account-credentials", "true".to_owned()),
    ]);
    for family in networking.families() {
        let flag = match family {
            Family::Ipv4 => "node-cidr-mask-size-ipv4",
            Family::Ipv6 => "node-cidr-mask-size-ipv6",
        };
        flags.set(flag, networking.node_mask_size(family).to_string());
    }
    set_feature_gates(spec, &mut flags);
    flags.overridden_by(&spec.component(Component::ControllerManager).extra_args)
}

/// Flags of kube-scheduler; without leader election for the same reason.
fn scheduler(spec: &ClusterSpec) -> Flags {
    let kubeconfig = SCHEDULER_KUBECONFIG;
    let mut flags = Flags::new([
        ("authentication-kubeconfig", kubeconfig.to_owned()),
        ("authorization-kubeconfig", kubeconfig.to_owned()),
        ("bind-address", "127.0.0.1".to_owned()),
        ("kubeconfig", kubeconfig.to_owned()),
        ("leader-elect", "false".to_owned()),
        ("profiling", "false".to_owned()),
        ("secure-port", SCHEDULER_PORT.to_string()),
    ]);
    if spec.scheduler_config.is_some() {
        flags.set("config", SCHEDULER_CONFIG);
    }
    set_feature_gates(spec, &mut flags);
    flags.overridden_by(&spec.component(Component::Scheduler).extra_args)
}

fn set_feature_gates(spec: &ClusterSpec, flags: &mut Flags) {
    if let Some(gates) = spec.feature_gates_flag() {
        flags.set("feature-gates", gates);
    }
}

/// The user's configuration with what the scheduler ignores of its flags beside one: its kubeconfig,
/// and that it is alone.
fn scheduler_config(spec: &ClusterSpec) -> Result<Option<FileEntry>, ManifestError> {
    let Some(text) = &spec.scheduler_config else { return Ok(None) };
    let mut config: Value = manifest::from_yaml("scheduler.config", text)?;
    config["clientConnection"]["kubeconfig"] = json!(SCHEDULER_KUBECONFIG);
    config["leaderElection"]["leaderElect"] = json!(false);
    let content = manifest::to_yaml("scheduler.config", &config)?.into_bytes();
    Ok(Some(FileEntry { path: SCHEDULER_CONFIG.to_owned(), mode: 0o600, content }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::Outputs;
    use crate::spec::{Backend, Networking, test_spec};

    #[test]
    fn flags_follow_the_address_families() -> Result<(), Box<dyn std::error::Error>> {
        use crate::phases::addon::testing;

        let mut dual = testing::dual_stack()?;
        (dual.networking.node_mask_size_ipv4, dual.networking.node_mask_size_ipv6) = (20, 72);
        for (spec, advertise, v4, v6) in [
            (testing::spec()?, "192.168.66.2", Some("24"), None),
            (dual, "192.168.66.2", Some("20"), Some("72")),
            (testing::ipv6_only()?, "fd00::1", None, Some("64")),
        ] {
            let (api, manager) = (api_server(&spec), controller_manager(&spec));
            let Networking { pod_subnet, service_subnet, .. } = &spec.networking;
            assert_eq!(api.get("advertise-address"), Some(advertise));
            assert_eq!(api.get("service-cluster-ip-range"), Some(service_subnet.to_string().as_str()));
            assert_eq!(manager.get("service-cluster-ip-range"), Some(service_subnet.to_string().as_str()));
            assert_eq!(manager.get("cluster-cidr"), Some(pod_subnet.to_string().as_str()));
            assert_eq!(manager.get("node-cidr-mask-size-ipv4"), v4);
            assert_eq!(manager.get("node-cidr-mask-size-ipv6"), v6);
        }
        Ok(())
    }

    #[test]
    fn the_store_is_not_judged_while_its_phase_makes_it_anew() {
        let (mut spec, outputs) = (test_spec(), Outputs::default());
        assert!(!judged(&spec, outputs.etcd.get().is_ok()).any(|component| component == Component::Etcd));
        outputs.etcd.set(());
        assert!(judged(&spec, outputs.etcd.get().is_ok()).any(|component| component == Component::Etcd));
        spec.etcd.backend = Backend::Kine;
        assert!(judged(&spec, true).any(|component| component == Component::Kine));
        assert!(!judged(&spec, true).any(|component| component == Component::Etcd));
    }

    #[test]
    fn an_etcd_elsewhere_is_dialled_with_its_own_keys() -> Result<(), Box<dyn std::error::Error>> {
        let mut spec = test_spec();
        spec.etcd.backend = Backend::External(etcd::external::testing());
        let container = desired(&spec, Component::ApiServer, Vec::new(), 1024)?;
        for flag in
            ["--etcd-servers=https://a.test:2379,https://b.test:2379", "--etcd-prefix=/registry/sample"]
        {
            assert!(container.args.iter().any(|arg| arg == flag), "{:?}", container.args);
        }
        assert!(!container.args.iter().any(|arg| arg.contains("KEY")), "{:?}", container.args);
        let key = container.files.iter().find(|file| file.path.ends_with("apiserver-etcd-client.key"));
        assert_eq!(key.map(|key| (key.mode, key.content.as_slice())), Some((0o600, b"KEY".as_slice())));
        Ok(())
    }
}
