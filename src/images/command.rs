//! Runs the programs that building needs on this machine: `go`, `debootstrap`, `tar`.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::Command;

use super::error::ImageError;
use super::progress::Tail;

/// How often a silent program is reported to be still at work.
const HEARTBEAT: Duration = Duration::from_secs(10);

/// Runs a command to its end. Each line of its output goes to `on_line`, the last ones into the error;
/// `on_heartbeat` is called at intervals. The program is ended when the future is dropped.
pub(crate) async fn run(
    mut command: Command,
    purpose: &'static str,
    mut on_line: impl FnMut(&str) + Send,
    on_heartbeat: impl Fn() + Send,
) -> Result<(), ImageError> {
    let program = command.as_std().get_program().to_string_lossy().into_owned();
    let start_failed = |source| ImageError::Program { program: program.clone(), purpose, source };
    let (reader, writer) = std::io::pipe().map_err(start_failed)?;
    // Standard output and standard error into one pipe keep the order of the lines.
    let second_writer = writer.try_clone().map_err(start_failed)?;
    command.stdin(Stdio::null()).stdout(writer).stderr(second_writer).kill_on_drop(true);
    let mut child = command.spawn().map_err(start_failed)?;
    let description = describe(&command);
    // The parent's copies of the write end must go, or the output never ends.
    drop(command);

    let output = tokio::fs::File::from_std(std::fs::File::from(std::os::fd::OwnedFd::from(reader)));
    let mut lines = BufReader::new(output).lines();
    let mut tail = Tail::default();
    let mut heartbeat = tokio::time::interval(HEARTBEAT);
    heartbeat.tick().await;
    loop {
        tokio::select! {
            line = lines.next_line() => match line {
                Ok(Some(line)) => {
                    on_line(&line);
                    tail.push(&line);
                }
                // Output that can't be read is no reason to give up: the exit code decides.
                Ok(None) | Err(_) => break,
            },
            _ = heartbeat.tick() => on_heartbeat(),
        }
    }
    let status = child.wait().await.map_err(start_failed)?;
    if status.success() {
        return Ok(());
    }
    Err(ImageError::Command { command: description, status: status.to_string(), log: tail.text() })
}

/// The command as a person would type it, without what is long and says little.
fn describe(command: &Command) -> String {
    const ARGUMENTS: usize = 4;
    let command = command.as_std();
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(command.get_args().take(ARGUMENTS).map(|argument| argument.to_string_lossy().into_owned()));
    if command.get_args().len() > ARGUMENTS {
        words.push("…".to_owned());
    }
    words.join(" ")
}
