//! Flags of what lets people and machines into a cluster.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::OutputArgs;

#[derive(Debug, Clone, Default, Args)]
pub struct KubeconfigArgs {
    /// Write it to this file (mode 0600) rather than to stdout
    #[arg(long, value_name = "FILE", conflicts_with = "merge")]
    pub write: Option<PathBuf>,
    /// Merge it into the user's: $KUBECONFIG's first file, or ~/.kube/config
    #[arg(long)]
    pub merge: bool,
    /// Take out of the user's what an earlier merge put there
    #[arg(long, conflicts_with_all = ["write", "merge"])]
    pub unmerge: bool,
    /// With --merge: make it the current context
    #[arg(long, requires = "merge")]
    pub switch: bool,
}

#[derive(Debug, Clone, Args)]
pub struct JoinCommandArgs {
    /// Lifetime of the token: `24h`, `90m`, 0 for ever
    #[arg(long, value_name = "DURATION", default_value = "24h")]
    pub token_ttl: String,
    #[command(flatten)]
    pub output: OutputArgs,
}

#[derive(Debug, Subcommand)]
pub enum TokenCommand {
    /// Make a token and print it
    Create {
        /// Lifetime: `24h`, `90m`, 0 for ever
        #[arg(long, value_name = "DURATION", default_value = "24h")]
        ttl: String,
        /// What it is for, shown by `list`
        #[arg(long, value_name = "TEXT")]
        description: Option<String>,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// List the tokens that are there, by id
    List {
        /// Show the secret half too: whoever has it can join machines
        #[arg(long)]
        show_secret: bool,
        #[command(flatten)]
        output: OutputArgs,
    },
    /// Delete tokens; nodes that have joined stay
    Delete {
        /// Ids such as `abcdef`, or whole tokens
        #[arg(required = true, value_name = "TOKEN")]
        tokens: Vec<String>,
    },
}

#[derive(Debug, Subcommand)]
pub enum CertsCommand {
    /// Tell when each certificate ends, the kubelets' own too; exit code 9 when one has to be renewed
    Check(OutputArgs),
    /// Issue all certificates but the CAs' anew, and start the components again with them; nodes
    /// stay joined
    Renew {
        /// Replace the CAs as well, a CA of yours by one of hoist's; nodes that hoist runs stay joined, and go on
        #[arg(long)]
        ca: bool,
        /// With --ca: go on although there are nodes that hoist doesn't run, which have to join anew
        #[arg(long, requires = "ca")]
        others_rejoin: bool,
    },
}

#[derive(Debug, Clone, Args)]
pub struct KubectlArgs {
    /// Arguments of kubectl
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGS")]
    pub args: Vec<std::ffi::OsString>,
}
