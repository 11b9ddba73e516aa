//! The command line: what can be typed, and which function answers it. What a cluster should be
//! is decided in [`crate::config`] and `hoist_phases`; here commands are only put together.

mod apply;
pub mod args;
mod certs;
mod cleanup;
mod config;
mod docs;
mod doctor;
mod down;
mod export;
mod images;
mod kubeconfig;
mod kubectl;
mod list;
mod logs;
mod machine;
mod node;
mod pause;
mod phase;
mod plan;
mod rotation;
mod session;
mod signals;
mod snapshot;
mod status;
mod steward;
mod token;
mod up;
mod upgrade;
mod usage;
mod version;
mod wait;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser as _};

use crate::error::{BoxError, render};
use crate::report::OutputError;
use crate::{exit, report};
use args::{Cli, Command, Global, PhaseCommand};

pub use apply::ApplyCommandError;
pub use certs::{CertsDue, OthersNodes};
pub use config::FileIsThere;
pub use docs::pages as reference_pages;
pub use doctor::ChecksFailed;
pub use export::Partial;
use images::ImagesCommand;
pub use images::UnknownImage;
pub use logs::LogsError;
pub use machine::MachineError;
pub use node::NodeCommandError;
pub use plan::text as plan_text;
pub use session::SessionError;
pub use signals::Interrupted;
pub(crate) use signals::interrupted;
pub use snapshot::TakenBack;
pub(crate) use snapshot::is_wrong_file;
pub use status::NotWell;
pub use up::UpError;
pub use upgrade::UpgradeCommandError;
pub use wait::NotReady;

/// Runs the program with the arguments of the process.
pub fn main() -> ExitCode {
    let Cli { global, command } = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // clap also reports `--help` and `--version` this way, with exit code 0.
            let _ = error.print();
            return if error.use_stderr() { exit::USAGE.into() } else { ExitCode::SUCCESS };
        }
    };
    log(&global);
    let result = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let result = result.map_err(BoxError::from).and_then(|runtime| {
        let result = runtime.block_on(run(global, command));
        // Reading a terminal can't be cancelled: don't wait for a key that nobody will press.
        runtime.shutdown_background();
        result
    });
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if error.downcast_ref::<OutputError>().is_some_and(OutputError::is_broken_pipe) => {
            ExitCode::SUCCESS
        }
        Err(error) => {
            report::tell(render(error.as_ref()).trim_end());
            exit::code(error.as_ref()).into()
        }
    }
}

async fn run(global: Global, command: Command) -> Result<(), BoxError> {
    match command {
        Command::Up(args) => up::run(&global, *args).await,
        Command::Plan { output, up } => plan::run(&global, output, *up).await,
        Command::Upgrade(args) => upgrade::run(&global, args).await,
        Command::Down { cluster } => down::run(&global, cluster).await,
        Command::Pause => pause::pause(&global).await,
        Command::Resume(args) => pause::resume(&global, &args).await,
        Command::List(output) => list::run(output.output).await,
        Command::Report(args) => usage::run(&global, &args).await,
        Command::Status(output) => status::run(&global, output.output).await,
        Command::Doctor(args) => doctor::run(&global, args).await,
        Command::Export(args) => export::run(&global, &args).await,
        Command::Apply(args) => apply::run(&global, &args).await,
        Command::Wait(args) => wait::run(&global, &args).await,
        Command::Kubeconfig(args) => kubeconfig::run(&global, &args),
        Command::Config(command) => config::run(&global, command).await,
        Command::Phase(PhaseCommand::List(output)) => phase::list(output.output),
        Command::Logs(args) => logs::run(&global, args).await,
        Command::Images(command) => match command {
            ImagesCommand::List { version, output } => images::list(&version, output.output).await,
            ImagesCommand::Ensure { version, archive, node_kind, kubevirtci, registry, kine } => {
                images::ensure(&version, archive, node_kind, kubevirtci, registry, kine).await
            }
            ImagesCommand::Build { version, images } => images::build(&version, &images).await,
            ImagesCommand::Save { version, dir } => images::save(&version, &dir).await,
            ImagesCommand::Load { dir } => images::load(&dir).await,
        },
        Command::Snapshot(command) => snapshot::run(&global, command).await,
        Command::Node(command) => node::run(&global, command).await,
        Command::JoinCommand(args) => node::join(&global, &args).await,
        Command::Certs(command) => certs::run(&global, command).await,
        Command::Token(command) => token::run(&global, command).await,
        Command::Kubectl(args) => kubectl::run(&global, args).await,
        Command::Kubevirtci(args) => crate::kubevirtci::run(args).await,
        Command::Version(output) => version::run(output.output),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "hoist", &mut script);
            Ok(report::data(script)?)
        }
        Command::HostFacts { volume } => Ok(crate::host::print(&volume)?),
        Command::Docs { dir } => docs::write(&dir),
        Command::Steward { health } => steward::run(health).await,
    }
}

/// Logs go to stderr; without options only what hoist itself warns of.
fn log(global: &Global) {
    let default = match global.verbose {
        // The client library calls every refusal an error, where hoist only asks again.
        0 => "hoist=warn,hoist_phases=warn",
        1 => "info,kube_client=off,hoist=debug,hoist_phases=debug",
        _ => "debug,hoist=trace,hoist_phases=trace",
    };
    let filter = global.log.as_deref().unwrap_or(default);
    let filter = tracing_subscriber::EnvFilter::try_new(filter).unwrap_or_else(|error| {
        report::tell(format_args!(
            "warning: log filter {filter:?} is not understood ({error}), using {default:?}"
        ));
        tracing_subscriber::EnvFilter::new(default)
    });
    let subscriber = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    let subscriber = subscriber.with_ansi(report::colour(global.no_color));
    let subscriber = subscriber.event_format(report::log::Lines(global.log_format));
    // An error means that a test has installed one already.
    let _ = subscriber.try_init();
}
