//! `ssh`: a command on a node, through the script that the node's container has for it.

use super::Cluster;
use crate::error::BoxError;

/// The command on the node failed; its exit code is the program's.
#[derive(Debug, thiserror::Error)]
#[error("the command ended with exit code {0}")]
pub struct SshError(pub i64);

pub(super) async fn run(cluster: &Cluster, node: &str, command: &[String]) -> Result<(), BoxError> {
    let words: Vec<&str> =
        [super::guest::SSH].into_iter().chain(command.iter().map(String::as_str)).collect();
    match cluster.engine.interact(&cluster.container(node), &words, true).await? {
        0 => Ok(()),
        code => Err(SshError(code).into()),
    }
}
