//! What engine and API server answer may be of any type and size: it is understood or refused, and never the
//! end of hoist.

use std::time::Duration;

use bytes::Bytes;
use hoist::cluster::export::Redactor;
use hoist::cluster::kube::Api;
use hoist::cluster::{identity, status};
use hoist::config::defaults;
use hoist::nodes::{drain, tokens};
use hoist_phases::object::{Object, ObjectRef};
use hoist_phases::ports::{KubeApi as _, Network, Runtime as _};
use hoist_phases::spec::{BootstrapToken, ClusterName, ClusterSpec, TokenTtl};
use http_body_util::StreamBody;
use proptest::prelude::*;
use serde_json::{Value, json};
use time::OffsetDateTime;

use super::json::damaged;
use crate::fake_engine::FakeEngine;
use crate::support::fake_runtime::FakeRuntime;

/// As an API server answers: lists, single objects, a refusal, its kinds.
fn of_api() -> Vec<Value> {
    let list = |items: Value| json!({"kind": "List", "apiVersion": "v1", "metadata": {"resourceVersion": "7"}, "items": items});
    let node = json!({
        "metadata": {"name": "node01", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"a": "b"}},
        "spec": {"podCIDR": "10.244.0.0/24", "taints": [{"key": "a", "effect": "NoSchedule"}]},
        "status": {
            "conditions": [{"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "no network"}],
            "addresses": [{"type": "InternalIP", "address": "192.168.66.101"}],
            "nodeInfo": {"kubeletVersion": "v1.36.3"},
        },
    });
    let pod = json!({
        "metadata": {"name": "p", "namespace": "n", "ownerReferences": [{"kind": "ReplicaSet"}], "annotations": {"a": "b"}},
        "spec": {"nodeName": "node01"}, "status": {"phase": "Running"},
    });
    let secret = json!({
        "metadata": {"name": "bootstrap-token-abcdef", "namespace": "kube-system", "labels": {}},
        "type": "bootstrap.kubernetes.io/token",
        "data": {"token-id": "YWJjZGVm", "token-secret": "MTIzNDU2Nzg5MDEyMzQ1Ng==",
            "expiration": "MjAyNi0wMS0wMVQwMDowMDowMFo=", "usage-bootstrap-signing": "dHJ1ZQ==", "auth-extra-groups": "YSxi"},
    });
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "cluster-info", "namespace": "kube-public", "uid": "u", "resourceVersion": "9",
            "labels": {"app.kubernetes.io/managed-by": "hoist"}, "annotations": {"a": "b"}, "finalizers": ["f"]},
        "data": {"kubeconfig": "apiVersion: v1"}, "spec": {"replicas": 2},
    });
    let refusal = json!({"kind": "Status", "reason": "Invalid", "message": "m", "code": 422,
        "details": {"causes": [{"field": "data[token-secret]"}]}});
    let kinds = json!({"kind": "APIResourceList", "resources": [{"name": "things", "kind": "Thing", "namespaced": true}]});
    vec![list(json!([node])), list(json!([pod, pod])), list(json!([secret])), map, refusal, kinds]
}

fn of_engine() -> Vec<Value> {
    let labels = json!({"dev.hoist.cluster": "c", "dev.hoist.role": "owner", "dev.hoist.node": "node01", "dev.hoist.hash": "h"});
    let inspected = json!({
        "Id": "abc", "Name": "/hoist-c-owner", "Created": "2026-01-01T00:00:00Z", "RestartCount": 2,
        "Config": {"Image": "i", "Labels": labels},
        "HostConfig": {"NetworkMode": "container:def", "ReadonlyRootfs": true, "Tmpfs": {"/run": "size=1"}},
        "State": {"Status": "running", "Running": true, "OOMKilled": false, "Pid": 1, "ExitCode": 0,
            "StartedAt": "2026-01-01T00:00:01Z", "FinishedAt": "0001-01-01T00:00:00Z"},
        "NetworkSettings": {"Ports": {"6443/tcp": [{"HostIp": "127.0.0.1", "HostPort": "32768"}], "53/udp": null},
            "Networks": {"bridge": {"IPAddress": "172.17.0.2"}}},
        "Mounts": [{"Type": "volume", "Name": "v", "Destination": "/data"}],
    });
    let listed = json!([{"Id": "abc", "Names": ["/hoist-c-owner"], "Labels": labels, "State": "running", "Created": 1_700_000_000}]);
    let volumes = json!({"Volumes": [{"Name": "v", "Driver": "local", "Mountpoint": "/v", "Labels": labels, "Options": null, "Scope": "local"}]});
    let networks = json!([{"Name": "bridge", "Id": "n", "IPAM": {"Config": [{"Subnet": "172.17.0.0/16"}]},
        "Options": {"com.docker.network.driver.mtu": "1500"}}]);
    let info = json!({"NCPU": 4, "MemTotal": 8_u64 << 30, "SwapLimit": true, "Architecture": "x86_64", "CgroupVersion": "1",
        "CgroupDriver": "cgroupfs", "SystemTime": "2026-01-01T00:00:00Z"});
    let stats = json!({"memory_stats": {"usage": 5, "max_usage": 6, "limit": 7, "stats": {"total_inactive_file": 9, "rss": 1}},
        "cpu_stats": {"cpu_usage": {"total_usage": 1}}, "pids_stats": {"current": 3}});
    vec![inspected, listed, volumes, networks, info, stats, json!({"message": "no such container"})]
}

