//! What containers wrote.

use bollard::container::LogOutput;
use bollard::query_parameters::LogsOptionsBuilder;
use futures_util::{StreamExt, TryStreamExt};
use hoist_phases::ports::RuntimeError;

use super::Engine;

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
        let lines = self.log_lines(name, Some(tail), false);
        lines.try_fold(String::new(), |text, line| async move { Ok(text + &line.text) }).await
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
            Err(error) => Err(self.failed("read the logs of", &name, error)),
        })
    }
}
