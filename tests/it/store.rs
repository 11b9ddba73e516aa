//! The state directory on a real file system, in a temporary directory.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::time::Duration;

use hoist::files::{self, FileError, KubeconfigLock};
use hoist::store::{StateError, StateRoot};
use hoist_phases::ports::Store as _;
use hoist_phases::spec::{BootstrapToken, ClusterName, ClusterSpec};
use tempfile::TempDir;

fn name(text: &str) -> ClusterName {
    ClusterName::new(text).unwrap()
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn nobody_else_can_read_it() {
    let temp = TempDir::new().unwrap();
    let root = temp.path().join("hoist");
    let state = StateRoot::new(&root).cluster(&name("a"));
    state.write("pki/etcd/ca.key", b"key").unwrap();
    for directory in ["", "clusters", "clusters/a", "clusters/a/pki", "clusters/a/pki/etcd"] {
        assert_eq!(mode(&root.join(directory)), 0o700, "{directory}");
    }
    assert_eq!(mode(&root.join("clusters/a/pki/etcd/ca.key")), 0o600);

    // A file that was open to others is closed by the next write.
    let key = state.path().join("pki/etcd/ca.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    state.write("pki/etcd/ca.key", b"new").unwrap();
    assert_eq!(mode(&key), 0o600);
    assert_eq!(state.read("pki/etcd/ca.key").unwrap().as_deref(), Some(b"new".as_slice()));
}

#[test]
fn no_path_leads_out_of_it() {
    let temp = TempDir::new().unwrap();
    let state = StateRoot::new(temp.path()).cluster(&name("a"));
    for path in ["", "..", "../b", "pki/../../b", "/etc/passwd", "./a", "a/.."] {
        let (read, write, remove) = (state.read(path), state.write(path, b"x"), state.remove(path));
        assert!(read.is_err() && write.is_err() && remove.is_err(), "{path:?} was accepted");
    }
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0, "nothing was made");
}

/// `report --html` asks before it watches.
#[test]
fn whether_a_file_can_be_written_is_known_before_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let at = |path: &str| directory.path().join(path);
    files::writable(&at("new/page.html")).unwrap();
    files::write(&at("old.html"), b"old", 0o600).unwrap();
    files::writable(&at("old.html")).unwrap();
    assert_eq!(std::fs::read(at("old.html")).unwrap(), b"old");
    assert_eq!(std::fs::read_dir(at("new")).unwrap().count(), 0, "nothing is left");
    for bad in [at("new"), at("old.html/page.html"), "/proc/page.html".into(), "/".into()] {
        files::writable(&bad).unwrap_err();
    }
}

#[test]
fn a_failed_write_leaves_the_old_content_and_no_debris() {
    let temp = TempDir::new().unwrap();
    let state = StateRoot::new(temp.path()).cluster(&name("a"));
    // A directory of that name can't be replaced by a file.
    state.write("target/inside", b"x").unwrap();
    let error = state.write("target", b"y").unwrap_err();
    assert_eq!(error.operation, "write");
    assert_eq!(state.read("target/inside").unwrap().as_deref(), Some(b"x".as_slice()));
    let names: Vec<_> = fs::read_dir(state.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(names, ["target"]);
}

#[test]
fn half_written_directories_are_told_apart() {
    let temp = TempDir::new().unwrap();
    let root = StateRoot::new(temp.path());
    let state = root.cluster(&name("a"));
    assert!(matches!(state.read_spec(), Err(StateError::Absent { .. })));

    state.write("pki/ca.crt", b"x").unwrap();
    let incomplete = state.read_spec().unwrap_err();
    assert!(matches!(incomplete, StateError::Incomplete { .. }));
    assert!(incomplete.hint().unwrap().contains("hoist down --name a"));

    for cut in [&b""[..], b"{\"name\": \"a\", \"kube", b"{}"] {
        state.write("cluster.json", cut).unwrap();
        let malformed = state.read_spec().unwrap_err();
        assert!(matches!(malformed, StateError::Malformed { .. }), "{malformed:?}");
        assert!(malformed.to_string().contains("cluster.json"), "{malformed}");
        assert!(malformed.hint().unwrap().contains("hoist down"));
    }

    // A directory in the file's place can't be read, whoever asks.
    state.remove("cluster.json").unwrap();
    state.write("cluster.json/x", b"x").unwrap();
    assert!(matches!(state.read_spec(), Err(StateError::File { .. })));
}

#[test]
fn two_at_once_on_one_cluster() {
    let temp = TempDir::new().unwrap();
    let root = StateRoot::new(temp.path().join("hoist"));
    let (a, b) = (root.cluster(&name("a")), root.cluster(&name("b")));
    let lock = a.lock().unwrap();
    let other = b.lock().unwrap();
    let busy = a.lock().unwrap_err();
    assert!(matches!(busy, StateError::Busy { .. }));
    assert!(busy.to_string().contains(&format!("process {}", std::process::id())), "{busy}");
    drop(lock);
    drop(a.lock().unwrap());
    a.write("cluster.json", b"{}").unwrap();
    drop(other);
    assert!(a.exists(), "only empty directories go with a lock");
    let last = a.lock().unwrap();
    a.destroy().unwrap();
    drop(last);
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0, "nothing stays after the last cluster");
}

