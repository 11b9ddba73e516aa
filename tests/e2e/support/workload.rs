//! A client on node01 and a server on node02, with a Service before it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::Stdio;
use std::sync::LazyLock;
use std::time::Duration;

use super::hoist::Hoist;
use super::shared::Shared;
use super::{IMAGE, exec, until};

pub(crate) const CLIENT: &str = "client";
pub(crate) const SERVER: &str = "server";
/// Of the Service before the server.
pub(crate) const NODE_PORT: u16 = 30080;

/// Bytes of the answer to `/big`: more than any buffer on the way, so that full-sized packets have to pass.
pub(crate) const BIG: usize = 4 << 20;

/// An HTTP server in a few lines; the image has no other.
const SERVE: &str = r#"
use IO::Socket::INET; $| = 1;
my $listen = IO::Socket::INET->new(LocalPort => 8080, Listen => 64, ReuseAddr => 1) or die "listen: $!";
print "listening\n";
while (my $peer = $listen->accept) {
    my $request = <$peer>;
    while (<$peer>) { last if /^\r?\n$/ }
    my $body = $request =~ m{ /big } ? "x" x 4194304 : "I am $ENV{HOSTNAME}\n";
    print "served ", $peer->peerhost, "\n";
    print $peer "HTTP/1.0 200 OK\r\nContent-Length: ", length $body, "\r\n\r\n$body";
    close $peer;
}
"#;

static STARTED: LazyLock<std::sync::Mutex<bool>> = LazyLock::new(|| std::sync::Mutex::new(false));

/// Loads the image into the nodes and starts both pods, once.
pub(crate) fn workload(shared: &Shared) {
    let mut started = STARTED.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if *started {
        return;
    }
    deploy(&shared.hoist);
    *started = true;
}

/// The same on any cluster of two nodes.
pub(crate) fn deploy(hoist: &Hoist) {
    hoist.ok(&["node", "load", IMAGE]);
    hoist.apply(&manifest());
    let wait = ["wait", "--for=condition=Ready", "pod/client", "pod/server", "--timeout=120s"];
    hoist.kubectl(&wait);
    until("the server listens", Duration::from_secs(60), || {
        let log = hoist.kubectl(&["logs", SERVER]);
        if log.contains("listening") { Ok(()) } else { Err(log) }
    });
}

/// What the server answers through `kubectl port-forward`.
pub(crate) fn forwarded(hoist: &Hoist) -> String {
    let mut command = hoist.command(&["kubectl", "port-forward", "pod/server", ":8080"]);
    let mut forward = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("kubectl");
    let mut line = String::new();
    // Kept open: kubectl has more to say, and ends when nobody listens.
    let mut words = BufReader::new(forward.stdout.take().expect("a pipe"));
    words.read_line(&mut line).expect("kubectl's words");
    let answer = line.split_once("127.0.0.1:").and_then(|(_, rest)| rest.split(' ').next()).map(|port| {
        until("the forwarded port answers", Duration::from_secs(20), || ask(port).map_err(|e| e.to_string()))
    });
    let _ = forward.kill();
    let _ = forward.wait();
    answer.unwrap_or_else(|| panic!("kubectl port-forward names no port: {line}"))
}

fn ask(port: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(format!("127.0.0.1:{port}"))?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

fn manifest() -> String {
    let pod = |name: &str, node: &str, command: serde_json::Value| {
        serde_json::json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": name, "labels": { "app": name } },
            "spec": {
                "nodeName": node,
                "terminationGracePeriodSeconds": 0,
                "containers": [{ "name": "main", "image": IMAGE, "imagePullPolicy": "Never", "command": command }],
            },
        })
    };
    let service = serde_json::json!({
        "apiVersion": "v1", "kind": "Service", "metadata": { "name": SERVER },
        "spec": {
            "type": "NodePort", "selector": { "app": SERVER },
            "ports": [{ "port": 80, "targetPort": 8080, "nodePort": NODE_PORT }],
        },
    });
    let list = serde_json::json!({
        "apiVersion": "v1", "kind": "List",
        "items": [
            pod(CLIENT, "node01", serde_json::json!(["sleep", "infinity"])),
            pod(SERVER, "node02", serde_json::json!(["perl", "-e", SERVE])),
            service,
        ],
    });
    list.to_string()
}

pub(crate) fn server_ip(shared: &Shared) -> String {
    shared.hoist.kubectl(&["get", "pod", SERVER, "-o", "jsonpath={.status.podIP}"])
}

pub(crate) fn service_ip(shared: &Shared) -> String {
    shared.hoist.kubectl(&["get", "service", SERVER, "-o", "jsonpath={.spec.clusterIP}"])
}

/// Runs a shell script in a pod through `kubectl exec`; its exit code has to be 0.
pub(crate) fn in_pod(shared: &Shared, pod: &str, script: &str) -> String {
    shared.hoist.kubectl(&["exec", pod, "--", "bash", "-euc", script])
}

/// Runs a shell script on a node.
pub(crate) fn on_node(shared: &Shared, node: &str, script: &str) -> String {
    let output = exec(&format!("hoist-{}-{node}", shared.hoist.name), &["bash", "-euc", script]);
    assert_eq!(output.code, 0, "{node}: {script}: {}{}", output.stdout, output.stderr);
    output.stdout
}

/// A script that gets a path of an HTTP server and prints the answer's body.
pub(crate) fn fetch(host: &str, port: u16, path: &str) -> String {
    format!(
        "exec 3<>/dev/tcp/{host}/{port}; printf 'GET {path} HTTP/1.0\\r\\n\\r\\n' >&3; \
         timeout 30 sed '1,/^\\r*$/d' <&3"
    )
}
