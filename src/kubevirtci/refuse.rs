//! What is asked for and can't be served is told by name, with what to use instead, before
//! anything is made.

use super::addons;
use super::args::RunArgs;
use crate::config::units;

/// All that can't be served, a line each.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("{}", .0.join("\n"))]
pub struct Refused(pub Vec<String>);

/// # Errors
/// When any flag can't be served.
pub(super) fn check(args: &RunArgs) -> Result<(), Refused> {
    let mut refused = Vec::new();
    let mut refuse = |flag: &str, why: &str| refused.push(format!("{flag}: {why}"));
    if !args.gpu.is_empty() {
        refuse(
            "--gpu",
            "host devices are not handed to nodes; use the provider kind-1.35-vgpu, or gocli of kubevirtci",
        );
    }
    if args.switches.deploy_aaq && args.cluster != "k8s-1.30" {
        // gocli installs it on that one provider and leaves it out on all others.
        crate::report::tell("--deploy-aaq: AAQ is installed on k8s-1.30 alone, left out");
    } else if args.switches.deploy_aaq {
        refuse("--deploy-aaq", "Kubernetes 1.30 is not supported; use gocli of kubevirtci");
    }
    if !matches!(args.vsock_child_ns_mode.as_str(), "" | "global" | "local") {
        refuse("--vsock-child-ns-mode", "must be global or local");
    }
    for (flag, value) in [("--memory", &args.memory), ("--etcd-capacity", &args.etcd_capacity)] {
        if units::bytes(value).is_err() {
            refuse(flag, &format!("{value:?} is no amount of memory such as 3096M or 1Gi"));
        }
    }
    for (flag, sizes) in [
        ("--nvme", &args.nvme),
        ("--scsi", &args.scsi),
        ("--usb", &args.usb),
        ("--shared-block-device", &args.shared_block_device),
    ] {
        for size in sizes.iter().filter(|size| units::bytes(size).is_err()) {
            refuse(flag, &format!("{size:?} is no size such as 5G"));
        }
    }
    refused.extend(addons::missing(args));
    if refused.is_empty() { Ok(()) } else { Err(Refused(refused)) }
}

#[cfg(test)]
#[expect(clippy::panic, reason = "a test that can't go on must fail loudly")]
pub(super) mod testing {
    use clap::{CommandFactory as _, FromArgMatches as _};

    use super::super::args::{KubevirtciArgs, KubevirtciCommand, RunArgs};

    #[derive(clap::Parser)]
    struct Line {
        #[command(flatten)]
        args: KubevirtciArgs,
    }

    /// The flags of `run k8s-1.36`.
    pub(crate) fn args(flags: &[&str]) -> RunArgs {
        let words = ["gocli", "run", "k8s-1.36"].iter().chain(flags);
        let matches = Line::command().get_matches_from(words);
        match Line::from_arg_matches(&matches).map(|line| line.args.command) {
            Ok(KubevirtciCommand::Run(args)) => *args,
            other => panic!("{:?}", other.map(|_| ())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::testing::args;
    use super::*;

    #[test]
    fn everything_refused_is_told_at_once() {
        let bad = args(&["--gpu=0000:65:00.0", "--vsock-child-ns-mode=x", "--memory=much", "--nvme=big"]);
        let Refused(lines) = check(&bad).err().unwrap_or(Refused(Vec::new()));
        for flag in ["--gpu", "--vsock-child-ns-mode", "--memory", "--nvme"] {
            assert!(lines.iter().any(|line| line.starts_with(&format!("{flag}: "))), "{flag}: {lines:?}");
        }
    }

    #[test]
    fn the_line_that_cluster_up_makes_is_understood() {
        let line = "--no-etcd-fsync --flannel --run-etcd-on-memory --etcd-capacity 2G --dns-port 31111 --nodes 2 \
                    --memory 11264M --numa 1 --cpu 6 --secondary-nics 0 --random-ports --background \
                    --prefix k8s-1.36 --ocp-port 8443 --enable-psa --enable-audit --single-stack=false";
        let args = args(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(check(&args), Ok(()));
        assert!(args.switches.flannel && args.switches.random_ports && args.background);
        assert!(!args.switches.single_stack);
        assert_eq!((args.nodes, args.ports.dns_port, args.ports.ocp_port), (2, Some(31_111), Some(8443)));
    }
}
