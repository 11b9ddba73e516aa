//! Merging into a user's kubeconfig through the program itself.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use hoist::config::defaults;
use hoist_phases::ports::Store as _;
use hoist_phases::spec::{BootstrapToken, ClusterName};
use serde_json::Value;

use crate::cli::{Home, Ran, ran};

pub(crate) const ADMIN: &str = "
apiVersion: v1
kind: Config
clusters: [{name: kubernetes, cluster: {server: 'https://127.0.0.1:6443', certificate-authority-data: Q0E=}}]
users: [{name: kubernetes-admin, user: {client-certificate-data: Q0VSVA==, client-key-data: S0VZ}}]
contexts: [{name: kubernetes-admin@kubernetes, context: {cluster: kubernetes, user: kubernetes-admin}}]
current-context: kubernetes-admin@kubernetes
";

const MINE: &str = "
apiVersion: v1
kind: Config
current-context: work
clusters: [{name: work, cluster: {server: 'https://work', x-unknown: kept}}]
contexts: [{name: work, context: {cluster: work, user: me, namespace: n}}]
users: [{name: me, user: {token: t}}]
preferences: {colors: true}
";

fn home() -> Home {
    let home = Home::new();
    let state = home.state("c1");
    let name = ClusterName::new("c1").unwrap();
    state.write_spec(&defaults(name, BootstrapToken::generate().unwrap())).unwrap();
    state.write("kubeconfig", ADMIN.as_bytes()).unwrap();
    home
}

fn run(home: &Home, file: Option<&Path>, args: &[&str]) -> Ran {
    let words: Vec<_> = ["kubeconfig", "--name", "c1"].iter().chain(args).copied().collect();
    let mut command = home.command(&words);
    if let Some(file) = file {
        command.env("KUBECONFIG", file);
    }
    ran(&mut command)
}

fn yaml(path: &Path) -> Value {
    serde_saphyr::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn it_is_printed_as_it_is() {
    let ran = run(&home(), None, &[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ADMIN));
}

#[test]
fn a_written_file_is_private() {
    let home = home();
    let path = home.dir.path().join("out.yaml");
    let ran = run(&home, None, &["--write", path.to_str().unwrap()]);
    assert_eq!((ran.code, ran.stdout.as_str()), (0, ""));
    assert_eq!((std::fs::read_to_string(&path).unwrap().as_str(), mode(&path)), (ADMIN, 0o600));
}

#[test]
fn the_users_file_is_made_when_there_is_none() {
    let home = home();
    assert_eq!(run(&home, None, &["--merge"]).code, 0);
    let path = home.dir.path().join(".kube/config");
    assert_eq!((yaml(&path)["current-context"].as_str(), mode(&path)), (Some("hoist-c1"), 0o600));
}

#[test]
fn a_merge_keeps_links_modes_and_what_is_not_ours() {
    let home = home();
    let (real, link) = (home.dir.path().join("real"), home.dir.path().join("link"));
    std::fs::write(&real, MINE).unwrap();
    std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o640)).unwrap();
    symlink("real", &link).unwrap();

    let merged = run(&home, Some(&link), &["--merge"]);
    assert_eq!(merged.code, 0, "{}", merged.stderr);
    assert!(std::fs::symlink_metadata(&link).unwrap().is_symlink());
    assert_eq!(mode(&real), 0o640);
    let value = yaml(&real);
    assert_eq!(value["current-context"], "work");
    assert_eq!(value["clusters"][0]["cluster"]["x-unknown"], "kept");
    assert_eq!(value["preferences"]["colors"], true);
    assert_eq!(value["clusters"][1]["cluster"]["server"], "https://127.0.0.1:6443");
    assert_eq!(value["users"][1]["user"]["client-key-data"], "S0VZ");
    assert!(!home.dir.path().join("real.lock").exists());

    assert_eq!(run(&home, Some(&link), &["--merge", "--switch"]).code, 0);
    assert_eq!(yaml(&real)["current-context"], "hoist-c1");
    assert_eq!(yaml(&real)["users"].as_array().unwrap().len(), 2, "merging again replaces");

    // Whatever KUBECONFIG says by then: the file merged into was noted.
    let unmerged = run(&home, None, &["--unmerge"]);
    assert_eq!(unmerged.code, 0, "{}", unmerged.stderr);
    let value = yaml(&real);
    for list in ["clusters", "contexts", "users"] {
        assert_eq!(value[list].as_array().unwrap().len(), 1, "{list}");
    }
    assert_eq!(value["current-context"], "", "our context is gone, and no other is ours to choose");
    assert!(run(&home, None, &["--unmerge"]).stderr.contains("nothing of this cluster was merged"));
}

