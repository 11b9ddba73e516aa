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
    /// When there is no such container.
    pub async fn stats(&self, name: &str) -> Result<Stats, RuntimeError> {
        let options = StatsOptionsBuilder::new().stream(false).one_shot(true).build();
        let mut answers = std::pin::pin!(self.docker.stats(name, Some(options)));
        match answers.next().await {
            Some(Ok(answer)) => Ok(Stats::from(answer)),
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
            memory_limit_bytes: memory.limit.unwrap_or_default(),
            cpu_nanos: cpu.unwrap_or_default(),
            pids: answer.pids_stats.and_then(|pids| pids.current).unwrap_or_default(),
        }
    }
}

/// cgroup v1 and v2 name the droppable pages differently.
fn held(memory: &ContainerMemoryStats) -> u64 {
    let droppable = memory.stats.as_ref().and_then(|stats| {
        ["total_inactive_file", "inactive_file"].into_iter().find_map(|name| stats.get(name)).copied()
    });
    memory.usage.unwrap_or_default().saturating_sub(droppable.unwrap_or_default())
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
