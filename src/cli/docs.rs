//! Reference pages that are made from the code, so that they can't say anything else than it.

mod versions;

use std::fmt::Write as _;
use std::path::Path;

use clap::CommandFactory as _;

use super::args::Cli;
use crate::cluster::doctor::{CHECKS, Check, Scope};
use crate::error::BoxError;
use crate::{exit, files};

/// Readable by everybody, as all of a source tree.
const MODE: u32 = 0o644;

/// Name and content of every generated page.
pub fn pages() -> [(&'static str, String); 4] {
    [
        ("cli.md", cli()),
        ("doctor.md", doctor()),
        ("exit-codes.md", exit_codes()),
        ("versions.md", versions::page()),
    ]
}

pub(super) fn write(directory: &Path) -> Result<(), BoxError> {
    for (name, content) in pages() {
        files::write(&directory.join(name), content.as_bytes(), MODE)?;
    }
    Ok(())
}

fn exit_codes() -> String {
    let mut page =
        "# Exit codes\n\nMade from `src/exit.rs` by `hoist docs`.\n\n| code | meaning |\n| --- | --- |\n"
            .to_owned();
    for (code, meaning) in exit::CODES {
        let _ = writeln!(page, "| {} | {meaning} |", code.0);
    }
    page
}

fn doctor() -> String {
    let mut page = "# What `hoist doctor` looks at\n\nMade from `src/cluster/doctor/mod.rs` by `hoist docs`.\n\n\
                    `hoist doctor` looks at the engine and its host; at a cluster too, when one of that name is \
                    there. What only the engine's host can tell is read there by a container that is gone at \
                    once: it has the host's network and list of processes, the capability NET_ADMIN where the \
                    engine gives it (the packet filter cannot be read without), nothing of the host mounted, and a read-only root. \
                    `--config FILE` judges the host for a cluster that is still to be made.\n\n\
                    Each check is `ok`, `warn`, `fail`, `skipped` (there is nothing to look at) or `unknown` \
                    (it could not be found out), with what was measured or why not; what is wrong comes with a \
                    remedy. `-o json` prints all of it. The exit code is 9 when a check fails, else 0: \
                    warnings and what is unknown don't change it.\n\n\
                    | check | what should be true | when it isn't |\n| --- | --- | --- |\n"
        .to_owned();
    for Check { id, summary, bounds, scope, .. } in CHECKS {
        let scope = if *scope == Scope::Cluster { " (of a cluster)" } else { "" };
        let _ = writeln!(page, "| `{id}`{scope} | {summary} | {bounds} |");
    }
    page
}

fn cli() -> String {
    let mut page =
        "# Command line\n\nMade from `src/cli/args/` by `hoist docs`. Data goes to stdout, everything \
                    else to stderr; see [exit-codes.md](exit-codes.md) for the exit codes.\n"
            .to_owned();
    let mut root = Cli::command().term_width(100);
    root.build();
    describe(&mut page, &root, &mut vec![root.get_name().to_owned()]);
    page
}

fn describe(page: &mut String, command: &clap::Command, path: &mut Vec<String>) {
    let mut shown = command.clone();
    let help = shown.render_long_help().to_string();
    // clap ends some lines with blanks.
    let lines: Vec<_> = help.lines().map(str::trim_end).collect();
    let _ = write!(page, "\n## {}\n\n```text\n{}\n```\n", path.join(" "), lines.join("\n").trim_end());
    for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set() && sub.get_name() != "help") {
        path.push(sub.get_name().to_owned());
        describe(page, sub, path);
        path.pop();
    }
}
