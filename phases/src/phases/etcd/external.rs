//! Somebody else's etcd: its keys for the API server, and the question whether it answers.

use super::tool::{Tool, ToolError};
use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::phases::{Context, PhaseId};
use crate::pki::CONTAINER_PKI_DIR;
use crate::ports::FileEntry;
use crate::spec::{ClusterSpec, ExternalEtcd};

/// Time for each endpoint to answer.
const ANSWER: &str = "--command-timeout=5s";

#[derive(Debug, thiserror::Error)]
enum ExternalError {
    #[error(
        "etcd.external.endpoints {endpoints}: none can be used from the control plane's network namespace"
    )]
    None {
        endpoints: String,
        #[source]
        source: ToolError,
    },
}

/// Where the API server looks for an etcd's keys, in the place of hoist's own.
pub(in crate::phases) fn files(spec: &ClusterSpec) -> Vec<FileEntry> {
    let Some(external) = spec.etcd.backend.external() else { return Vec::new() };
    let file = |name: &str, mode, content: &str| FileEntry {
        path: format!("{CONTAINER_PKI_DIR}/{name}"),
        mode,
        content: content.as_bytes().to_vec(),
    };
    vec![
        file("etcd/ca.crt", 0o644, &external.ca),
        file("apiserver-etcd-client.crt", 0o644, &external.cert),
        file("apiserver-etcd-client.key", 0o600, external.key.expose()),
    ]
}

/// Asks each endpoint from where the API server dials it, with its keys: it would tell hours of
/// retries, not which server's certificate is signed by whom.
pub(super) async fn check(cx: &Context, external: &ExternalEtcd) -> Result<Outcome, PhaseError> {
    let keys = [&external.ca, &external.cert, external.key.expose()].map(str::as_bytes);
    let servers = external.endpoints.join(",");
    let tool = Tool::client(&cx.spec, &servers, keys, &[ANSWER, "endpoint", "health"]);
    match tool.run_and_remove(&cx.spec, &cx.ports.runtime).await {
        Ok(_) => Ok(Outcome::Unchanged),
        Err(source @ ToolError::Failed { .. }) => {
            let ToolError::Failed { output, .. } = &source else { return Err(source.into()) };
            let (healthy, ill) = told(output);
            if healthy == 0 {
                return Err(ExternalError::None { endpoints: servers, source }.into());
            }
            for line in &ill {
                cx.events.step(PhaseId::Etcd, line.clone());
            }
            Ok(Outcome::Warned(format!(
                "{} of {} endpoints can't be used: {}",
                ill.len(),
                external.endpoints.len(),
                ill.join("; ")
            )))
        }
        Err(error) => Err(error.into()),
    }
}

/// How many endpoints are healthy, and what is said of the others.
fn told(output: &str) -> (usize, Vec<String>) {
    let healthy = output.lines().filter(|line| line.contains(" is healthy")).count();
    let ill = output.lines().filter(|line| line.contains(" is unhealthy"));
    (healthy, ill.map(str::to_owned).collect())
}

#[cfg(test)]
pub(in crate::phases) fn testing() -> ExternalEtcd {
    ExternalEtcd {
        endpoints: ["https://a.test:2379", "https://b.test:2379"].map(str::to_owned).to_vec(),
        prefix: "/registry/sample".to_owned(),
        ca: "CA".to_owned(),
        cert: "CERT".to_owned(),
        key: crate::spec::Secret::new("KEY"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_told_apart() {
        let output = "https://a:2379 is healthy: successfully committed proposal: took = 2ms\n\
                      {\"level\":\"warn\"}\nhttps://b:2379 is unhealthy: failed to commit proposal: context deadline exceeded\n\
                      Error: unhealthy cluster\n";
        let (healthy, ill) = told(output);
        assert_eq!((healthy, ill.len()), (1, 1));
        assert!(ill[0].starts_with("https://b:2379 is unhealthy"));
    }
}
