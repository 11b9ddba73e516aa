//! `hoist doctor`.

use hoist_phases::causes;
use hoist_phases::ports::KubeConnect as _;
use hoist_phases::spec::{BootstrapToken, ClusterSpec};

use super::args::{DoctorArgs, Global, UpArgs};
use super::session::{self, Session};
use crate::cluster::doctor::{self, Diagnosis, Sources, State};
use crate::cluster::kube::Connector;
use crate::config::{self, ConfigError};
use crate::error::BoxError;
use crate::{env, report};

/// Something is wrong; what is on stdout.
#[derive(Debug, thiserror::Error)]
#[error("{0} of {1} checks failed")]
pub struct ChecksFailed(usize, usize);

pub(super) async fn run(global: &Global, args: DoctorArgs) -> Result<(), BoxError> {
    let DoctorArgs { config, output } = args;
    let up = UpArgs { config, ..UpArgs::default() };
    let (file, name) = config::begin(global, &up)?;
    let session = Session::named(name)?;
    let present = session.spec_if_any()?;
    let base = match &present {
        Some(spec) => spec.clone(),
        None => planned(&session)?,
    };
    // Nothing is fetched: what the doctor looks at is said by the file itself.
    let spec = if up.config.is_some() { config::settings(up, Some(file), base, None)?.spec } else { base };
    let diagnoses = examine(&session, spec, present.is_some()).await;
    report::output::formatted(output.output, &diagnoses, |diagnoses| text(diagnoses))?;
    let failed = diagnoses.iter().filter(|diagnosis| diagnosis.state == State::Fail).count();
    if failed == 0 { Ok(()) } else { Err(ChecksFailed(failed, diagnoses.len()).into()) }
}

/// The cluster that `up` would make when nothing is said.
fn planned(session: &Session) -> Result<ClusterSpec, BoxError> {
    let token = BootstrapToken::generate().map_err(|_| ConfigError::Random)?;
    Ok(config::defaults(session.name.clone(), token))
}

/// Runs all checks for a cluster that is there, or would be.
pub(super) async fn examine(session: &Session, spec: ClusterSpec, present: bool) -> Vec<Diagnosis> {
    let engine = session::engine().await.map_err(|error| causes(error.as_ref()));
    let api = match session.kubeconfig() {
        Ok(admin) => Connector.connect(&admin).await.map_err(|error| causes(&error)),
        Err(error) => Err(causes(error.as_ref())),
    };
    let environment = env::PROXIES.iter().filter_map(|name| Some((*name, env::value(name)?))).collect();
    let sources = Sources { engine, api, spec, present, environment };
    doctor::diagnose(&doctor::gather(sources).await)
}

/// A check a line, what is wrong with its remedy below it.
pub(super) fn text(diagnoses: &[Diagnosis]) -> String {
    let mut text = String::new();
    for Diagnosis { id, state, reason, findings, .. } in diagnoses {
        text += &format!("{:7}  {id}: {reason}\n", state.name());
        for finding in findings {
            if finding.reason != *reason {
                text += &format!("         {}: {}\n", finding.state.name(), finding.reason);
            }
            text += &format!("         remedy: {}\n", finding.remedy);
        }
    }
    text
}
