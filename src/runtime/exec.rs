//! Commands in running containers.

use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::exec::{CreateExecOptions, StartExecResults};
use futures_util::StreamExt;
use hoist_phases::ports::{ExecOutput, RuntimeError};
use tokio::io::AsyncWriteExt;

use super::Engine;
use super::trouble::{Refused, refused};

const EXEC: &str = "run a command in";

impl Engine {
    pub(super) async fn run_in(
        &self,
        name: &str,
        command: &[&str],
        stdin: &[u8],
    ) -> Result<ExecOutput, RuntimeError> {
        let broken = |error: Error| self.failed(EXEC, name, error);
        let options = CreateExecOptions {
            attach_stdin: Some(!stdin.is_empty()),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            cmd: Some(command.to_vec()),
            ..CreateExecOptions::default()
        };
        let id = self.docker.create_exec(name, options).await.map_err(broken)?.id;
        let started = self.docker.start_exec(&id, None).await.map_err(broken)?;
        let StartExecResults::Attached { mut output, mut input } = started else {
            return Err(refused(EXEC, name, Refused::NoAnswer));
        };

        // Both directions at once: a command that writes while it reads would otherwise block.
        let feed = async {
            // A command that ends without reading its input closes the pipe: its exit code tells.
            if !stdin.is_empty() && input.write_all(stdin).await.is_ok() {
                let _ = input.flush().await;
            }
            let _ = input.shutdown().await;
        };
        let drain = async {
            let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
            while let Some(chunk) = output.next().await {
                match chunk? {
                    LogOutput::StdErr { message } => stderr.extend_from_slice(&message),
                    LogOutput::StdOut { message } | LogOutput::Console { message } => {
                        stdout.extend_from_slice(&message);
                    }
                    LogOutput::StdIn { .. } => {}
                }
            }
            Ok((stdout, stderr))
        };
        let ((), drained) = tokio::join!(feed, drain);
        let (stdout, stderr) = drained.map_err(broken)?;

        let ended = self.docker.inspect_exec(&id).await.map_err(broken)?;
        let code = ended.exit_code.ok_or_else(|| refused(EXEC, name, Refused::NoAnswer))?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(ExecOutput { code, stdout: text(stdout), stderr: text(stderr) })
    }
}
