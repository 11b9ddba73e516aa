//! Asks the cluster's DNS for `kubernetes.default.svc`, on every node: kube-proxy's rules, the
//! pod network, CoreDNS and its own view of the API all have to work for the answer.

use std::net::IpAddr;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_util::future::try_join_all;
use hoist_phases::causes;
use hoist_phases::engine::PhaseError;
use hoist_phases::object::ObjectRef;
use hoist_phases::phases::machines;
use hoist_phases::phases::wait::{Poll, until};
use hoist_phases::ports::KubeApi as _;
use hoist_phases::spec::{Family, NodeSpec};
use serde_json::Value;

use super::components::ready_endpoints;
use super::{Target, not_yet};

/// The query goes out of the node's own network by bash's `/dev/udp`, because a node image has no
/// DNS client that could be pointed at a server without touching its resolver. One second: lost
/// packets are asked for again by the next look.
const ASK: &str =
    r#"exec 3<>"/dev/udp/$0/53" && base64 -d <<<"$1" >&3 && dd bs=1232 count=1 status=none <&3 | base64 -w0"#;

/// Any number does: each query has a socket of its own.
const QUERY_ID: u16 = 0x686f;

const CLASS_IN: u16 = 1;

/// The type of the records that hold addresses (RFC 1035, RFC 3596).
fn record_type(family: Family) -> u16 {
    match family {
        Family::Ipv4 => 1,
        Family::Ipv6 => 28,
    }
}

pub(super) async fn probe(target: &Target<'_>, deadline: Duration) -> Result<(), PhaseError> {
    until(deadline, || async {
        Ok(match ready_endpoints(&target.admin, "kube-system", "kube-dns").await {
            Err(error) => not_yet(&error),
            Ok(ready) if ready.is_empty() => {
                Poll::Pending("no endpoint of Service kube-dns is ready".to_owned())
            }
            Ok(_) => Poll::Ready(()),
        })
    })
    .await?;
    let nodes = target.spec.nodes.iter();
    try_join_all(nodes.map(|node| async move { until(deadline, || ask(target, node)).await })).await?;
    // One server answers for all, and the last of them may still be starting.
    let reference = ObjectRef {
        api_version: "apps/v1".to_owned(),
        kind: "Deployment".to_owned(),
        namespace: Some("kube-system".to_owned()),
        name: "coredns".to_owned(),
    };
    until(deadline, || async {
        Ok(match target.admin.get(&reference).await {
            Err(error) => not_yet(&error),
            Ok(found) => found.as_ref().and_then(starting).map_or(Poll::Ready(()), Poll::Pending),
        })
    })
    .await
}

/// Which replicas of a Deployment aren't ready; `None` when all are.
fn starting(deployment: &Value) -> Option<String> {
    let wanted = deployment["spec"]["replicas"].as_u64().unwrap_or(1);
    let ready = deployment["status"]["readyReplicas"].as_u64().unwrap_or_default();
    (ready != wanted).then(|| format!("{ready} of {wanted} replicas of CoreDNS are ready"))
}

async fn ask(target: &Target<'_>, node: &NodeSpec) -> Result<Poll<()>, PhaseError> {
    let networking = &target.spec.networking;
    let name = format!("kubernetes.default.svc.{}", networking.dns_domain);
    let server = networking.dns_service().to_string();
    let family = networking.primary();
    let query = STANDARD.encode(query(&name, family));
    let command = ["timeout", "1", "bash", "-c", ASK, &server, &query];
    let pending =
        |what: String| Ok(Poll::Pending(format!("{} asked {server} for {name}: {what}", node.name())));
    let output = match machines::exec(target.runtime, &target.spec.name, node, &command, &[]).await {
        Ok(output) => output,
        Err(error) => return pending(causes(&error)),
    };
    match output.code {
        0 => {}
        // The code of timeout(1).
        124 => return pending("no answer".to_owned()),
        code => return pending(format!("exit code {code} {}", output.stderr.trim())),
    }
    let wanted = networking.kubernetes_service();
    match STANDARD.decode(output.stdout.trim()).ok().as_deref().and_then(|answer| addresses(answer, family)) {
        None => pending("the answer can't be understood".to_owned()),
        Some(Err(code)) => pending(format!("response code {code}")),
        Some(Ok(found)) if found.contains(&wanted) => Ok(Poll::Ready(())),
        Some(Ok(found)) => pending(format!("{found:?} instead of {wanted}")),
    }
}

