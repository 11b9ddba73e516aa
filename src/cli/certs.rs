//! `hoist certs`.

use std::time::Duration;

use futures_util::future::join_all;
use hoist_phases::phases::{certs, machines};
use hoist_phases::pki::rotation::{self, Stage};
use hoist_phases::pki::survey::{self, Surveyed, Verdict};
use hoist_phases::pki::{CERTS, CertId, PkiInputs};
use hoist_phases::ports::Runtime;
use hoist_phases::spec::{ClusterSpec, NodeSpec};
use serde::Serialize;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::args::{CertsCommand, Format, Global};
use super::session::{self, Session};
use super::{rotation as cas, up};
use crate::error::BoxError;
use crate::{config, report};

/// Prints the certificate of a node's kubelet, and nothing of its key, which is in the same file.
const KUBELET: [&str; 4] = [
    "sed",
    "-n",
    "/-BEGIN CERTIFICATE-/,/-END CERTIFICATE-/p",
    "/var/lib/kubelet/pki/kubelet-client-current.pem",
];

/// Time for a node to answer.
const ANSWER: Duration = Duration::from_secs(10);

/// Other authorities would cut them off.
#[derive(Debug, thiserror::Error)]
#[error(
    "nodes that hoist doesn't run, and can't tell of other CAs: {}; remove them first, or say --others-rejoin \
     and join them anew afterwards (`hoist join-command`)",
    .0.join(", ")
)]
pub struct OthersNodes(pub Vec<String>);

/// Certificates are there, but not as they should be: the data is on stdout all the same.
#[derive(Debug, thiserror::Error)]
#[error("certificates of cluster {cluster} that need to be renewed: {}", names.join(", "))]
pub struct CertsDue {
    pub cluster: String,
    pub names: Vec<String>,
}

/// One line of the table.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    common_name: String,
    /// The authority that signed it; absent for an authority itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    issuer: Option<String>,
    /// RFC 3339.
    #[serde(skip_serializing_if = "Option::is_none")]
    not_after: Option<String>,
    left_secs: u64,
    names: Vec<String>,
    /// `good`, `ends soon`, `ended`, `missing`, why it will be issued anew, or `unknown` and why.
    state: String,
    #[serde(skip)]
    good: bool,
}

pub(super) async fn run(global: &Global, command: CertsCommand) -> Result<(), BoxError> {
    match command {
        CertsCommand::Check(output) => check(global, output.output).await,
        CertsCommand::Renew { ca: false, .. } => renew(global).await,
        CertsCommand::Renew { ca: true, others_rejoin } => cas::run(global, others_rejoin).await,
    }
}

async fn check(global: &Global, format: Format) -> Result<(), BoxError> {
    let session = Session::new(global)?;
    let spec = session.spec()?;
    let now = OffsetDateTime::now_utc();
    let told = survey::survey(&certs::read(&session.state)?, &PkiInputs::new(&spec)?, now);
    let mut rows: Vec<_> =
        told.into_iter().map(|(id, told)| row(id.to_string(), issuer(id), told, now)).collect();
    // The files are enough for the rest: kubelets renew theirs by themselves.
    let engine = session::engine().await.map_err(|error| hoist_phases::causes(error.as_ref()));
    let asked = spec.nodes.iter().map(|node| async {
        match &engine {
            Ok(engine) => kubelet(engine.as_ref(), &spec, node, now).await,
            Err(why) => unknown(node, why),
        }
    });
    rows.extend(join_all(asked).await);
    report::output::formatted(format, &rows, |rows| text(rows))?;
    let unfinished = rotation::stage(&certs::read(&session.state)?) != Stage::Settled;
    if unfinished {
        report::tell(format_args!(
            "the CAs are being replaced; `hoist certs renew --ca --name {}` goes on with it",
            spec.name
        ));
    }
    let names = rows.into_iter().filter(|row| !row.good).map(|row| row.name);
    let due: Vec<_> = names.chain(unfinished.then(|| "the CAs, one by another".to_owned())).collect();
    if due.is_empty() { Ok(()) } else { Err(CertsDue { cluster: spec.name.to_string(), names: due }.into()) }
}

