//! What a cluster takes of its host: processor time and memory of each container, as the engine
//! counts them by control groups.

use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use hoist_phases::ports::{ContainerState, Runtime as _, RuntimeError, Status as Run, label};
use serde::Serialize;

use crate::runtime::{Engine, Stats};

/// Between two looks at the memory. Short peaks are missed, which is why those that the kernel kept
/// are told where it does.
const INTERVAL: Duration = Duration::from_millis(500);

/// All containers of a cluster, watched for a while.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub cluster: String,
    pub watched_ms: u64,
    pub components: Vec<Row>,
    pub nodes: Vec<Row>,
    /// Sum of the components.
    pub control_plane: Row,
}

/// One container, or several together.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Row {
    pub name: String,
    /// Thousandths of a processor, on average.
    pub cpu_millis: u64,
    /// The most while it was watched, in bytes: what no file is behind.
    pub rss_bytes: u64,
    /// The most while it was watched, in bytes: what can't be dropped (as `docker stats` counts).
    pub working_set_bytes: u64,
    /// The most since its start, file pages included, where the kernel keeps it (cgroup v1).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub peak_bytes: Option<u64>,
}

/// Watches for as long as is said; at least two looks.
///
/// # Errors
/// When the engine can't tell, or a container ends meanwhile.
pub async fn watch(engine: &Engine, cluster: &str, duration: Duration) -> Result<Usage, RuntimeError> {
    let all = engine.list(Some(cluster)).await?;
    let running: Vec<_> = all.into_iter().filter(|container| container.status == Run::Running).collect();
    let begin = Instant::now();
    let rows = try_join_all(running.iter().map(|container| row(engine, container, duration))).await?;
    let watched = begin.elapsed();
    let is_node = |container: &ContainerState| container.labels.contains_key(label::NODE);
    let (mut components, mut nodes) = (Vec::new(), Vec::new());
    for (container, row) in running.iter().zip(rows) {
        if is_node(container) { nodes.push(row) } else { components.push(row) }
    }
    for rows in [&mut components, &mut nodes] {
        rows.sort_by(|one, other| one.name.cmp(&other.name));
    }
    Ok(Usage {
        cluster: cluster.to_owned(),
        watched_ms: hoist_phases::events::millis(watched),
        control_plane: sum("control plane", &components),
        components,
        nodes,
    })
}

async fn row(engine: &Engine, container: &ContainerState, duration: Duration) -> Result<Row, RuntimeError> {
    let begin = Instant::now();
    let first = engine.stats(&container.name).await?;
    let (mut most, mut last) = (first, first);
    let mut at = begin.elapsed();
    while at < duration || last == first && at < INTERVAL {
        tokio::time::sleep(INTERVAL.min(duration.saturating_sub(at).max(Duration::from_millis(50)))).await;
        last = engine.stats(&container.name).await?;
        at = begin.elapsed();
        most.rss_bytes = most.rss_bytes.max(last.rss_bytes);
        most.memory_bytes = most.memory_bytes.max(last.memory_bytes);
        most.peak_bytes = most.peak_bytes.max(last.peak_bytes);
    }
    let role = [label::NODE, label::ROLE].into_iter().find_map(|key| container.labels.get(key));
    Ok(Row {
        name: role.unwrap_or(&container.name).clone(),
        cpu_millis: cpu_millis(&first, &last, at),
        rss_bytes: most.rss_bytes,
        working_set_bytes: most.memory_bytes,
        peak_bytes: most.peak_bytes,
    })
}

fn cpu_millis(first: &Stats, last: &Stats, elapsed: Duration) -> u64 {
    let used = u128::from(last.cpu_nanos.saturating_sub(first.cpu_nanos));
    u64::try_from(used * 1000 / elapsed.as_nanos().max(1)).unwrap_or(u64::MAX)
}

/// Peaks of different moments make no peak: those of a sum are unknown.
fn sum(name: &str, rows: &[Row]) -> Row {
    let total = |value: fn(&Row) -> u64| rows.iter().map(value).sum();
    Row {
        name: name.to_owned(),
        cpu_millis: total(|row| row.cpu_millis),
        rss_bytes: total(|row| row.rss_bytes),
        working_set_bytes: total(|row| row.working_set_bytes),
        peak_bytes: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processor_time_is_told_per_second() {
        let stats = |cpu_nanos| Stats { cpu_nanos, ..Stats::default() };
        let elapsed = Duration::from_secs(10);
        assert_eq!(cpu_millis(&stats(1_000_000_000), &stats(6_000_000_000), elapsed), 500);
        // A container that was started anew counts from nothing.
        assert_eq!(cpu_millis(&stats(6_000_000_000), &stats(0), elapsed), 0);
    }

    #[test]
    fn a_sum_has_no_peak() {
        let row = |cpu_millis, bytes| Row {
            name: String::new(),
            cpu_millis,
            rss_bytes: bytes,
            working_set_bytes: 2 * bytes,
            peak_bytes: Some(bytes),
        };
        let sum = sum("all", &[row(1, 10), row(2, 20)]);
        assert_eq!((sum.cpu_millis, sum.rss_bytes, sum.working_set_bytes, sum.peak_bytes), (3, 30, 60, None));
    }
}
