//! The engine behind a TCP socket: nothing may be done on the host beside it, and what is left
//! after `down` is nothing.

use std::collections::BTreeSet;
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use hoist::runtime::Endpoint;

use crate::containment::secrets;
use crate::support::{Hoist, Traces, engine, things};

/// A TCP port of loopback before the engine's Unix socket, for as long as the process lives.
fn forward(socket: std::path::PathBuf, served: Arc<AtomicUsize>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    std::thread::spawn(move || {
        for client in listener.incoming().filter_map(Result::ok) {
            served.fetch_add(1, Ordering::Relaxed);
            let engine = UnixStream::connect(&socket).expect("the engine's socket");
            let (from_client, from_engine) =
                (client.try_clone().expect("a socket"), engine.try_clone().expect("a socket"));
            std::thread::spawn(move || {
                let (mut from, mut to) = (from_client, engine);
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Write);
            });
            std::thread::spawn(move || answer(from_engine, client));
        }
    });
    port
}

fn answer(mut engine: UnixStream, mut client: TcpStream) {
    let _ = std::io::copy(&mut engine, &mut client);
    let _ = client.shutdown(std::net::Shutdown::Write);
}

/// Everything that stood in an argv while `running`.
fn watch_argv(running: Arc<AtomicBool>) -> std::thread::JoinHandle<BTreeSet<Vec<u8>>> {
    std::thread::spawn(move || {
        let mut seen = BTreeSet::new();
        while running.load(Ordering::Relaxed) {
            for entry in std::fs::read_dir("/proc").expect("/proc").filter_map(Result::ok) {
                seen.extend(std::fs::read(entry.path().join("cmdline")).ok());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        seen
    })
}

#[test]
fn an_engine_behind_tcp_is_enough_and_down_leaves_nothing() {
    let Endpoint::Unix(socket) = engine().endpoint() else {
        panic!("the engine is at {}, not at a Unix socket of this host", engine().endpoint());
    };
    let served = Arc::new(AtomicUsize::new(0));
    let port = forward(socket.clone(), Arc::clone(&served));
    // Without any program of the host: nothing on PATH.
    let hoist = Hoist::new("tcp").env("DOCKER_HOST", format!("tcp://127.0.0.1:{port}")).env("PATH", "");
    let running = Arc::new(AtomicBool::new(true));
    let argv = watch_argv(Arc::clone(&running));
    let up = hoist.run(&["up", "--nodes", "1"]);
    running.store(false, Ordering::Relaxed);
    let argv = argv.join().expect("the watcher ends");
    assert_eq!(up.code, Some(0), "{}", up.stderr);
    assert!(served.load(Ordering::Relaxed) > 0, "the engine was asked through the port");
    assert_eq!(hoist.kubectl(&["get", "nodes", "-o", "name"]), "node/node01\n");

    // A token in an argv is there for all users of the host to see.
    let join = argv.iter().any(|argv| String::from_utf8_lossy(argv).contains("kubeadm\0join"));
    assert!(join, "kubeadm join was seen running");
    for (name, secret) in secrets(&hoist) {
        for argv in &argv {
            let text = String::from_utf8_lossy(argv);
            assert!(!text.contains(&secret), "{name} is in {}", text.replace(&secret, "…"));
        }
    }

    let traces = Traces::of(&hoist.name);
    hoist.ok(&["down"]);
    assert_eq!(traces.left(), Vec::<String>::new());
    assert!(!hoist.state().exists());
    let again = hoist.run(&["down"]);
    assert_eq!(again.code, Some(0), "{}", again.stderr);
    assert_eq!(things(&hoist.name), Vec::<String>::new());
    let files: Vec<_> = walk(hoist.home()).into_iter().filter(|path| path.contains(&hoist.name)).collect();
    assert_eq!(files, Vec::<String>::new());
}

/// All paths below a directory.
fn walk(directory: &std::path::Path) -> Vec<String> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok) {
        paths.push(entry.path().display().to_string());
        if entry.path().is_dir() {
            paths.extend(walk(&entry.path()));
        }
    }
    paths
}
