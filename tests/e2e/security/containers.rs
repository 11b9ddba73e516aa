//! What each container may do and holds, compared with the table.

use serde_json::{Value, json};

use super::document::{Row, table};
use crate::support::{archive_files, calm, containers, inspect};

fn words(cell: &str) -> Vec<String> {
    let mut words: Vec<_> = cell.split_whitespace().filter(|word| *word != "–").map(str::to_owned).collect();
    words.sort();
    words
}

fn sorted<'a>(values: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut values: Vec<_> = values.map(str::to_owned).collect();
    values.sort();
    values
}

fn strings(list: &Value) -> impl Iterator<Item = &str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// Where something is mounted, a tmpfs of the container's own included.
fn mounts(all: &Value) -> Vec<String> {
    let volumes = all["Mounts"].as_array().expect("a list").iter();
    let volumes = volumes.filter_map(|mount| mount["Destination"].as_str());
    let tmpfs = all["HostConfig"]["Tmpfs"].as_object().into_iter().flat_map(|tmpfs| tmpfs.keys());
    sorted(volumes.chain(tmpfs.map(String::as_str)))
}

/// What only the container's own user may read of its keys and kubeconfigs.
fn private(container: &str) -> Vec<String> {
    let found = archive_files(container, "/etc/kubernetes");
    let key = |path: &str| path.ends_with(".key");
    let open: Vec<_> = found.iter().filter(|(path, mode)| key(path) && *mode != 0o600).collect();
    assert!(open.is_empty(), "{container}: {open:?}");
    let private = found.iter().filter(|(_, mode)| mode & 0o077 == 0);
    sorted(private.map(|(path, _)| path.trim_start_matches("kubernetes/")))
}

fn is_as_told(container: &str, row: &Row) {
    let all = inspect(container);
    let host = &all["HostConfig"];
    let yes = |column: &str| row[column] == "yes";
    let user = match row["user"].as_str() {
        "nonroot" => "65532:65532",
        "root" if yes("read-only root") => "0:0",
        // The image's own.
        _ => "",
    };
    assert_eq!(all["Config"]["User"], user, "{container}");
    assert_eq!(host["CapDrop"], json!(["ALL"]), "{container}");
    let node = row["container"].starts_with("node");
    if !node {
        assert_eq!(sorted(strings(&host["CapAdd"])), words(&row["capabilities"]), "{container}");
    }
    assert_eq!(host["ReadonlyRootfs"], yes("read-only root"), "{container}");
    let options: Vec<_> = strings(&host["SecurityOpt"]).collect();
    let tight =
        options.contains(&"no-new-privileges") && !options.iter().any(|option| option.contains("unconfined"));
    assert_eq!(tight, yes("no new privileges"), "{container}: {options:?}");
    assert_eq!(mounts(&all), words(&row["mounts"]), "{container}");
    assert_ne!(host["Privileged"], true, "{container}");
    // No path of the host in any of them.
    assert!(strings(&host["Binds"]).next().is_none(), "{container}: {}", host["Binds"]);
    let binds = all["Mounts"].as_array().expect("a list").iter().find(|mount| mount["Type"] == "bind");
    assert_eq!(binds, None, "{container}");
    assert!(host["PidsLimit"].as_i64().is_some_and(|limit| limit > 0), "{container}");
    for limit in ["Memory", "NanoCpus"] {
        assert_eq!(host[limit].as_i64().is_some_and(|limit| limit > 0), !node, "{container}: {limit}");
    }
    let has_files = words(&row["mounts"]).iter().any(|mount| mount == "/etc/kubernetes") || node;
    let held = if has_files { private(container) } else { Vec::new() };
    assert_eq!(held, words(&row["keys and kubeconfigs"]), "{container}");
}

#[test]
fn each_container_may_do_and_holds_what_the_table_says() {
    let (shared, _calm) = calm();
    let rows = table("Containers");
    for container in containers(&shared.hoist.name) {
        let role = container.labels["dev.hoist.role"].as_str();
        let told = |row: &&Row| row["container"].split(' ').next() == Some(role);
        let row = rows.iter().find(told).unwrap_or_else(|| panic!("{role} is not in docs/security.md"));
        is_as_told(&container.name, row);
    }
    assert!(containers(&shared.hoist.name).len() > rows.len(), "every row was looked at");
}