/// A query for the addresses of a name (RFC 1035, section 4).
fn query(name: &str, family: Family) -> Vec<u8> {
    let mut message = Vec::with_capacity(name.len() + 18);
    // Recursion desired, one question.
    for word in [QUERY_ID, 0x0100, 1, 0, 0, 0] {
        message.extend(word.to_be_bytes());
    }
    for label in name.split('.') {
        message.push(u8::try_from(label.len()).unwrap_or_default());
        message.extend(label.bytes());
    }
    message.push(0);
    message.extend(record_type(family).to_be_bytes());
    message.extend(CLASS_IN.to_be_bytes());
    message
}

/// The addresses of an answer, or its response code; `None` when it isn't an answer to our query.
fn addresses(message: &[u8], family: Family) -> Option<Result<Vec<IpAddr>, u8>> {
    let word = |at: usize| Some(u16::from_be_bytes([*message.get(at)?, *message.get(at + 1)?]));
    let flags = word(2)?;
    if word(0)? != QUERY_ID || flags & 0x8000 == 0 {
        return None;
    }
    let code = message.get(3)? & 0x0f;
    if code != 0 {
        return Some(Err(code));
    }
    let (questions, answers) = (word(4)?, word(6)?);
    let mut at = 12;
    for _ in 0..questions {
        at = skip_name(message, at)? + 4;
    }
    let mut found = Vec::new();
    for _ in 0..answers {
        at = skip_name(message, at)?;
        let (kind, length) = (word(at)?, usize::from(word(at + 8)?));
        let data = message.get(at + 10..at + 10 + length)?;
        if kind == record_type(family) {
            found.push(match family {
                Family::Ipv4 => IpAddr::from(<[u8; 4]>::try_from(data).ok()?),
                Family::Ipv6 => IpAddr::from(<[u8; 16]>::try_from(data).ok()?),
            });
        }
        at += 10 + length;
    }
    Some(Ok(found))
}

/// Where the name that starts at `at` ends; a pointer ends it (RFC 1035, section 4.1.4).
fn skip_name(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            pointer if pointer & 0xc0 == 0xc0 => return Some(at + 2),
            length => at += 1 + usize::from(length),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a test that can't go on must fail loudly")]
mod tests {
    use super::*;

    fn answer(code: u8, records: &[&str]) -> Vec<u8> {
        let records: Vec<IpAddr> = records.iter().map(|record| record.parse().unwrap()).collect();
        let mut message = query("kubernetes.default.svc.cluster.local", Family::Ipv4);
        message[2] |= 0x80;
        message[3] = code;
        message[7] = u8::try_from(records.len()).unwrap_or_default();
        for record in records {
            let data = match record {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            };
            message.extend([0xc0, 12]);
            message.extend(record_type(Family::of(record)).to_be_bytes());
            message.extend([0, 1, 0, 0, 0, 30, 0]);
            message.push(u8::try_from(data.len()).unwrap());
            message.extend(data);
        }
        message
    }

    #[test]
    fn reads_the_records_of_an_answer() {
        let both = answer(0, &["10.96.0.1", "fd10:96::1"]);
        for (family, address) in [(Family::Ipv4, "10.96.0.1"), (Family::Ipv6, "fd10:96::1")] {
            assert_eq!(addresses(&both, family), Some(Ok(vec![address.parse().unwrap()])));
            assert_eq!(addresses(&answer(0, &[]), family), Some(Ok(vec![])));
            assert_eq!(addresses(&answer(3, &[]), family), Some(Err(3)));
        }
    }

    #[test]
    fn one_of_two_servers_is_not_all_of_dns() {
        let deployment = |status| serde_json::json!({"spec": {"replicas": 2}, "status": status});
        let told = starting(&deployment(serde_json::json!({"readyReplicas": 1})));
        assert_eq!(told.as_deref(), Some("1 of 2 replicas of CoreDNS are ready"));
        assert!(starting(&deployment(serde_json::json!({}))).is_some());
        assert_eq!(starting(&deployment(serde_json::json!({"readyReplicas": 2}))), None);
    }

    #[test]
    fn what_is_no_answer_is_refused() {
        for (family, record) in [(Family::Ipv4, "10.96.0.1"), (Family::Ipv6, "fd10:96::1")] {
            let whole = answer(0, &[record]);
            for length in 0..whole.len() {
                assert_eq!(addresses(&whole[..length], family), None, "cut at {length}");
            }
            assert_eq!(addresses(&query("a", family), family), None, "a query is no answer");
            let mut other = whole;
            other[0] ^= 1;
            assert_eq!(addresses(&other, family), None, "another query's");
        }
    }
}
