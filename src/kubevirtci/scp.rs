//! `scp`: a file of node01. The audit log is where the API server runs.

use std::path::Path;

use bollard::container::LogOutput;
use hoist_phases::ports::{Runtime as _, RuntimeError};
use hoist_phases::spec::{AuditSpec, Component};

use super::{Cluster, guest};
use crate::error::BoxError;
use crate::{files, report};

/// As other programs make files: everybody may read.
const MODE: u32 = 0o644;

/// Most bytes of an audit log: it is in memory here.
const LARGEST: u64 = 1 << 30;

#[derive(Debug, thiserror::Error)]
pub enum ScpError {
    #[error("{path} of node01 can't be read (exit code {code}): {output}")]
    Unreadable { path: String, code: i64, output: String },
}

pub(super) async fn run(cluster: &Cluster, source: &str, destination: &str) -> Result<(), BoxError> {
    let content = read(cluster, source).await?;
    if destination == "-" {
        return Ok(report::data(content)?);
    }
    Ok(files::write(Path::new(destination), &content, MODE)?)
}

async fn read(cluster: &Cluster, source: &str) -> Result<Vec<u8>, BoxError> {
    if source == AuditSpec::LOG {
        let server = cluster.container(Component::ApiServer.name());
        if cluster.engine.inspect(&server).await?.is_some() {
            let log = cluster.engine.read_file(&server, source, LARGEST).await?;
            let unreadable = || ScpError::Unreadable {
                path: source.to_owned(),
                code: 1,
                output: "no such file".to_owned(),
            };
            return Ok(log.ok_or_else(unreadable)?);
        }
    }
    let (mut content, mut errors) = (Vec::new(), Vec::new());
    let quoted = guest::quote(source);
    let command = [guest::SSH, "sudo", "cat", "--", &quoted];
    let code = cluster
        .engine
        .watch(&cluster.node(1), &command, |part| {
            match part {
                LogOutput::StdErr { message } => errors.extend_from_slice(&message),
                LogOutput::StdOut { message } | LogOutput::Console { message } => {
                    content.extend_from_slice(&message);
                }
                LogOutput::StdIn { .. } => {}
            }
            Ok::<_, RuntimeError>(())
        })
        .await?;
    if code != 0 {
        let output = String::from_utf8_lossy(&errors).trim().to_owned();
        return Err(ScpError::Unreadable { path: source.to_owned(), code, output }.into());
    }
    Ok(content)
}