fn reference(kind: &str) -> ObjectRef {
    ObjectRef {
        api_version: "v1".to_owned(),
        kind: kind.to_owned(),
        namespace: None,
        name: "cluster-info".to_owned(),
    }
}

/// An API server that answers this, whatever it is asked.
fn api(code: u16, answer: Vec<u8>) -> Api {
    let service = tower::service_fn(move |_: http::Request<kube::client::Body>| {
        let body = kube::client::Body::from(answer.clone());
        async move { http::Response::builder().status(code).body(body).map_err(kube::Error::HttpError) }
    });
    Api::new(kube::Client::new(service, "default"))
}

fn spec() -> ClusterSpec {
    let token = BootstrapToken::parse("abcdef.1234567890123456").unwrap();
    defaults(ClusterName::new("c").unwrap(), token)
}

/// Everything that hoist does with an API, one after the other: none minds what became of another.
async fn ask_all(code: u16, answer: &[u8]) {
    let api = api(code, answer.to_vec());
    let (spec, runtime) = (spec(), FakeRuntime::default());
    runtime.run("c", "owner", "hoist-c-owner", Network::Own).await;
    let _ = status::status(&runtime, Some(&api), "c", Some(&spec), Some("u")).await;
    for kind in ["Node", "Pod", "Secret", "Thing"] {
        let _ = api.list("v1", kind, Some("a=b")).await;
        let _ = api.get(&reference(kind)).await;
    }
    let mine = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "cluster-info", "namespace": "kube-public"},
        "data": {"kubeconfig": "a"}});
    let _ = api.apply(&Object::new(&mine).unwrap()).await;
    let _ = api.create(&mine).await;
    let _ = api.server_side_apply(&reference("ConfigMap"), &mine, Some(2)).await;
    let _ = api.merge_patch(&reference("ConfigMap"), &mine).await;
    let _ = api.delete(&reference("ConfigMap")).await;
    let _ = api.evict("n", "p").await;
    let _ = identity::present(&api).await;
    let _ = identity::is_another(&api, "u").await;
    let _ = tokens::list(&api, OffsetDateTime::now_utc(), true).await;
    let _ = tokens::create(&api, TokenTtl::default(), Some("d")).await;
    let _ = tokens::delete(&api, &["abcdef".to_owned()]).await;
    let _ = drain::drain(&api, "node01", None, Duration::ZERO).await;
    if let Ok(mut value) = serde_json::from_slice::<Value>(answer) {
        let mut redactor = Redactor::default();
        redactor.learn_secrets(std::slice::from_ref(&value));
        redactor.learn_secrets(value["items"].as_array().map(Vec::as_slice).unwrap_or_default());
        redactor.object(&mut value);
        redactor.text(&value.to_string());
    }
}

async fn ask_engine(answer: Vec<u8>) {
    let fake = FakeEngine::start();
    let engine = fake.connect().await;
    for prefix in ["GET /containers", "GET /volumes", "GET /networks", "GET /info", "GET /images"] {
        fake.answer_raw(prefix, "application/json", answer.clone());
    }
    let _ = engine.list(Some("c")).await;
    let _ = engine.inspect("c").await;
    let _ = engine.volumes("c").await;
    let _ = engine.networks().await;
    let _ = engine.about().await;
    let _ = engine.info().await;
    let _ = engine.missing_images(&["i".to_owned()]).await;
    let _ = engine.architectures(&["i".to_owned()]).await;
    let _ = engine.stats("c").await;
    let _ = engine.logs("c", 10).await;
    let _ = status::status(&engine, None, "c", Some(&spec()), Some("u")).await;
}

fn block(future: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future);
}

proptest! {
    #[test]
    fn whatever_an_api_server_answers_is_taken_or_refused(
        code in proptest::sample::select(vec![200_u16, 201, 404, 409, 422, 429, 500]), answer in damaged(of_api()),
    ) {
        block(ask_all(code, &answer));
    }

    #[test]
    fn whatever_an_engine_answers_is_taken_or_refused(answer in damaged(of_engine())) {
        block(ask_engine(answer));
    }
}

/// Nobody's memory is as large as an answer can be.
#[tokio::test]
async fn an_answer_without_end_is_left() {
    let service = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        let piece = || Ok::<_, std::io::Error>(hyper::body::Frame::data(Bytes::from(vec![b'x'; 1 << 20])));
        let endless = futures_util::stream::repeat_with(piece);
        Ok::<_, kube::Error>(http::Response::new(StreamBody::new(endless)))
    });
    let api = Api::new(kube::Client::new(service, "default"));
    let error = api.list("v1", "Node", None).await.unwrap_err();
    assert!(hoist::error::render(&error).contains("length limit"), "{}", hoist::error::render(&error));
}
