//! Commands in running containers.

use std::io::{self, ErrorKind};
use std::pin::{Pin, pin};
use std::time::Duration;

use bollard::container::LogOutput;
use bollard::errors::Error;
use bollard::exec::{CreateExecOptions, StartExecResults};
use futures_util::future::{Either, join_all, select, try_join_all};
use futures_util::{Stream, TryStreamExt};
use hoist_phases::ports::{ExecOutput, RuntimeError};
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::time::Instant;

use super::Engine;
use super::trouble::{Refused, io_kind, refused};

const EXEC: &str = "run a command in";

/// How long a command may run on after it has closed both its streams.
const ENDS_WITHIN: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(25);

/// Most bytes of one stream that are kept: a log of a node is the largest that is asked for.
const MOST: usize = 256 << 20;

/// What a command writes, in the order that it does.
type Output = Pin<Box<dyn Stream<Item = Result<LogOutput, Error>> + Send>>;

/// A command that has been started.
struct Running {
    id: String,
    output: Output,
    input: Pin<Box<dyn AsyncWrite + Send>>,
}

impl Engine {
    pub(super) async fn run_in(
        &self,
        name: &str,
        command: &[&str],
        stdin: &[u8],
    ) -> Result<ExecOutput, RuntimeError> {
        let running = self.start_command(name, command, !stdin.is_empty()).await?;
        let Running { id, output, mut input } = running;
        let feed = async {
            // A command that ends without reading its input closes the pipe: its exit code tells.
            if !stdin.is_empty() && input.write_all(stdin).await.is_ok() {
                let _ = input.flush().await;
            }
            let _ = input.shutdown().await;
            Ok(())
        };
        let collected = talk(feed, collect(output)).await.and_then(|collected| collected);
        self.outcome(name, &id, collected).await
    }

    /// Runs commands in several containers, each fed with the same stream, which is read once and
    /// as slowly as the slowest of them.
    ///
    /// # Errors
    /// When a container can't run commands, or the stream breaks. What a command itself did is in
    /// its [`ExecOutput`].
    pub async fn feed_all<B: AsRef<[u8]>>(
        &self,
        commands: &[(String, Vec<&str>)],
        mut stream: impl Stream<Item = Result<B, Error>> + Unpin,
    ) -> Result<Vec<ExecOutput>, RuntimeError> {
        let started = commands.iter().map(|(name, command)| self.start_command(name, command, true));
        let running = try_join_all(started).await?;
        let (mut inputs, outputs): (Vec<_>, Vec<_>) =
            running.into_iter().map(|r| (r.input, (r.id, r.output))).unzip();
        let feed = async {
            while let Some(chunk) = stream.try_next().await? {
                join_all(inputs.iter_mut().map(|input| input.write_all(chunk.as_ref()))).await;
            }
            join_all(inputs.iter_mut().map(AsyncWriteExt::shutdown)).await;
            Ok::<_, Error>(())
        };
        let (ids, outputs): (Vec<_>, Vec<_>) = outputs.into_iter().unzip();
        let collected = talk(feed, join_all(outputs.into_iter().map(collect))).await;
        let names = || commands.iter().map(|(name, _)| name.as_str());
        let all = || names().collect::<Vec<_>>().join(", ");
        let collected =
            collected.map_err(|error| self.failed("read the input of a command in", &all(), error))?;
        let ended = names().zip(&ids).zip(collected);
        try_join_all(ended.map(|((name, id), collected)| self.outcome(name, id, collected))).await
    }

    pub(super) async fn feed_archive(
        &self,
        name: &str,
        command: &[&str],
        image: &str,
    ) -> Result<ExecOutput, RuntimeError> {
        let commands = [(name.to_owned(), command.to_vec())];
        let archive = Box::pin(self.docker.export_image(image));
        let output = self.feed_all(&commands, archive).await?.pop();
        output.ok_or_else(|| refused(EXEC, name, Refused::NoAnswer))
    }