#[test]
fn a_file_that_is_no_kubeconfig_is_left_alone() {
    let home = home();
    let path = home.dir.path().join("config");
    std::fs::write(&path, "clusters: {token: hunter2}\n").unwrap();
    let ran = run(&home, Some(&path), &["--merge"]);
    assert!(ran.code == 1 && ran.stderr.contains("is no kubeconfig"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("hunter2"), "{}", ran.stderr);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "clusters: {token: hunter2}\n");
}

/// As after a restart of the engine, which publishes the API on another port.
#[test]
fn files_that_were_written_are_kept_up_to_date() {
    let home = home();
    let (copy, edited, gone, users) = (
        home.dir.path().join("copy"),
        home.dir.path().join("edited"),
        home.dir.path().join("gone"),
        home.dir.path().join("users"),
    );
    for path in [&copy, &edited, &gone] {
        run(&home, None, &["--write", &path.display().to_string()]);
    }
    std::fs::write(&edited, "of the user's\n").unwrap();
    std::fs::remove_file(&gone).unwrap();
    std::fs::write(&users, MINE).unwrap();
    run(&home, Some(&users), &["--merge"]);

    let (state, name) = (home.state("c1"), ClusterName::new("c1").unwrap());
    let refresh = |admin: &str| {
        let done = hoist::kubeconfig::refresh(&state, &name, admin);
        assert!(done.failed.is_empty(), "{:?}", done.failed);
        done.written
    };
    assert_eq!(refresh(ADMIN), Vec::<std::path::PathBuf>::new());
    let moved = ADMIN.replace("6443", "7443");
    assert_eq!(refresh(&moved), [copy.clone(), users.clone()]);
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), moved);
    assert_eq!(std::fs::read_to_string(&edited).unwrap(), "of the user's\n");
    assert!(!gone.exists());
    let merged = yaml(&users);
    assert_eq!(merged["clusters"][1]["cluster"]["server"], "https://127.0.0.1:7443");
    assert_eq!(
        (&merged["current-context"], &merged["clusters"][0]["name"]),
        (&"work".into(), &"work".into())
    );
    assert_eq!(refresh(&moved), Vec::<std::path::PathBuf>::new());

    // Who has taken it out by hand doesn't want it back.
    std::fs::write(&users, MINE).unwrap();
    assert_eq!(refresh(ADMIN), [copy]);
    assert_eq!(yaml(&users)["clusters"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_copy_that_can_not_be_read_keeps_no_other_from_being_refreshed() {
    let home = home();
    let [first, broken, last, users] = ["a", "b", "c", "users"].map(|name| home.dir.path().join(name));
    for path in [&first, &broken, &last] {
        run(&home, None, &["--write", &path.display().to_string()]);
    }
    std::fs::write(&users, MINE).unwrap();
    run(&home, Some(&users), &["--merge"]);
    std::fs::remove_file(&broken).unwrap();
    std::fs::create_dir(&broken).unwrap();

    let (state, name) = (home.state("c1"), ClusterName::new("c1").unwrap());
    let moved = ADMIN.replace("6443", "7443");
    let done = hoist::kubeconfig::refresh(&state, &name, &moved);
    assert_eq!(done.written, [first.clone(), last, users]);
    let failed: Vec<_> = done.failed.iter().map(|error| hoist_phases::causes(error)).collect();
    assert!(matches!(&failed[..], [one] if one.contains(&broken.display().to_string())), "{failed:?}");

    // What was written is noted: the next time it counts as hoist's own.
    std::fs::remove_dir(&broken).unwrap();
    let done = hoist::kubeconfig::refresh(&state, &name, ADMIN);
    assert!(done.failed.is_empty() && done.written.contains(&first), "{done:?}");
}
