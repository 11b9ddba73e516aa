//! `hoist config`: what a configuration may say, and what one comes to. Nothing is started, and no
//! engine is needed.

use std::path::Path;

use hoist_phases::spec::ClusterSpec;

use super::args::{ConfigCommand, Format, Global, OutputArgs, UpArgs};
use super::session::Session;
use crate::config::{self, EXAMPLE, Origin, Settings};
use crate::error::BoxError;
use crate::{files, report};

/// Readable by everybody: it holds no secret until somebody writes one.
const MODE: u32 = 0o644;

/// `config init` never replaces what somebody wrote.
#[derive(Debug, thiserror::Error)]
#[error("{0}: is there already; name another file, or remove it first")]
pub struct FileIsThere(String);

pub(super) async fn run(global: &Global, command: ConfigCommand) -> Result<(), BoxError> {
    match command {
        ConfigCommand::Schema => {
            let schema = serde_json::to_string_pretty(config::schema())?;
            report::data(schema + "\n")?;
        }
        ConfigCommand::Init { file: None } => report::data(EXAMPLE)?,
        ConfigCommand::Init { file: Some(path) } => init(&path)?,
        ConfigCommand::Validate(args) => {
            let (settings, _) = settings(global, *args).await?;
            report::tell(format_args!("cluster {}: all settings are right", settings.spec.name));
        }
        ConfigCommand::View { output: OutputArgs { output }, up } => {
            let (settings, present) = settings(global, *up).await?;
            let unsaid = if present.is_some() { Origin::Present } else { Origin::Default };
            match output {
                Format::Text => report::data(config::view::yaml(&settings, &unsaid))?,
                Format::Json => {
                    let lines = config::view::lines(&settings, &unsaid);
                    report::output::formatted(output, &lines, |_| String::new())?;
                }
            }
        }
    }
    Ok(())
}

fn init(path: &Path) -> Result<(), BoxError> {
    if path.exists() {
        return Err(FileIsThere(path.display().to_string()).into());
    }
    files::write(path, EXAMPLE.as_bytes(), MODE)?;
    report::tell(format_args!("wrote {}; start it with `hoist up --config {0}`", path.display()));
    Ok(())
}

/// As `up` would take them, and the specification of the cluster of that name when it is there.
pub(super) async fn settings(
    global: &Global,
    args: UpArgs,
) -> Result<(Settings, Option<ClusterSpec>), BoxError> {
    let (document, name) = config::begin(global, &args)?;
    let present = Session::named(name.clone())?.spec_if_any()?;
    let settings = config::finish(args, document, name, present.clone()).await?;
    tell_notes(&settings);
    Ok((settings, present))
}

/// What was said and is not used.
pub(super) fn tell_notes(settings: &Settings) {
    settings.notes.iter().for_each(|note| report::tell(format_args!("note: {note}")));
}
