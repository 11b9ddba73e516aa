//! Flags of what looks at a cluster and waits for it.

use std::path::PathBuf;

use clap::Args;

use super::OutputArgs;

/// What `report` is to do.
#[derive(Debug, Clone, Args)]
pub struct ReportArgs {
    /// How long to watch
    #[arg(long = "for", value_name = "DURATION", default_value = "10s")]
    pub duration: String,
    /// Write a page with bars as well
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Clone, Args)]
pub struct DoctorArgs {
    /// Configuration file of a cluster that is to be made here; `-` reads stdin [default: the cluster's
    /// own settings, or what `up` would take]
    #[arg(short = 'f', long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Clone, Args)]
pub struct ExportArgs {
    /// A directory that is new or empty
    #[arg(value_name = "DIR")]
    pub directory: PathBuf,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Clone, Args)]
pub struct WaitArgs {
    /// `deployment/NAME` (all replicas are of the newest revision and ready),
    /// `deployment/NAME=min-ready:N` (at least N are ready), or `level=LEVEL` as of `up --wait`
    /// (repeatable)
    #[arg(long = "for", required = true, value_name = "WHAT")]
    pub awaited: Vec<String>,
    /// Namespace of the Deployments
    #[arg(short, long, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,
    /// Time for all of them together
    #[arg(long, value_name = "DURATION", default_value = "5m")]
    pub timeout: String,
}

#[derive(Debug, Clone, Args)]
pub struct LogsArgs {
    /// A component (`etcd`, `kube-apiserver`, …) or node (`node01`)
    pub of: String,
    /// Go on with what is written from now on
    #[arg(short, long)]
    pub follow: bool,
    /// Number of lines from the end
    #[arg(long, value_name = "LINES", default_value_t = 1000)]
    pub tail: u32,
}
