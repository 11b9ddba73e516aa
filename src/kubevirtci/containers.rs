//! The containers that are not the control plane's: dnsmasq, whose network namespace all share,
//! the registry, an NFS server and the nodes. They are what gocli makes, with the engine's own
//! words where [`hoist_phases::ports::ContainerSpec`] has none: it knows no privileged container.

use std::path::Path;
use std::sync::Arc;

use bollard::models::{
    ContainerCreateBody, HostConfig, Mount, MountType, PortBinding, PortMap, VolumeCreateRequest,
};
use bollard::query_parameters::CreateContainerOptionsBuilder;
use hoist_phases::ports::{Runtime as _, RuntimeError};

use super::Cluster;
use super::args::RunArgs;
use super::ports::{EXPOSED, asked_for};
use super::privileges::Privileges;
use super::rm::Taken;
use crate::env;
use crate::error::BoxError;

/// Names that nodes and pods find the namespace by.
const HOSTS: [&str; 3] = ["nfs:192.168.66.2", "registry:192.168.66.2", "ceph:192.168.66.2"];

/// Variables of this process that the machines are told of.
const FORWARDED: [&str; 2] = ["PROW_JOB_ID", "CI"];

/// Where nodes find the disks that they share.
const SHARED: &str = "/shared";

/// Kernel modules, for programs in dnsmasq's container that load some.
const MODULES: &str = "/lib/modules";

/// Creates the container whose namespace all share; it isn't started.
pub(super) async fn create_dnsmasq(
    cluster: &Cluster,
    image: &str,
    args: &RunArgs,
    privileges: &Privileges,
) -> Result<(), BoxError> {
    let mut host = privileges.host_config();
    host.publish_all_ports = Some(args.switches.random_ports);
    host.port_bindings = Some(bindings(args));
    host.extra_hosts = Some(HOSTS.map(str::to_owned).to_vec());
    if Path::new(MODULES).is_dir() {
        host.mounts = Some(vec![bind(MODULES, MODULES)]);
    }
    let body = ContainerCreateBody {
        image: Some(image.to_owned()),
        env: Some(vec![
            format!("NUM_NODES={}", args.nodes),
            format!("NUM_SECONDARY_NICS={}", args.secondary_nics),
        ]),
        cmd: Some(privileges.command("exec /dnsmasq.sh")),
        exposed_ports: Some(EXPOSED.map(|port| port.within().to_owned()).to_vec()),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    };
    create(cluster, "dnsmasq", body).await
}

fn bindings(args: &RunArgs) -> PortMap {
    let loopback = |number: u16| PortBinding {
        host_ip: Some("127.0.0.1".to_owned()),
        host_port: Some(number.to_string()),
    };
    let asked = asked_for(&args.ports).into_iter();
    asked.map(|(port, number)| (port.within().to_owned(), Some(vec![loopback(number)]))).collect()
}

/// Starts the registry that tests push their images to.
pub(super) async fn start_registry(cluster: &Cluster, image: &str) -> Result<(), BoxError> {
    let host = HostConfig {
        network_mode: Some(namespace(cluster)),
        // Its volume need not be labelled then, where there is SELinux.
        security_opt: Some(vec!["label=disable".to_owned()]),
        ..HostConfig::default()
    };
    let body = ContainerCreateBody {
        image: Some(image.to_owned()),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    };
    create(cluster, "registry", body).await?;
    Ok(cluster.engine.start(&cluster.container("registry")).await?)
}

/// Starts an NFS server for a directory of the engine's host.
pub(super) async fn start_nfs(
    cluster: &Cluster,
    image: &str,
    directory: &str,
    privileges: &Privileges,
) -> Result<(), BoxError> {
    let mut host = privileges.host_config();
    host.network_mode = Some(namespace(cluster));
    host.mounts = Some(vec![bind(directory, "/data/nfs")]);
    let options = "NFS_OPTION=fsid=0,rw,sync,insecure,no_root_squash,no_subtree_check,nohide";
    let body = ContainerCreateBody {
        image: Some(image.to_owned()),
        env: Some(vec!["NFS_DIR=/data/nfs".to_owned(), options.to_owned()]),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    };
    create(cluster, "nfs", body).await?;
    Ok(cluster.engine.start(&cluster.container("nfs")).await?)
}

