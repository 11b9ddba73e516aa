//! Files and volumes of containers on the engine of this machine.

use hoist::runtime::{Endpoint, Engine};
use hoist_phases::ports::{FileEntry, MountKind, Network, Runtime, RuntimeError};
use tokio::net::{TcpListener, UnixStream};

use crate::runtime::{idle, mounted, run, shell, with_cluster};

fn file(path: &str, mode: u32, content: &str) -> FileEntry {
    FileEntry { path: path.to_owned(), mode, content: content.as_bytes().to_vec() }
}

#[tokio::test]
async fn a_process_without_rights_reads_its_own_keys() {
    with_cluster("files", |engine, cluster| async move {
        let script = "cd /etc/hoist && stat -c '%n %a %u:%g' pki pki/etcd pki/etcd/ca.key config \
                      && cat pki/etcd/ca.key config && find . -mindepth 1 | wc -l";
        let mut spec = shell(&cluster, "a", script);
        spec.user = Some("65532:65533".to_owned());
        spec.mounts = vec![mounted("/etc/hoist", MountKind::Anonymous)];
        spec.files = vec![
            file("/etc/hoist/pki/etcd/ca.key", 0o600, "key\n"),
            file("/etc/hoist/config", 0o600, "config\n"),
        ];
        let (code, text) = run(&engine, &spec).await;
        let expected = "pki 700 65532:65533\npki/etcd 700 65532:65533\npki/etcd/ca.key 600 65532:65533\n\
                        config 600 65532:65533\nkey\nconfig\n4\n";
        assert_eq!((code, text.as_str()), (0, expected));
    })
    .await;
}

#[tokio::test]
async fn files_for_a_writable_root_leave_its_directories_alone() {
    with_cluster("rootfiles", |engine, cluster| async move {
        let mut spec =
            shell(&cluster, "a", "stat -c '%n %a %u' /etc /etc/new /etc/new/f /srv/v/g; cat /etc/new/f");
        spec.read_only_root = false;
        spec.mounts = vec![mounted("/srv/v", MountKind::Anonymous)];
        spec.files = vec![file("/etc/new/f", 0o640, "f\n"), file("/srv/v/g", 0o600, "g\n")];
        let (code, text) = run(&engine, &spec).await;
        assert_eq!(
            (code, text.as_str()),
            (0, "/etc 755 0\n/etc/new 755 0\n/etc/new/f 640 0\n/srv/v/g 600 0\nf\n")
        );
    })
    .await;
}

