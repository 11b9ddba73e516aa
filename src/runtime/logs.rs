//! What containers wrote.

use bollard::container::LogOutput;
use bollard::query_parameters::LogsOptionsBuilder;
use futures_util::{StreamExt, TryStreamExt};
use hoist_phases::ports::RuntimeError;

use super::Engine;
use super::trouble::{Refused, refused};

const READ: &str = "read the logs of";

/// Most bytes of the last lines of a container.
const MOST: usize = 64 << 20;

/// Which of its two streams a container wrote to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Stdout,
    Stderr,
}

/// A line, or what fits of it, with its line feed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    pub stream: Stream,
    pub text: String,
}

impl From<LogOutput> for LogLine {
    fn from(output: LogOutput) -> Self {
        let stream = match output {
            LogOutput::StdErr { .. } => Stream::Stderr,
            LogOutput::StdOut { .. } | LogOutput::StdIn { .. } | LogOutput::Console { .. } => Stream::Stdout,
        };
        Self { stream, text: String::from_utf8_lossy(output.as_ref()).into_owned() }
    }
}

impl Engine {
    pub(super) async fn last_logs(&self, name: &str, tail: u32) -> Result<String, RuntimeError> {
        let mut lines = std::pin::pin!(self.log_lines(name, Some(tail), false));
        let mut text = String::new();
        while let Some(line) = lines.try_next().await? {
            text += &line.text;
            // A line may be of any length.
            if text.len() > MOST {
                return Err(refused(READ, name, Refused::TooLarge(MOST as u64)));
            }
        }
        Ok(text)
    }

    /// The last `tail` lines of a container (all of them when `None`), then, with `follow`, each
    /// further one as it is written, until the container ends.
    pub fn log_lines(
        &self,
        name: &str,
        tail: Option<u32>,
        follow: bool,
    ) -> impl futures_util::Stream<Item = Result<LogLine, RuntimeError>> + Send {
        let tail = tail.map_or_else(|| "all".to_owned(), |lines| lines.to_string());
        let options = LogsOptionsBuilder::new().stdout(true).stderr(true).follow(follow).tail(&tail).build();
        let lines = self.docker.logs(name, Some(options));
        let name = name.to_owned();
        lines.map(move |line| match line {
            Ok(output) => Ok(LogLine::from(output)),
            Err(error) => Err(self.failed(READ, &name, error)),
        })
    }
}
