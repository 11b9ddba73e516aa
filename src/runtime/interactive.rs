//! A command in a container that a person talks to: the terminal of this process, or its plain
//! streams, are those of the command.

use std::io::IsTerminal as _;

use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::exec::{CreateExecOptions, ResizeExecOptions, StartExecOptions, StartExecResults};
use futures_util::TryStreamExt as _;
use hoist_phases::ports::RuntimeError;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::io::AsyncWriteExt as _;
use tokio::signal::unix::{SignalKind, signal};

use super::Engine;
use super::trouble::{Refused, refused};

const TALK: &str = "talk to a command in";

/// Puts the terminal into raw mode, so that each key goes to the command; back when dropped.
struct RawTerminal(Termios);

impl RawTerminal {
    fn begin() -> Option<Self> {
        let before = tcgetattr(std::io::stdin()).ok()?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(std::io::stdin(), OptionalActions::Now, &raw).ok()?;
        Some(Self(before))
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.0);
    }
}

impl Engine {
    /// Runs a command with this process's stdin, stdout and stderr; gives its exit code. It gets a
    /// terminal when `terminal` is asked for and this process has one.
    ///
    /// # Errors
    /// When the engine can't run it, or the connection breaks.
    pub async fn interact(&self, name: &str, command: &[&str], terminal: bool) -> Result<i64, RuntimeError> {
        let broken = |error: Error| self.failed(TALK, name, error);
        let tty = terminal && std::io::stdin().is_terminal() && std::io::stdout().is_terminal();
        let options = CreateExecOptions {
            attach_stdin: Some(true),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            tty: Some(tty),
            cmd: Some(command.to_vec()),
            ..CreateExecOptions::default()
        };
        let id = self.docker().create_exec(name, options).await.map_err(broken)?.id;
        let start = StartExecOptions { tty, ..StartExecOptions::default() };
        let started = self.docker().start_exec(&id, Some(start)).await.map_err(broken)?;
        let StartExecResults::Attached { mut output, mut input } = started else {
            return Err(refused(TALK, name, Refused::NoAnswer));
        };
        let _raw = tty.then(RawTerminal::begin);

        // Reading stdin can't be cancelled: it has a task of its own, which ends with the process.
        tokio::spawn(async move {
            let _ = tokio::io::copy(&mut tokio::io::stdin(), &mut input).await;
            let _ = input.shutdown().await;
        });
        let print = async {
            let (mut stdout, mut stderr) = (tokio::io::stdout(), tokio::io::stderr());
            while let Some(chunk) = output.try_next().await? {
                match chunk {
                    LogOutput::StdErr { message } => {
                        stderr.write_all(&message).await?;
                        stderr.flush().await?;
                    }
                    LogOutput::StdOut { message } | LogOutput::Console { message } => {
                        stdout.write_all(&message).await?;
                        stdout.flush().await?;
                    }
                    LogOutput::StdIn { .. } => {}
                }
            }
            Ok::<_, Error>(())
        };
        let printed = if tty {
            tokio::select! {
                printed = print => printed,
                () = self.follow_size(&id) => Ok(()),
            }
        } else {
            print.await
        };
        printed.map_err(broken)?;
        self.exit_code(name, &id).await
    }

    /// Keeps the command's terminal as large as this one; never ends.
    async fn follow_size(&self, id: &str) {
        let Ok(mut changes) = signal(SignalKind::window_change()) else {
            return std::future::pending().await;
        };
        loop {
            if let Ok(size) = tcgetwinsize(std::io::stdout()) {
                let size = ResizeExecOptions { height: size.ws_row, width: size.ws_col };
                // A terminal of the wrong size is a nuisance, not a failure.
                let _ = self.docker().resize_exec(id, size).await;
            }
            changes.recv().await;
        }
    }
}