    /// Runs a command and hands over what it writes when it writes it; gives its exit code.
    ///
    /// # Errors
    /// When the engine can't run it, or the connection breaks; the first one of `each`.
    pub async fn watch<E: From<RuntimeError>>(
        &self,
        name: &str,
        command: &[&str],
        mut each: impl FnMut(LogOutput) -> Result<(), E>,
    ) -> Result<i64, E> {
        let Running { id, mut output, input: _input } = self.start_command(name, command, false).await?;
        while let Some(part) = output.try_next().await.map_err(|error| self.failed(EXEC, name, error))? {
            each(part)?;
        }
        Ok(self.exit_code(name, &id).await?)
    }

    async fn start_command(
        &self,
        name: &str,
        command: &[&str],
        stdin: bool,
    ) -> Result<Running, RuntimeError> {
        let broken = |error: Error| self.failed(EXEC, name, error);
        let options = CreateExecOptions {
            attach_stdin: Some(stdin),
            attach_stdout: Some(true),
            attach_stderr: Some(true),
            cmd: Some(command.to_vec()),
            ..CreateExecOptions::default()
        };
        let id = self.docker.create_exec(name, options).await.map_err(broken)?.id;
        match self.docker.start_exec(&id, None).await.map_err(broken)? {
            StartExecResults::Attached { output, input } => Ok(Running { id, output, input }),
            StartExecResults::Detached => Err(refused(EXEC, name, Refused::NoAnswer)),
        }
    }

    async fn outcome(
        &self,
        name: &str,
        id: &str,
        collected: Result<(Vec<u8>, Vec<u8>), Error>,
    ) -> Result<ExecOutput, RuntimeError> {
        let broken = |error: Error| self.failed(EXEC, name, error);
        let (stdout, stderr) = collected.map_err(broken)?;
        let code = self.exit_code(name, id).await?;
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok(ExecOutput { code, stdout: text(stdout), stderr: text(stderr) })
    }

    /// The streams may end a moment before the engine knows of the end.
    pub(super) async fn exit_code(&self, name: &str, id: &str) -> Result<i64, RuntimeError> {
        let deadline = Instant::now() + ENDS_WITHIN;
        loop {
            let seen = self.docker.inspect_exec(id).await.map_err(|e| self.failed(EXEC, name, e))?;
            match seen.exit_code {
                Some(code) if seen.running != Some(true) => return Ok(code),
                last if Instant::now() >= deadline => {
                    let last = format!("running: {:?}, exit code: {last:?}", seen.running);
                    let why = Refused::Deadline { seconds: ENDS_WITHIN.as_secs(), last };
                    return Err(refused(EXEC, name, why));
                }
                _ => tokio::time::sleep(POLL).await,
            }
        }
    }
}

/// Feeds a command and listens to it at once: one that writes while it reads would otherwise block.
/// The end of what it says is its end, whether or not it has read all: an engine may go on taking
/// input for minutes that nobody reads.
async fn talk<T>(
    feed: impl Future<Output = Result<(), Error>>,
    listen: impl Future<Output = T>,
) -> Result<T, Error> {
    match select(pin!(feed), pin!(listen)).await {
        Either::Left((fed, listen)) => {
            fed?;
            Ok(listen.await)
        }
        Either::Right((heard, _)) => Ok(heard),
    }
}

/// Both streams of a command until it ends.
pub(super) async fn collect(mut output: Output) -> Result<(Vec<u8>, Vec<u8>), Error> {
    let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
    loop {
        let chunk = match output.try_next().await {
            Ok(Some(chunk)) => chunk,
            Ok(None) => break,
            // Podman hangs up when a command ends before it has read its input.
            Err(error) if io_kind(&error) == Some(ErrorKind::ConnectionReset) => break,
            Err(error) => return Err(error),
        };
        match chunk {
            LogOutput::StdErr { message } => stderr.extend_from_slice(&message),
            LogOutput::StdOut { message } | LogOutput::Console { message } => {
                stdout.extend_from_slice(&message);
            }
            LogOutput::StdIn { .. } => {}
        }
        if stdout.len().max(stderr.len()) > MOST {
            return Err(io::Error::other(Refused::TooLarge(MOST as u64)).into());
        }
    }
    Ok((stdout, stderr))
}
