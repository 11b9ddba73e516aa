//! `run`: dnsmasq first, whose namespace all share; then registry, nodes and control plane side by
//! side; then the nodes join, each as soon as it and the control plane are there. What was made is
//! removed again when any of it fails.

mod control_plane;
mod image;
mod push;

use std::time::Instant;

use futures_util::future::{join_all, try_join_all};
use hoist_phases::ports::Runtime as _;
use tokio::sync::watch;

use control_plane::ControlPlane;

use super::args::{self, RunArgs};
use super::privileges::{PROBE, Privileges};
use super::provider::{self, Provider};
use super::rm::Taken;
use super::{Cluster, addons, containers, guest, node_name, provision, rm};
use crate::cli::{Interrupted, interrupted};
use crate::error::BoxError;
use crate::report;

/// Lines of each container's log that a failed run shows.
const LOG_TAIL: u32 = 200;

/// What nodes wait for; absent until it is there.
type Joinable = watch::Receiver<Option<ControlPlane>>;

pub(super) async fn run(cluster: &Cluster, args: &RunArgs) -> Result<(), BoxError> {
    let names = rm::containers(cluster).await?;
    if !names.is_empty() {
        return Err(Taken { prefix: cluster.prefix.clone(), names }.into());
    }
    let begin = Instant::now();
    let result = tokio::select! {
        result = up(cluster, args) => result,
        signal = interrupted() => Err(signal.map_or_else(BoxError::from, |signal: Interrupted| signal.into())),
    };
    if let Err(error) = result {
        // Another run was faster with what comes first: all that is there is of its making.
        let first = ["dnsmasq", PROBE].map(|name| cluster.container(name));
        if error
            .downcast_ref::<Taken>()
            .is_some_and(|taken| taken.names.iter().all(|name| first.contains(name)))
        {
            return Err(error);
        }
        tell_logs(cluster).await;
        if let Err(left) = rm::remove(cluster).await {
            report::tell(format_args!("warning: not everything could be removed: {left}"));
        }
        return Err(error);
    }
    report::tell(format_args!("cluster {} is up, {}", cluster.prefix, seconds(begin)));
    if args.background {
        return Ok(());
    }
    let ends = (1..=args.nodes).map(|number| async move { cluster.engine.wait(&cluster.node(number)).await });
    tokio::select! {
        _ = join_all(ends) => {}
        signal = interrupted() => drop(signal?),
    }
    rm::remove(cluster).await?;
    Ok(())
}

fn seconds(begin: Instant) -> String {
    report::seconds(u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX))
}

/// The logs of all containers, for whoever has to find out why.
async fn tell_logs(cluster: &Cluster) {
    for name in rm::containers(cluster).await.unwrap_or_default() {
        let log = cluster.engine.logs(&name, LOG_TAIL).await.unwrap_or_default();
        report::tell(format_args!("\n===== {name} =====\n{}", log.trim_end()));
    }
}

/// Whether the control plane runs in containers.
fn contained(args: &RunArgs) -> bool {
    match args.control_plane {
        args::ControlPlane::Auto => args.nodes > 1,
        args::ControlPlane::Containers => true,
        args::ControlPlane::Node01 => false,
    }
}

async fn up(cluster: &Cluster, args: &RunArgs) -> Result<(), BoxError> {
    let image = image::cluster_image(args);
    image::have(cluster, &image).await?;
    let registry = image::registry(cluster).await?;
    let privileges = Privileges::of_engine(cluster, &image).await?;
    containers::create_dnsmasq(cluster, &image, args, &privileges).await?;
    let provider = provider::from_image(cluster, &cluster.container("dnsmasq"), args).await?;
    if let Some(provider) = &provider
        && contained(args)
    {
        // Before any machine starts: images that are missing would stop it later.
        control_plane::have_images(cluster, args, provider).await?;
    }
    cluster.engine.start(&cluster.container("dnsmasq")).await?;
    report::tell(format_args!("dnsmasq started from {image}"));

    if !args.shared_block_device.is_empty() {
        containers::make_shared_volume(cluster).await?;
    }
    let others = async {
        containers::start_registry(cluster, &registry).await?;
        if !args.nfs_data.is_empty() {
            image::have(cluster, image::NFS).await?;
            containers::start_nfs(cluster, image::NFS, &args.nfs_data, &privileges).await?;
        }
        Ok::<_, BoxError>(())
    };
    let (announce, joinable) = watch::channel(None);
    let machines = (1..=args.nodes).map(|number| {
        let (image, privileges) = (&image, &privileges);
        async move {
            containers::start_node(cluster, image, args, number, privileges).await?;
            guest::boot(cluster, number).await?;
            report::tell(format_args!("{} answers", node_name(number)));
            Ok::<_, BoxError>(())
        }
    });
    let (booted, boots) = watch::channel([false; 1]);
    if !contained(args) {
        let nodes = try_join_all(machines.zip(1..).map(|(machine, number)| {
            let joinable = joinable.clone();
            let announce = &announce;
            async move {
                machine.await?;
                by_provider(cluster, args, number, announce, joinable).await
            }
        }));
        tokio::try_join!(others, nodes)?;
    } else {
        let first = boots;
        let control_plane = async {
            let provider = known(cluster, args, provider, first).await?;
            let made = control_plane::start(cluster, args, &provider).await?;
            report::tell("the control plane serves");
            announce.send_replace(Some(made));
            Ok::<_, BoxError>(())
        };
        let nodes = try_join_all(machines.zip(1..).map(|(machine, number)| {
            let (joinable, booted) = (joinable.clone(), &booted);
            async move {
                machine.await?;
                if number == 1 {
                    booted.send_replace([true]);
                }
                as_worker(cluster, args, number, joinable).await
            }
        }));
        tokio::try_join!(others, control_plane, nodes)?;
        finish(cluster, args, joinable).await?;
    }
    addons::deploy(cluster, args).await
}

