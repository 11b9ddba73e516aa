//! What the engine, containers and machines tell.

use hoist_phases::causes;
use hoist_phases::phases::machines;
use hoist_phases::phases::network::attach;
use hoist_phases::ports::{ContainerState, Runtime as _, label};
use serde_json::Value;

use super::super::doctor::Known;
use super::redact::REDACTED;
use super::{Content, Piece, Sources, file_name};
use crate::runtime::Engine;

/// Lines of a log, of each container: the engine rotates them at 32 MB.
const LINES: u32 = 200_000;

/// What tells about a network namespace, by the name of its file.
const NETWORK: [(&str, &[&str]); 9] = [
    ("addresses", &["ip", "address", "show"]),
    ("bridge", &["bridge", "link", "show"]),
    ("leases", &["cat", "/run/dnsmasq.leases"]),
    ("neighbours", &["ip", "neighbour", "show"]),
    ("packet-filter", &["nft", "list", "ruleset"]),
    ("routes", &["ip", "route", "show", "table", "all"]),
    ("routes-ipv6", &["ip", "-6", "route", "show", "table", "all"]),
    ("rules", &["ip", "rule", "show"]),
    ("sockets", &["ss", "-lntup"]),
];

/// The same of a node.
const NODE: [(&str, &[&str]); 5] = [
    ("journal", &["journalctl", "--no-pager", "--output=short-iso-precise"]),
    ("containers", &["crictl", "ps", "--all"]),
    ("images", &["crictl", "images"]),
    ("addresses", &["ip", "address", "show"]),
    ("routes", &["ip", "route", "show", "table", "all"]),
];

pub(super) fn pieces<'a>(sources: &'a Sources<'_>, containers: &'a [ContainerState]) -> Vec<Piece<'a>> {
    let Ok(engine) = sources.engine.as_deref() else { return Vec::new() };
    let mut pieces = vec![Piece::new("engine.json", about(engine))];
    for container in containers {
        let name = file_name(&container.name);
        pieces.push(Piece::new(format!("containers/{name}.json"), inspect(engine, container)));
        pieces.push(Piece::new(format!("containers/{name}.log"), async {
            let log = engine.logs(&container.name, LINES).await;
            log.map(Content::Text).map_err(|error| causes(&error))
        }));
        let Some(node) = container.labels.get(label::NODE) else { continue };
        let kind = container.labels.get(label::KIND).map_or("", String::as_str);
        for (file, command) in NODE {
            let command = machines::on_kind(kind, command);
            let path = format!("nodes/{}/{file}.txt", file_name(node));
            pieces.push(Piece::new(path, run(engine, &container.name, command)));
        }
    }
    if let Ok(spec) = &sources.spec {
        for (file, command) in NETWORK {
            let content = async move { run(engine, &attach::tools_name(spec), command.to_vec()).await };
            pieces.push(Piece::new(format!("network/{file}.txt"), content));
        }
    }
    pieces
}

async fn run(engine: &Engine, container: &str, command: Vec<&str>) -> Known<Content> {
    let output = engine.exec(container, &command, &[]).await.map_err(|error| causes(&error))?;
    match output.code {
        0 => Ok(Content::Text(output.stdout)),
        code => Err(format!("{} ended with code {code}: {}", command.join(" "), output.stderr.trim())),
    }
}

async fn about(engine: &Engine) -> Known<Content> {
    let (info, version) = tokio::try_join!(engine.docker().info(), engine.docker().version())
        .map_err(|error| causes(&error))?;
    let mut info = serde_json::to_value(info).unwrap_or_default();
    // They may have passwords in them.
    for proxy in ["HttpProxy", "HttpsProxy"] {
        if info[proxy].as_str().is_some_and(|text| !text.is_empty()) {
            info[proxy] = REDACTED.into();
        }
    }
    Ok(Content::Json(serde_json::json!({ "info": info, "version": version })))
}

/// Without the values of its environment.
async fn inspect(engine: &Engine, container: &ContainerState) -> Known<Content> {
    let found = engine.docker().inspect_container(&container.name, None).await;
    let mut found = serde_json::to_value(found.map_err(|error| causes(&error))?).unwrap_or_default();
    for variable in found["Config"]["Env"].as_array_mut().into_iter().flatten() {
        let name = variable.as_str().and_then(|text| text.split('=').next()).unwrap_or_default();
        *variable = Value::String(format!("{name}={REDACTED}"));
    }
    Ok(Content::Json(found))
}
