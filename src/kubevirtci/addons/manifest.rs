//! A manifest: what the flags change in it, and its way into the cluster.

use std::path::Path;

use super::super::args::RunArgs;
use super::super::{Cluster, guest};
use super::KUBECTL;
use crate::error::BoxError;

/// Ends a manifest within a script. No YAML document goes on with such a line.
const END: &str = "END-OF-MANIFEST";

/// Applies it on node01.
///
/// # Errors
/// With what kubectl said last.
pub(super) async fn apply(cluster: &Cluster, path: &Path, text: &str) -> Result<(), BoxError> {
    guest::script(cluster, 1, &format!("apply {}", path.display()), &applied(text)).await?;
    Ok(())
}

/// Applies a manifest, and waits until the server serves the kinds that it defines. An operator's
/// webhook may need a moment before it lets its resources in: it is tried for as long as gocli tries.
fn applied(text: &str) -> String {
    let mut script = format!(
        "manifest=$(mktemp)\n\
         cat >$manifest <<'{END}'\n{text}\n{END}\n\
         deadline=$((SECONDS + 60))\n\
         until {KUBECTL} apply --server-side --force-conflicts -f $manifest 2>&1; do\n\
         [ $SECONDS -lt $deadline ] || exit 1\n\
         sleep 0.2\n\
         done\n\
         rm $manifest\n"
    );
    if text.contains("kind: CustomResourceDefinition") {
        script += KUBECTL;
        script += " wait crd --all --for=condition=Established --timeout=120s 2>&1\n";
    }
    script
}

/// A manifest as the flags want it; nothing when it is left out.
pub(super) fn adapted(args: &RunArgs, path: &Path, text: &str) -> Option<String> {
    let on = &args.switches;
    let name = path.file_name()?.to_str()?;
    let without = |text: &str, key: &str| -> String {
        let lines = text.lines().filter(|line| !line.trim_start().starts_with(key));
        lines.map(|line| format!("{line}\n")).collect()
    };
    match name {
        "network-addons-config-example.cr.yaml" => {
            if on.skip_cnao_cr {
                return None;
            }
            let mut text = text.to_owned();
            if on.deploy_multus {
                text = without(&text, "multus:");
            }
            if !on.deploy_dnc {
                text = without(&text, "multusDynamicNetworks:");
            }
            Some(text)
        }
        "cdi-operator.yaml" if !args.cdi_version.is_empty() => Some(with_version(text, &args.cdi_version)),
        _ => Some(text.to_owned()),
    }
}

/// Replaces the version at the end of a line, such as an image's tag.
fn with_version(text: &str, version: &str) -> String {
    let is_version = |word: &str| {
        let mut parts = word.strip_prefix('v').unwrap_or_default().splitn(3, '.');
        let number = |part: Option<&str>| part.is_some_and(|p| p.starts_with(|c: char| c.is_ascii_digit()));
        number(parts.next()) && number(parts.next()) && number(parts.next())
    };
    let line = |line: &str| {
        let start = line.rfind([' ', ':', '"']).map_or(0, |at| at + 1);
        match line.get(start..) {
            Some(word) if is_version(word) => format!("{}{version}\n", line.get(..start).unwrap_or_default()),
            _ => format!("{line}\n"),
        }
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
#[expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test that can't go on must fail loudly"
)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::Command;

    use super::super::super::refuse::testing::args;
    use super::*;

    /// Runs a script with another kubectl; gives what it was called with, a line each.
    fn with_kubectl(kubectl: &str, script: &str) -> (Option<i32>, String) {
        let directory = tempfile::tempdir().unwrap();
        let program = directory.path().join("kubectl");
        std::fs::write(&program, format!("#!/bin/sh\necho \"$*\" >>$CALLS\n{kubectl}\n")).unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        let calls = directory.path().join("calls");
        let path = format!("{}:/usr/bin:/bin", directory.path().display());
        let mut command = Command::new("bash");
        command.args(["-euc", script]).env("PATH", path).env("CALLS", &calls);
        (command.status().unwrap().code(), std::fs::read_to_string(calls).unwrap())
    }

    #[test]
    fn a_manifest_is_applied_as_it_is() {
        let script = applied("text: \"it's $HOME \\\\ `date`\"");
        // The last word is the file.
        let kubectl = "case $* in *apply*) for file; do :; done; cat $file >>$CALLS; esac";
        let (code, calls) = with_kubectl(kubectl, &script);
        assert!(calls.ends_with("\ntext: \"it's $HOME \\\\ `date`\"\n"), "{calls}");
        assert_eq!(code, Some(0));
        // Waiting fails where there is nothing to wait for.
        assert!(!calls.contains(" wait "), "{calls}");
    }

    #[test]
    fn kinds_are_waited_for_and_a_webhook_that_is_not_up_is_tried_again() {
        let kubectl = "case $* in *apply*) [ $(grep -c apply $CALLS) = 3 ]; esac";
        let (code, calls) = with_kubectl(kubectl, &applied("kind: CustomResourceDefinition"));
        assert_eq!((code, calls.matches(" apply ").count()), (Some(0), 3), "{calls}");
        assert!(calls.lines().last().is_some_and(|call| call.contains(" wait crd --all ")), "{calls}");
    }

    #[test]
    fn manifests_follow_the_flags() {
        let cr = Path::new("network-addons-config-example.cr.yaml");
        let text = "spec:\n  multus: {}\n  multusDynamicNetworks: {}\n  linuxBridge: {}\n";
        let adapted = |flags: &[&str]| adapted(&args(flags), cr, text);
        assert_eq!(adapted(&["--skip-cnao-cr"]), None);
        assert_eq!(adapted(&["--deploy-multus"]).as_deref(), Some("spec:\n  linuxBridge: {}\n"));
        assert_eq!(adapted(&["--deploy-dnc"]).as_deref(), Some(text));
    }

    #[test]
    fn only_versions_at_the_end_of_a_line_are_replaced() {
        let text = "image: quay.io/a/cdi-operator:v1.63.1\nvalue: v1.63.1-rc.0\napiVersion: v1\nname: v1beta1.x.y v2\n";
        let wanted =
            "image: quay.io/a/cdi-operator:v1.70.0\nvalue: v1.70.0\napiVersion: v1\nname: v1beta1.x.y v2\n";
        assert_eq!(with_version(text, "v1.70.0"), wanted);
    }
}