/// What the image said of the provider, or else node01 does once it has booted.
async fn known(
    cluster: &Cluster,
    args: &RunArgs,
    of_image: Option<Provider>,
    mut booted: watch::Receiver<[bool; 1]>,
) -> Result<Provider, BoxError> {
    if let Some(provider) = of_image {
        return Ok(provider);
    }
    report::tell("the cluster image doesn't say what it is made for; waiting for node01");
    booted.wait_for(|booted| booted[0]).await?;
    let provider = provider::from_node(cluster, args).await?;
    control_plane::have_images(cluster, args, &provider).await?;
    Ok(provider)
}

async fn wait(mut joinable: Joinable) -> Result<ControlPlane, BoxError> {
    let made = joinable.wait_for(Option::is_some).await?.clone();
    made.ok_or_else(|| "the control plane is gone".into())
}

/// Makes a machine that has booted a worker of the control plane in containers.
async fn as_worker(
    cluster: &Cluster,
    args: &RunArgs,
    number: u32,
    joinable: Joinable,
) -> Result<(), BoxError> {
    if args.switches.enable_fips {
        provision::fips(cluster, number).await?;
    }
    provision::run(cluster, number, &provision::before_join(args, number)).await?;
    let made = wait(joinable).await?;
    let joined = join(cluster, args, number, &made);
    if number != 1 {
        return joined.await;
    }
    // What scripts expect on node01; the addons only need the API.
    let own = async {
        let conf = made.admin_conf.as_bytes();
        guest::feed(cluster, 1, "write admin.conf", &provision::admin_conf(), conf).await?;
        addons::own(cluster, args, &made.endpoint.ip().to_string()).await
    };
    tokio::try_join!(joined, own)?;
    Ok(())
}

/// What has to come last.
async fn finish(cluster: &Cluster, args: &RunArgs, joinable: Joinable) -> Result<(), BoxError> {
    let made = wait(joinable).await?;
    provision::run(cluster, 1, &provision::nodes_are_known(args)).await?;
    // The machines have appended forwards of their own since.
    made.keep_api_port(cluster).await?;
    control_plane::compare_policies(cluster, args).await
}

/// The provider's own way: node01 by `kubeadm init`, the others join it.
async fn by_provider(
    cluster: &Cluster,
    args: &RunArgs,
    number: u32,
    announce: &watch::Sender<Option<ControlPlane>>,
    joinable: Joinable,
) -> Result<(), BoxError> {
    if args.switches.enable_fips {
        provision::fips(cluster, number).await?;
    }
    provision::run(cluster, number, &provision::before_join(args, number)).await?;
    if number == 1 {
        provision::run(cluster, 1, &provision::init_node01(args)).await?;
        announce.send_replace(Some(control_plane::of_node01(cluster, args).await?));
    } else {
        let made = wait(joinable).await?;
        return join(cluster, args, number, &made).await;
    }
    provision::run(cluster, number, &provision::after_join(args)).await
}

/// `kubeadm join`, which ignores what the provider's does, but verifies the authority; then what
/// needs the kubelet's configuration.
async fn join(cluster: &Cluster, args: &RunArgs, number: u32, made: &ControlPlane) -> Result<(), BoxError> {
    let command = format!(
        "kubeadm join {} --token {} --discovery-token-ca-cert-hash {} --ignore-preflight-errors=all 2>&1",
        made.endpoint, made.token, made.ca_hash
    );
    let mut steps = vec![provision::Step::new("kubeadm join", command)];
    steps.extend(provision::after_join(args));
    provision::run(cluster, number, &steps).await?;
    report::tell(format_args!("{} joined", node_name(number)));
    Ok(())
}