#[test]
fn clusters_that_come_and_go_do_not_trip_over_each_other() {
    let temp = TempDir::new().unwrap();
    let root = StateRoot::new(temp.path().join("hoist"));
    std::thread::scope(|scope| {
        for number in 0..4 {
            let state = root.cluster(&name(&format!("c{number}")));
            scope.spawn(move || {
                for _ in 0..50 {
                    let lock = state.lock().unwrap();
                    state.write("pki/ca.key", b"key").unwrap();
                    assert_eq!(state.read("pki/ca.key").unwrap().as_deref(), Some(b"key".as_slice()));
                    state.destroy().unwrap();
                    drop(lock);
                }
            });
        }
    });
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
}

#[test]
fn a_lock_file_of_a_killed_process_stops_nobody() {
    let temp = TempDir::new().unwrap();
    let state = StateRoot::new(temp.path()).cluster(&name("a"));
    files::write(&temp.path().join("locks/a.lock"), b"1\n", files::PRIVATE).unwrap();
    drop(state.lock().unwrap());
}

#[test]
fn destroyed_with_its_keys_overwritten() {
    let temp = TempDir::new().unwrap();
    let root = StateRoot::new(temp.path());
    let state = root.cluster(&name("a"));
    state.write("pki/ca.key", b"very secret").unwrap();
    // A second name for the key's blocks shows what is left in them.
    let witness = temp.path().join("witness");
    fs::hard_link(state.path().join("pki/ca.key"), &witness).unwrap();
    // What a link points at isn't hoist's.
    let foreign = temp.path().join("foreign");
    files::write(&foreign, b"mine", files::PRIVATE).unwrap();
    symlink(&foreign, state.path().join("link")).unwrap();

    state.destroy().unwrap();
    state.destroy().unwrap();
    assert!(!state.exists());
    assert_eq!(fs::read(&witness).unwrap(), [0; 11]);
    assert_eq!(fs::read(&foreign).unwrap(), b"mine");
}

#[test]
fn lists_what_can_be_a_cluster() {
    let temp = TempDir::new().unwrap();
    let root = StateRoot::new(temp.path());
    assert!(root.clusters().unwrap().is_empty());
    for cluster in ["b", "a"] {
        root.cluster(&name(cluster)).write("x", b"").unwrap();
    }
    fs::create_dir(temp.path().join("clusters/Not_A_Name")).unwrap();
    files::write(&temp.path().join("clusters/file"), b"", files::PRIVATE).unwrap();
    assert_eq!(root.clusters().unwrap(), [name("a"), name("b")]);
}

#[test]
fn a_link_of_the_users_stays_a_link() {
    let temp = TempDir::new().unwrap();
    let (real, link, outer) =
        (temp.path().join("dotfiles/config"), temp.path().join("config"), temp.path().join("outer"));
    fs::create_dir(temp.path().join("dotfiles")).unwrap();
    symlink("dotfiles/config", &link).unwrap();
    symlink(&link, &outer).unwrap();
    // The link may point at a file that is yet to be made.
    for content in ["one", "two"] {
        files::write_through(&outer, content.as_bytes(), files::PRIVATE).unwrap();
        assert_eq!(fs::read_to_string(&real).unwrap(), content);
    }
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fs::symlink_metadata(&outer).unwrap().is_symlink());

    let circle = temp.path().join("circle");
    symlink(&circle, &circle).unwrap();
    assert!(matches!(files::write_through(&circle, b"x", files::PRIVATE), Err(FileError::LinkLoop(_))));
}

#[test]
fn kubectls_lock_is_respected() {
    let temp = TempDir::new().unwrap();
    let config = temp.path().join("config");
    let lock = KubeconfigLock::acquire(&config, Duration::ZERO).unwrap();
    let lock_file = temp.path().join("config.lock");
    assert!(lock_file.exists(), "where kubectl looks for it");
    let refused = KubeconfigLock::acquire(&config, Duration::from_millis(60)).unwrap_err();
    assert!(matches!(refused, FileError::Locked { .. }));
    assert!(refused.hint().unwrap().contains("config.lock"));
    drop(lock);
    assert!(!lock_file.exists());
    drop(KubeconfigLock::acquire(&config, Duration::ZERO).unwrap());
}

#[test]
fn what_runs_have_tried_is_kept_until_one_ends_well() {
    let temp = TempDir::new().unwrap();
    let state = StateRoot::new(temp.path()).cluster(&name("a"));
    let token = BootstrapToken::parse("abcdef.1234567890123456").unwrap();
    let present = hoist::config::defaults(name("a"), token);
    state.begin(&present, &present).unwrap();
    assert_eq!(state.unsettled().unwrap(), [], "nothing was to change");
    let with = |san: &str| ClusterSpec { extra_sans: vec![san.to_owned()], ..present.clone() };
    let (one, two) = (with("one.example"), with("two.example"));
    for tried in [&one, &two, &one] {
        state.begin(&present, tried).unwrap();
    }
    assert_eq!(state.unsettled().unwrap(), [present, one, two]);
    assert_eq!(mode(&state.path().join("unsettled.json")), 0o600);
    state.settled().unwrap();
    assert_eq!(state.unsettled().unwrap(), []);
}
