//! A fake of the engine's HTTP API on a Unix socket: it knows no containers, only answers. Each
//! request is recorded; answers are canned and can be replaced, by an error for example.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use hoist::runtime::{Endpoint, Engine};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

#[derive(Debug, Clone)]
pub(crate) struct Request {
    /// `METHOD /path?query`, without the API version and what is empty in the query.
    pub(crate) line: String,
    pub(crate) body: Vec<u8>,
}

impl Request {
    /// The body as JSON, or as the list of its entries when it is an archive.
    pub(crate) fn value(&self) -> Value {
        if self.body.is_empty() {
            return json!(self.line);
        }
        let body: Value = serde_json::from_slice(&self.body).unwrap_or_else(|_| {
            let mut archive = tar::Archive::new(self.body.as_slice());
            let entries = archive.entries().unwrap().map(|entry| {
                let entry = entry.unwrap();
                let header = entry.header();
                let (uid, gid) = (header.uid().unwrap(), header.gid().unwrap());
                let path = entry.path().unwrap().display().to_string();
                json!(format!("{:o} {uid}:{gid} {path}", header.mode().unwrap()))
            });
            entries.collect()
        });
        json!({ &self.line: body })
    }
}

#[derive(Default)]
struct State {
    requests: Vec<Request>,
    answers: Vec<Answer>,
    held: Vec<(String, Arc<Notify>)>,
}

struct Answer {
    prefix: String,
    status: u16,
    content_type: &'static str,
    body: Vec<u8>,
    /// How many times still; for ever when `None`.
    left: Option<u32>,
}

pub(crate) struct FakeEngine {
    directory: tempfile::TempDir,
    state: Arc<Mutex<State>>,
    server: JoinHandle<()>,
}

impl FakeEngine {
    /// Answers like Docker 20.10 with API 1.41 on a host of 4 processors and 8 GiB.
    pub(crate) fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("engine.sock")).unwrap();
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let server = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        let fake = Self { directory, state, server };
        fake.answer("GET /version", 200, json!({"Version": "20.10.24", "ApiVersion": "1.41", "Components": [{"Name": "Engine", "Version": "20.10.24"}]}));
        fake.answer("GET /info", 200, json!({"NCPU": 4, "MemTotal": 8_u64 << 30, "SwapLimit": true}));
        fake.answer("POST /containers/create", 201, json!({"Id": "id-of-new", "Warnings": []}));
        fake.answer("POST /volumes/create", 201, volume("new", json!({})));
        fake.answer("GET /volumes/", 404, json!({"message": "no such volume"}));
        fake.answer("PUT /containers/", 200, Value::Null);
        fake.answer("DELETE /containers/", 204, Value::Null);
        fake
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.path().join("engine.sock")
    }

    pub(crate) fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Answers requests whose line begins with `prefix`; the latest answer given wins.
    pub(crate) fn answer(&self, prefix: &str, status: u16, body: Value) {
        self.push(prefix, status, body, None);
    }

    /// The same, but only for the next `times` requests.
    pub(crate) fn answer_next(&self, times: u32, prefix: &str, status: u16, body: Value) {
        self.push(prefix, status, body, Some(times));
    }

    fn push(&self, prefix: &str, status: u16, body: Value, left: Option<u32>) {
        let body = if body.is_null() { Vec::new() } else { body.to_string().into_bytes() };
        self.push_raw(prefix, status, "application/json", body, left);
    }

    /// The same with what is no JSON, or should be.
    pub(crate) fn answer_raw(&self, prefix: &str, content_type: &'static str, body: Vec<u8>) {
        self.push_raw(prefix, 200, content_type, body, None);
    }

    fn push_raw(
        &self,
        prefix: &str,
        status: u16,
        content_type: &'static str,
        body: Vec<u8>,
        left: Option<u32>,
    ) {
        let answer = Answer { prefix: prefix.to_owned(), status, content_type, body, left };
        self.state.lock().unwrap().answers.push(answer);
    }

    pub(crate) async fn connect(&self) -> Engine {
        Engine::connect_any(vec![Endpoint::Unix(self.socket())]).await.unwrap()
    }

    /// Requests whose line begins with `prefix` have no answer until the gate is notified.
    pub(crate) fn hold(&self, prefix: &str) -> Arc<Notify> {
        let gate = Arc::new(Notify::new());
        self.state.lock().unwrap().held.push((prefix.to_owned(), Arc::clone(&gate)));
        gate
    }

    /// Waits until a request whose line begins with `prefix` has come.
    pub(crate) async fn was_asked(&self, prefix: &str) {
        let asked = || self.state.lock().unwrap().requests.iter().any(|one| one.line.starts_with(prefix));
        while !asked() {
            tokio::task::yield_now().await;
        }
    }

    /// What was asked since the last call, without what every connection begins with.
    pub(crate) fn requests(&self) -> Vec<Request> {
        let mut requests = std::mem::take(&mut self.state.lock().unwrap().requests);
        requests.retain(|r| !matches!(r.line.as_str(), "GET /version" | "GET /info"));
        requests
    }

    pub(crate) fn lines(&self) -> Vec<String> {
        self.requests().into_iter().map(|request| request.line).collect()
    }

    /// Nobody listens any more, as after a crash of an engine: its socket is still there.
    pub(crate) async fn die(&mut self) {
        self.server.abort();
        let _ = (&mut self.server).await;
    }
}

