//! Commands in the virtual machines, through the script that a node's container makes for it: it
//! waits for SSH and logs in as the user of the cluster image, who may do anything by sudo.

use std::time::Duration;

use hoist_phases::phases::wait::{Poll, until};
use hoist_phases::ports::{Runtime as _, Status};

use super::Cluster;
use crate::error::BoxError;

/// The script in the node's container.
pub(super) const SSH: &str = "ssh.sh";

/// Time for a machine from power-on to its first login; an emulated one on a busy host takes
/// minutes.
const BOOT: Duration = Duration::from_secs(15 * 60);

/// Lines of a dead machine's console that its error shows.
const LOG_TAIL: u32 = 30;

#[derive(Debug, thiserror::Error)]
pub enum StepError {
    #[error("{node}: {step} failed with exit code {code}:\n{output}")]
    Step { node: String, step: String, code: i64, output: String },
    #[error("{node}: the machine is gone; the end of its console:\n{console}")]
    Gone { node: String, console: String },
}

/// Waits until commands can be run on a node.
///
/// # Errors
/// When its container ends, or the time is up.
pub(super) async fn boot(cluster: &Cluster, number: u32) -> Result<(), BoxError> {
    let (container, node) = (cluster.node(number), super::node_name(number));
    until(BOOT, || async {
        let state = cluster.engine.inspect(&container).await?;
        if !state.is_some_and(|state| state.status == Status::Running) {
            let console = cluster.engine.logs(&container, LOG_TAIL).await.unwrap_or_default();
            return Err(StepError::Gone { node: node.clone(), console }.into());
        }
        // The script is there before the file is.
        let ready = ["/bin/bash", "-c", "test -f /ssh_ready && ssh.sh true"];
        let output = cluster.engine.exec(&container, &ready, &[]).await?;
        Ok(match output.code {
            0 => Poll::Ready(()),
            code => Poll::Pending(format!("{node}: no login yet (exit code {code})")),
        })
    })
    .await
}

/// Runs a shell script on a node as root; gives what it wrote to stdout.
///
/// # Errors
/// When it ends with another exit code than 0.
pub(super) async fn script(
    cluster: &Cluster,
    number: u32,
    step: &str,
    script: &str,
) -> Result<String, BoxError> {
    let text = format!("set -eu\n{script}\n");
    let command = [SSH, "sudo", "bash", "-s"];
    feed(cluster, number, step, &command, text.as_bytes()).await
}

/// Runs a command on a node, feeding it `stdin`.
pub(super) async fn feed(
    cluster: &Cluster,
    number: u32,
    step: &str,
    command: &[&str],
    stdin: &[u8],
) -> Result<String, BoxError> {
    let output = cluster.engine.exec(&cluster.node(number), command, stdin).await?;
    if output.code == 0 {
        return Ok(output.stdout);
    }
    let text = format!("{}{}", output.stdout, output.stderr);
    Err(failed(number, step, output.code, &text).into())
}

/// The error of a step that ended with another exit code than 0.
pub(super) fn failed(number: u32, step: &str, code: i64, output: &str) -> StepError {
    let (node, step) = (super::node_name(number), step.to_owned());
    StepError::Step { node, step, code, output: tail(output) }
}

/// The last lines of a long output.
fn tail(text: &str) -> String {
    let lines: Vec<_> = text.trim().lines().collect();
    lines.get(lines.len().saturating_sub(40)..).unwrap_or_default().join("\n")
}

/// A word for a shell that takes it as it is. SSH joins its words with blanks and has a shell
/// take them apart again.
pub(super) fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_word_is_one_word() {
        assert_eq!(quote("/etc/a b"), "'/etc/a b'");
        assert_eq!(quote("it's"), r"'it'\''s'");
    }

    #[test]
    fn the_end_of_a_long_output_is_told() {
        let text: String = (0..100).map(|n| format!("{n}\n")).collect();
        assert!(tail(&text).starts_with("60\n") && tail(&text).ends_with("\n99"));
        assert_eq!(tail("a\n"), "a");
    }
}
