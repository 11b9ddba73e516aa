//! Ports of the host that lead to ports of nodes, with the shared cluster's pods behind them.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use serde_json::Value;

use crate::security::ports_are_as_told;
use crate::support::{Hoist, NODE_PORT, deploy, kill, until};

/// Until the cluster gives up a dead node's pods; a request may be sent to one of them until then.
const SOON: Duration = Duration::from_secs(120);

fn ask(at: &str) -> Result<String, String> {
    let mut stream = TcpStream::connect(at).map_err(|error| error.to_string())?;
    stream.set_read_timeout(Some(Duration::from_secs(10))).map_err(|error| error.to_string())?;
    stream.write_all(b"GET / HTTP/1.0\r\n\r\n").map_err(|error| error.to_string())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(|error| error.to_string())?;
    if answer.ends_with("I am server\n") { Ok(answer) } else { Err(format!("answer: {answer:?}")) }
}

/// Of the engine's choice, by the status.
fn host_port(hoist: &Hoist) -> String {
    let status: Value = serde_json::from_str(&hoist.run(&["status", "-o", "json"]).stdout).expect("JSON");
    status["ports"][0]["host"].as_str().unwrap_or_else(|| panic!("no port: {status}")).to_owned()
}

/// The pod is on node02, so that node01 takes the way there from each of the nodes.
#[test]
fn a_host_port_reaches_a_pod_and_outlives_a_node() {
    let hoist = Hoist::new("ports");
    hoist.ok(&["up", "--nodes", "2", "--port", &format!("0:{NODE_PORT}")]);
    ports_are_as_told(&hoist, &["ports"]);
    deploy(&hoist);
    let at = host_port(&hoist);
    assert!(at.starts_with("127.0.0.1:"), "{at} is open to others");
    for _ in 0..4 {
        until("the port answers", SOON, || ask(&at));
    }
    kill(&format!("hoist-{}-node01", hoist.name));
    // The very next requests, long before the cluster knows.
    for _ in 0..4 {
        ask(&at).unwrap_or_else(|error| panic!("a node has died and {at} with it: {error}"));
    }
    assert_eq!(host_port(&hoist), at);
}