fn issuer(id: CertId) -> Option<String> {
    let spec = CERTS.iter().find(|spec| spec.id == id)?;
    spec.issuer.map(|issuer| issuer.to_string())
}

/// The client certificate of a node's kubelet, as the node has it now.
async fn kubelet(runtime: &dyn Runtime, spec: &ClusterSpec, node: &NodeSpec, now: OffsetDateTime) -> Row {
    let asked = machines::exec(runtime, &spec.name, node, &KUBELET, &[]);
    let output = match tokio::time::timeout(ANSWER, asked).await {
        Ok(Ok(output)) => output,
        Ok(Err(error)) => return unknown(node, &hoist_phases::causes(&error)),
        Err(_) => return unknown(node, &format!("no answer within {} s", ANSWER.as_secs())),
    };
    if output.code != 0 {
        let why = output.stderr.lines().next().unwrap_or_default();
        return unknown(node, &format!("exit code {}: {why}", output.code));
    }
    match survey::read(&kubelet_of(node), output.stdout.as_bytes(), now) {
        Ok(told) => row(kubelet_of(node), Some(CertId::Ca.to_string()), told, now),
        Err(error) => unknown(node, &hoist_phases::causes(&error)),
    }
}

fn kubelet_of(node: &NodeSpec) -> String {
    format!("kubelet of {}", node.name())
}

/// Of a node that doesn't tell: it may be stopped, which is no fault of its certificate.
fn unknown(node: &NodeSpec, why: &str) -> Row {
    Row {
        name: kubelet_of(node),
        common_name: String::new(),
        issuer: Some(CertId::Ca.to_string()),
        not_after: None,
        left_secs: 0,
        names: Vec::new(),
        state: format!("unknown: {why}"),
        good: true,
    }
}

fn row(name: String, issuer: Option<String>, told: Surveyed, now: OffsetDateTime) -> Row {
    let Surveyed { verdict, common_name, not_after, sans } = told;
    Row {
        name,
        common_name,
        issuer,
        not_after: not_after.and_then(|end| end.format(&Rfc3339).ok()),
        left_secs: not_after
            .and_then(|end| u64::try_from((end - now).whole_seconds()).ok())
            .unwrap_or_default(),
        names: sans,
        state: match verdict {
            Verdict::Good => "good".to_owned(),
            Verdict::Ends => "ends soon".to_owned(),
            Verdict::Ended => "ended".to_owned(),
            Verdict::Missing => "missing".to_owned(),
            Verdict::Misfit(reason) => reason.to_string(),
        },
        good: verdict == Verdict::Good,
    }
}

fn text(rows: &[Row]) -> String {
    let lines = rows.iter().map(|row| {
        [
            row.name.clone(),
            row.state.clone(),
            if row.left_secs == 0 { String::new() } else { report::span(row.left_secs) },
            row.not_after.clone().unwrap_or_default(),
            row.issuer.clone().unwrap_or_else(|| "-".to_owned()),
            row.names.join(","),
        ]
    });
    report::table(["CERTIFICATE", "STATE", "LEFT", "ENDS", "SIGNED BY", "NAMES"], lines)
}

/// The CAs stay, so that nodes and their certificates do; components are made anew with their new keys
/// by the phases of `up`.
async fn renew(global: &Global) -> Result<(), BoxError> {
    let session = Session::new(global)?;
    let _lock = session.state.lock()?;
    let spec = session.spec()?;
    let engine = session::engine().await?;
    let settings = config::settings(Default::default(), None, spec.clone(), None)?;
    let made = certs::renew(&session.state, &spec, OffsetDateTime::now_utc())?;
    let leaves = made.actions.iter().filter(|(id, _)| issuer(*id).is_some()).count();
    report::tell(format_args!("issued {leaves} certificates anew; components are started again with them"));
    up::apply(global, &session, &engine, settings, Some(&spec)).await
}