/// Starts the virtual machine of a node.
pub(super) async fn start_node(
    cluster: &Cluster,
    image: &str,
    args: &RunArgs,
    number: u32,
    privileges: &Privileges,
) -> Result<(), BoxError> {
    let mut host = privileges.host_config();
    host.network_mode = Some(namespace(cluster));
    let mut volumes = Vec::new();
    if args.switches.enable_ceph {
        volumes.push("/var/lib/rook".to_owned());
    }
    if !args.shared_block_device.is_empty() {
        host.mounts = Some(vec![Mount {
            typ: Some(MountType::VOLUME),
            source: Some(shared_volume(cluster)),
            target: Some(SHARED.to_owned()),
            ..Mount::default()
        }]);
    }
    let mut variables = vec![format!("NODE_NUM={number:02}")];
    let forwarded = FORWARDED.into_iter().filter_map(|name| Some(format!("{name}={}", env::value(name)?)));
    variables.extend(forwarded);
    let body = ContainerCreateBody {
        image: Some(image.to_owned()),
        env: Some(variables),
        cmd: Some(privileges.command(&super::machine::command(args, number))),
        volumes: (!volumes.is_empty()).then_some(volumes),
        host_config: Some(host),
        ..ContainerCreateBody::default()
    };
    let name = super::node_name(number);
    create(cluster, &name, body).await?;
    Ok(cluster.engine.start(&cluster.container(&name)).await?)
}

/// Makes the volume of the disks that all nodes share.
pub(super) async fn make_shared_volume(cluster: &Cluster) -> Result<(), BoxError> {
    let request =
        VolumeCreateRequest { name: Some(shared_volume(cluster)), ..VolumeCreateRequest::default() };
    cluster.engine.docker().create_volume(request).await?;
    Ok(())
}

fn shared_volume(cluster: &Cluster) -> String {
    cluster.container("shared")
}

fn namespace(cluster: &Cluster) -> String {
    format!("container:{}", cluster.container("dnsmasq"))
}

/// A path of the engine's host.
fn bind(source: &str, target: &str) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(source.to_owned()),
        target: Some(target.to_owned()),
        ..Mount::default()
    }
}

/// # Errors
/// [`Taken`] when there is one of that name: names are what keeps two runs apart.
pub(super) async fn create(cluster: &Cluster, name: &str, body: ContainerCreateBody) -> Result<(), BoxError> {
    let name = cluster.container(name);
    let options = CreateContainerOptionsBuilder::new().name(&name).build();
    let under_way = Arc::clone(cluster.engine.creations()).read_owned().await;
    let docker = cluster.engine.docker().clone();
    let creation = tokio::spawn(async move {
        let created = docker.create_container(Some(options), body).await;
        drop(under_way);
        created
    });
    match creation.await? {
        Ok(_) => Ok(()),
        Err(bollard::errors::Error::DockerResponseServerError { status_code: 409, .. }) => {
            Err(Taken { prefix: cluster.prefix.clone(), names: vec![name] }.into())
        }
        Err(source) => {
            let operation = "create container";
            Err(RuntimeError::Failed { operation, object: name, source: source.into() }.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::refuse::testing::args;
    use super::*;

    #[test]
    fn ports_asked_for_by_number_are_on_loopback() {
        let bindings = bindings(&args(&["--dns-port=31111", "--k8s-port=6443"]));
        let binding = |port: &str| bindings.get(port).cloned().flatten().unwrap_or_default();
        assert_eq!(binding("31111/udp")[0].host_port.as_deref(), Some("31111"));
        assert_eq!(binding("6443/tcp")[0].host_ip.as_deref(), Some("127.0.0.1"));
        assert_eq!(bindings.len(), 2);
    }
}
