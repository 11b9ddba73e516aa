//! The program on a terminal, which script(1) makes.

use std::io::{Read as _, Write as _};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use super::hoist::Hoist;
use super::until;

/// A run of the program that takes itself for one of a person.
pub(crate) struct Terminal {
    child: Child,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    pub(crate) fn run(hoist: &Hoist, args: &[&str]) -> Self {
        let inner = hoist.command(args);
        let words = std::iter::once(inner.get_program()).chain(inner.get_args());
        let line: Vec<_> = words.map(|word| format!("'{}'", word.display())).collect();
        let mut command = Command::new("script");
        command.args(["--quiet", "--flush", "--return", "--command", &line.join(" "), "/dev/null"]);
        for (name, value) in inner.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("script(1) can be started");
        let seen = Arc::<Mutex<Vec<u8>>>::default();
        let (mut output, into) = (child.stdout.take().expect("a pipe"), Arc::clone(&seen));
        std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut chunk) {
                into.lock().unwrap_or_else(PoisonError::into_inner).extend(&chunk[..read]);
            }
        });
        Self { child, seen }
    }

    /// What has been shown so far.
    pub(crate) fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    pub(crate) fn type_in(&mut self, keys: &str) {
        let stdin = self.child.stdin.as_mut().expect("a pipe");
        stdin.write_all(keys.as_bytes()).and_then(|()| stdin.flush()).expect("it reads");
    }

    /// Waits for its end; gives the exit code.
    pub(crate) fn end(mut self, deadline: Duration) -> Option<i32> {
        let child = &mut self.child;
        let ended = until("the program ends", deadline, || {
            child.try_wait().expect("the child can be asked").ok_or_else(|| "it runs".to_owned())
        });
        ended.code()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
