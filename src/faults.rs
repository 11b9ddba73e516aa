//! Ends the program by SIGKILL where a test says so, as a crash or the kernel would: in builds with the
//! feature `faults` alone, which no release has.

use std::sync::atomic::{AtomicU32, Ordering};

use hoist_phases::events::Event;
use rustix::process::{Signal, getpid, kill_process};

use crate::env;

static CALLS: AtomicU32 = AtomicU32::new(0);

/// Ends the program if this event is the place that [`env::HOIST_FAULT`] names. Whatever runs beside is
/// in the middle of something then.
pub(crate) fn at(event: &Event) {
    let place = match event {
        Event::Started { phase, .. } => format!("started:{phase}"),
        Event::Finished { phase, .. } => format!("finished:{phase}"),
        Event::Call { .. } => format!("call:{}", CALLS.fetch_add(1, Ordering::Relaxed) + 1),
        _ => return,
    };
    if env::value(env::HOIST_FAULT).as_deref() == Some(&place) {
        let _ = kill_process(getpid(), Signal::KILL);
    }
}
