//! What containers use.

use bollard::models::{ContainerMemoryStats, ContainerStatsResponse};
use bollard::query_parameters::StatsOptionsBuilder;
use futures_util::StreamExt;
use hoist_phases::ports::RuntimeError;

use super::Engine;
use super::trouble::{Refused, refused};

/// One container at one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Memory in bytes, without file pages that can be dropped (as `docker stats` counts).
    pub memory_bytes: u64,
    /// Memory in bytes that no file is behind.
    pub rss_bytes: u64,
    /// The most it ever held, file pages included, in bytes; cgroup v2 doesn't tell the engine.
    pub peak_bytes: Option<u64>,
    /// The limit in bytes; that of the host when the container has none.
    pub memory_limit_bytes: u64,
    /// Processor time since the start, in nanoseconds.
    pub cpu_nanos: u64,
    pub pids: u64,
}

impl Engine {
    /// What a running container uses now.
    ///
    /// # Errors
    /// When there is no such container, it doesn't run, or the engine can't tell.
    pub async fn stats(&self, name: &str) -> Result<Stats, RuntimeError> {
        let options = StatsOptionsBuilder::new().stream(false).one_shot(true).build();
        let mut answers = std::pin::pin!(self.docker.stats(name, Some(options)));
        match answers.next().await {
            Some(Ok(answer)) => match Stats::from(answer) {
                // All of them nought: the engine could not read the container's control groups.
                Stats { memory_bytes: 0, cpu_nanos: 0, .. } => {
                    Err(refused("read the use of", name, Refused::NoFigures))
                }
                stats => Ok(stats),
            },
            Some(Err(error)) => Err(self.failed("read the use of", name, error)),
            None => Err(refused("read the use of", name, Refused::NoAnswer)),
        }
    }
}

impl From<ContainerStatsResponse> for Stats {
    fn from(answer: ContainerStatsResponse) -> Self {
        let memory = answer.memory_stats.unwrap_or_default();
        let cpu = answer.cpu_stats.and_then(|cpu| cpu.cpu_usage).and_then(|usage| usage.total_usage);
        Self {
            memory_bytes: held(&memory),
            rss_bytes: stat(&memory, ["total_rss", "anon"]),
            peak_bytes: memory.max_usage.filter(|peak| *peak > 0),
            memory_limit_bytes: memory.limit.unwrap_or_default(),
            cpu_nanos: cpu.unwrap_or_default(),
            pids: answer.pids_stats.and_then(|pids| pids.current).unwrap_or_default(),
        }
    }
}

fn held(memory: &ContainerMemoryStats) -> u64 {
    let droppable = stat(memory, ["total_inactive_file", "inactive_file"]);
    memory.usage.unwrap_or_default().saturating_sub(droppable)
}

/// One figure by the name it has in cgroup v1, or else in v2.
fn stat(memory: &ContainerMemoryStats, names: [&str; 2]) -> u64 {
    let found = memory.stats.as_ref().and_then(|stats| names.into_iter().find_map(|name| stats.get(name)));
    found.copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn droppable_pages_do_not_count() {
        for name in ["total_inactive_file", "inactive_file"] {
            let memory = ContainerMemoryStats {
                usage: Some(100),
                stats: Some([(name.to_owned(), 30)].into()),
                ..ContainerMemoryStats::default()
            };
            assert_eq!(held(&memory), 70);
        }
        assert_eq!(held(&ContainerMemoryStats::default()), 0);
    }
}
