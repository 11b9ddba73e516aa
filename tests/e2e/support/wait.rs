//! Waiting for a condition, never for a time.

use std::time::{Duration, Instant};

/// Between two looks.
const INTERVAL: Duration = Duration::from_millis(40);

/// Looks until `look` gives a value; panics at the deadline with what was seen last.
pub(crate) fn until<T>(what: &str, deadline: Duration, mut look: impl FnMut() -> Result<T, String>) -> T {
    let begin = Instant::now();
    loop {
        match look() {
            Ok(value) => return value,
            Err(last) if begin.elapsed() >= deadline => {
                panic!("{what}: not within {} s; last seen: {last}", deadline.as_secs());
            }
            Err(_) => std::thread::sleep(INTERVAL),
        }
    }
}