pub(crate) fn volume(name: &str, labels: Value) -> Value {
    json!({"Name": name, "Driver": "local", "Mountpoint": "", "Labels": labels, "Options": null, "Scope": "local"})
}

/// The value of a header field.
fn field<'a>(head: &'a str, wanted: &str) -> Option<&'a str> {
    let fields = head.lines().filter_map(|line| line.split_once(':'));
    fields.into_iter().find(|(name, _)| name.eq_ignore_ascii_case(wanted)).map(|(_, value)| value.trim())
}

/// What came in chunks (RFC 9112, 7.1), once the last one is there.
fn joined(mut chunks: &[u8]) -> Option<Vec<u8>> {
    let mut whole = Vec::new();
    loop {
        let end = chunks.windows(2).position(|window| window == b"\r\n")?;
        let size =
            std::str::from_utf8(&chunks[..end]).ok().and_then(|hex| usize::from_str_radix(hex, 16).ok())?;
        let (from, to) = (end + 2, end + 2 + size);
        // Each ends with an empty line of its own.
        if chunks.len() < to + 2 {
            return None;
        }
        if size == 0 {
            return Some(whole);
        }
        whole.extend_from_slice(&chunks[from..to]);
        chunks = &chunks[to + 2..];
    }
}

async fn serve(mut stream: UnixStream, state: Arc<Mutex<State>>) -> std::io::Result<()> {
    let mut data = Vec::new();
    let head_end = loop {
        if let Some(end) = data.windows(4).position(|window| window == b"\r\n\r\n") {
            break end + 4;
        }
        if stream.read_buf(&mut data).await? == 0 {
            return Ok(());
        }
    };
    let head = String::from_utf8_lossy(&data[..head_end]).into_owned();
    let mut body = data.split_off(head_end);
    if field(&head, "transfer-encoding").is_some_and(|value| value == "chunked") {
        body = loop {
            if let Some(whole) = joined(&body) {
                break whole;
            }
            stream.read_buf(&mut body).await?;
        };
    }
    let length = field(&head, "content-length").and_then(|value| value.parse::<usize>().ok());
    while body.len() < length.unwrap_or_default() {
        stream.read_buf(&mut body).await?;
    }
    let line = head.lines().next().unwrap_or_default().trim_end_matches(" HTTP/1.1");
    let request = Request { line: plain(line), body };

    let (status, content_type, body, gate) = {
        let mut state = state.lock().unwrap();
        let found = state
            .answers
            .iter_mut()
            .rev()
            .find(|answer| answer.left != Some(0) && request.line.starts_with(answer.prefix.as_str()));
        let answer = found.map(|answer| {
            answer.left = answer.left.map(|left| left - 1);
            (answer.status, answer.content_type, answer.body.clone())
        });
        let gate = state.held.iter().find(|(prefix, _)| request.line.starts_with(prefix.as_str()));
        let gate = gate.map(|(_, gate)| Arc::clone(gate));
        state.requests.push(request);
        let none = json!({"message": "the fake has no answer to that"}).to_string().into_bytes();
        let (status, content_type, body) = answer.unwrap_or((501, "application/json", none));
        (status, content_type, body, gate)
    };
    if let Some(gate) = gate {
        gate.notified().await;
    }
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} Fake\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).await?;
    stream.write_all(&body).await
}

/// `GET /v1.41/info?name=&all=true` → `GET /info?all=true`.
fn plain(line: &str) -> String {
    let (method, target) = line.split_once(' ').unwrap_or((line, ""));
    let rest = target.strip_prefix("/v1.").map(|rest| rest.trim_start_matches(|c: char| c.is_ascii_digit()));
    let (path, query) = rest.unwrap_or(target).split_once('?').unwrap_or((rest.unwrap_or(target), ""));
    let given: Vec<_> = query.split('&').filter(|pair| !pair.is_empty() && !pair.ends_with('=')).collect();
    let mark = if given.is_empty() { "" } else { "?" };
    format!("{method} {path}{mark}{}", given.join("&"))
}