#[tokio::test]
async fn volumes_are_their_users_labelled_and_removed() {
    with_cluster("volumes", |engine, cluster| async move {
        let named = format!("{cluster}-data");
        let mut spec = shell(&cluster, "a", "touch /data/x /scratch/y && stat -c %u /data /scratch");
        spec.user = Some("65532:65532".to_owned());
        spec.mounts = vec![
            mounted("/data", MountKind::Volume(named.clone())),
            mounted("/scratch", MountKind::Anonymous),
            mounted("/tmp", MountKind::Tmpfs { bytes: Some(1 << 20), exec: false }),
        ];
        assert_eq!(run(&engine, &spec).await, (0, "65532\n65532\n".to_owned()));
        assert_eq!(engine.volumes(&cluster).await.unwrap().len(), 2, "both carry the cluster's label");
        assert_eq!(engine.list(Some(&cluster)).await.unwrap().len(), 1, "no helper is left");

        engine.remove(&spec.name).await.unwrap();
        assert_eq!(engine.volumes(&cluster).await.unwrap(), [named.as_str()], "the anonymous one is gone");

        // A second container finds what the first one wrote.
        let mut second = shell(&cluster, "b", "ls /data");
        second.user.clone_from(&spec.user);
        second.mounts = vec![mounted("/data", MountKind::Volume(named.clone()))];
        assert_eq!(run(&engine, &second).await, (0, "x\n".to_owned()));
        assert!(matches!(engine.remove_volume(&named).await, Err(RuntimeError::Failed { .. })), "in use");

        // Another cluster's container may not have it.
        let mut thief = shell("hoist-e2e-other", "c", "true");
        thief.mounts = second.mounts.clone();
        assert!(
            matches!(engine.create(&thief).await, Err(RuntimeError::Failed { object, .. }) if object == named)
        );

        engine.remove(&second.name).await.unwrap();
        engine.remove_volume(&named).await.unwrap();
        assert!(engine.volumes(&cluster).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn a_tmpfs_volume_lives_while_somebody_mounts_it() {
    with_cluster("tmpfs", |engine, cluster| async move {
        let kind = |bytes| MountKind::TmpfsVolume { name: format!("{cluster}-mem"), bytes };
        let mut owner = idle(&cluster, "owner");
        owner.mounts = vec![mounted("/keep", kind(8 << 20))];
        owner.user = Some("65532:65532".to_owned());
        engine.create(&owner).await.unwrap();
        engine.start(&owner.name).await.unwrap();

        let script = "stat -f -c '%T %S %b' /data; stat -c '%a %u:%g' /data; echo kept > /data/x";
        let mut writer = shell(&cluster, "writer", script);
        writer.user.clone_from(&owner.user);
        writer.mounts = vec![mounted("/data", kind(8 << 20))];
        let (code, text) = run(&engine, &writer).await;
        assert_eq!((code, text.as_str()), (0, "tmpfs 4096 2048\n700 65532:65532\n"));
        engine.remove(&writer.name).await.unwrap();

        let mut reader = shell(&cluster, "reader", "cat /data/x");
        reader.user.clone_from(&owner.user);
        reader.mounts = vec![mounted("/data", kind(8 << 20))];
        assert_eq!(run(&engine, &reader).await, (0, "kept\n".to_owned()));

        // Once unused, the next one gets the size it asks for.
        engine.remove(&reader.name).await.unwrap();
        engine.remove(&owner.name).await.unwrap();
        let mut larger = shell(&cluster, "larger", "stat -f -c '%b' /data; ls /data");
        larger.mounts = vec![mounted("/data", kind(16 << 20))];
        assert_eq!(run(&engine, &larger).await, (0, "4096\n".to_owned()));
    })
    .await;
}

#[tokio::test]
async fn files_without_a_place_are_refused_before_anything_is_made() {
    with_cluster("noplace", |engine, cluster| async move {
        let mut spec = shell(&cluster, "a", "true");
        spec.mounts = vec![
            mounted("/etc/hoist", MountKind::Volume(format!("{cluster}-v"))),
            mounted("/run", MountKind::Tmpfs { bytes: None, exec: false }),
        ];
        for path in ["/etc/other", "/run/f", "/etc/hoist/../passwd", "relative"] {
            spec.files = vec![file(path, 0o600, "secret")];
            let error = engine.create(&spec).await.unwrap_err();
            let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
            assert!(cause.contains(path) && !cause.contains("secret"), "{path}: {cause}");
        }
        assert!(engine.list(Some(&cluster)).await.unwrap().is_empty());
        assert!(engine.volumes(&cluster).await.unwrap().is_empty());
    })
    .await;
}

#[tokio::test]
async fn files_go_in_and_out_of_a_running_container() {
    with_cluster("transfer", |engine, cluster| async move {
        let mut spec = idle(&cluster, "a");
        spec.user = Some("1:1".to_owned());
        spec.mounts = vec![mounted("/etc/hoist", MountKind::Anonymous)];
        engine.create(&spec).await.unwrap();
        engine.start(&spec.name).await.unwrap();
        engine.upload(&spec.name, Some("1:1"), &[file("/etc/hoist/a/b", 0o600, "hi")]).await.unwrap();
        assert_eq!(
            engine.read_file(&spec.name, "/etc/hoist/a/b", 1 << 20).await.unwrap(),
            Some(b"hi".to_vec())
        );
        assert_eq!(engine.read_file(&spec.name, "/etc/hoist/none", 1 << 20).await.unwrap(), None);
        assert!(engine.read_file(&spec.name, "/etc/hoist/a", 1 << 20).await.is_err(), "a directory");
        assert!(engine.read_file(&format!("{cluster}-nobody"), "/etc/passwd", 1 << 20).await.is_err());
        let seen = engine.exec(&spec.name, &["stat", "-c", "%a %u", "/etc/hoist/a/b"], b"").await.unwrap();
        assert_eq!(seen.stdout, "600 1\n");
        assert!(engine.upload(&spec.name, None, &[file("/etc/f", 0o600, "")]).await.is_err(), "read-only");
    })
    .await;
}

/// Nothing of an engine on another machine is reached except through its API.
#[tokio::test]
async fn an_engine_behind_tcp_serves_as_well() {
    with_cluster("tcp", |local, cluster| async move {
        let Endpoint::Unix(socket) = local.endpoint().clone() else { return };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let relay = tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                let socket = socket.clone();
                tokio::spawn(async move {
                    let mut engine = UnixStream::connect(&socket).await.unwrap();
                    tokio::io::copy_bidirectional(&mut client, &mut engine).await
                });
            }
        });
        let engine = Engine::connect_any(vec![Endpoint::Tcp(address.to_string())]).await.unwrap();
        let mut spec = idle(&cluster, "a");
        spec.network = Network::Own;
        spec.mounts = vec![mounted("/v", MountKind::Anonymous)];
        spec.files = vec![file("/v/f", 0o600, "over tcp")];
        engine.create(&spec).await.unwrap();
        engine.start(&spec.name).await.unwrap();
        let output = engine.exec(&spec.name, &["cat", "/v/f", "-"], b", both ways").await.unwrap();
        assert_eq!((output.code, output.stdout.as_str()), (0, "over tcp, both ways"));
        engine.remove(&spec.name).await.unwrap();
        relay.abort();
    })
    .await;
}
