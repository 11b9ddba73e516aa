//! `hoist doctor`.

use hoist_phases::ports::KubeConnect as _;

use super::args::{Format, Global};
use super::session::Session;
use crate::cluster::doctor::{self, Diagnosis, State};
use crate::cluster::kube::Connector;
use crate::error::BoxError;
use crate::report;

/// Something keeps workloads from running; what is on stdout.
#[derive(Debug, thiserror::Error)]
#[error("{0} of {1} checks failed")]
pub struct ChecksFailed(usize, usize);

pub(super) async fn run(global: &Global, format: Format) -> Result<(), BoxError> {
    let session = Session::new(global)?;
    // A cluster that isn't there is told as such.
    session.spec()?;
    let api = Connector.connect(&session.kubeconfig()?).await?;
    let diagnoses = doctor::diagnose(&doctor::gather(api.as_ref()).await?);
    report::output::formatted(format, &diagnoses, |diagnoses| text(diagnoses))?;
    let failed = diagnoses.iter().filter(|diagnosis| diagnosis.state == State::Failed).count();
    if failed == 0 { Ok(()) } else { Err(ChecksFailed(failed, diagnoses.len()).into()) }
}

fn text(diagnoses: &[Diagnosis]) -> String {
    let mut text = String::new();
    for Diagnosis { id, state, summary, findings } in diagnoses {
        let word = match state {
            State::Ok => "ok",
            State::Failed => "FAILED",
        };
        text += &format!("{word:6}  {id}: {summary}\n");
        for finding in findings {
            text += &format!("        {}\n        remedy: {}\n", finding.reason, finding.remedy);
        }
    }
    text
}
