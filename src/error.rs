//! Errors as people read them: the chain of causes, one a line, and what to do about it.

use std::error::Error;
use std::fmt::Write as _;

use hoist_phases::phases::preflight::PreflightError;
use hoist_phases::ports::RuntimeError;
use hoist_phases::spec::KubernetesVersion;

use crate::cli::{CertsDue, NotWell, SessionError, UpError};
use crate::cluster::ready::ReadyError;
use crate::cluster::status::Overall;
use crate::config::Conflict;
use crate::files::FileError;
use crate::images::{REPOSITORY, Role};
use crate::runtime::ConnectError;
use crate::store::StateError;

/// Any error of a command. What it means to a caller is decided in [`crate::exit`], what to do
/// about it in [`hints`].
pub type BoxError = Box<dyn Error + Send + Sync>;

/// An error and everything that caused it, outermost first.
pub fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// The chain and its hints as text that ends with a newline.
pub fn render(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    for (depth, error) in chain(error).enumerate() {
        let label = if depth == 0 { "error" } else { "  caused by" };
        // A message of several lines stays readable under its label.
        let message = error.to_string().replace('\n', "\n    ");
        let _ = writeln!(text, "{label}: {message}");
    }
    for hint in hints(error) {
        let _ = writeln!(text, "hint: {hint}");
    }
    text
}

/// What the user can do, from anywhere in the chain; the same advice is given once.
pub fn hints(error: &(dyn Error + 'static)) -> Vec<String> {
    let mut hints = Vec::new();
    for hint in chain(error).flat_map(of_one) {
        if !hints.contains(&hint) {
            hints.push(hint);
        }
    }
    hints
}

fn of_one(error: &(dyn Error + 'static)) -> Vec<String> {
    if let Some(error) = error.downcast_ref::<ConnectError>() {
        return vec![error.hint()];
    }
    if let Some(error) = error.downcast_ref::<StateError>() {
        return error.hint().into_iter().collect();
    }
    if let Some(error) = error.downcast_ref::<FileError>() {
        return error.hint().into_iter().collect();
    }
    if let Some(error) = error.downcast_ref::<Conflict>() {
        return error.hints();
    }
    if let Some(error) = error.downcast_ref::<SessionError>() {
        return match error {
            SessionError::NoCluster(_) => {
                vec!["`hoist list` shows what is there, `hoist up` makes one".to_owned()]
            }
            SessionError::NoKubeconfig(name) => {
                vec![format!("`hoist up --name {name}` finishes the cluster")]
            }
            SessionError::Encoding(name) | SessionError::Orphan { name, .. } => {
                vec![format!("`hoist down --name {name}` removes what is left, then `hoist up` again")]
            }
        };
    }
    if let Some(NotWell { cluster, overall: Overall::Paused }) = error.downcast_ref() {
        return vec![format!("`hoist resume --name {cluster}` lets it go on, `hoist up` too")];
    }
    if let Some(CertsDue { cluster, .. }) = error.downcast_ref() {
        return vec![format!(
            "`hoist certs renew --name {cluster}` renews all but the authorities, `hoist up` what is due"
        )];
    }
    if error.is::<NotWell>() {
        return vec!["`hoist up` mends what it can, `hoist logs` shows why".to_owned()];
    }
    if let Some(error) = error.downcast_ref::<PreflightError>() {
        return error.missing_images().map(ensure_images).into_iter().collect();
    }
    if let Some(RuntimeError::ImageMissing(image)) = error.downcast_ref() {
        return vec![ensure_images(std::slice::from_ref(image))];
    }
    if let Some(UpError::NotReady(ReadyError::Deadline { .. })) = error.downcast_ref() {
        return vec!["--timeout gives it longer; `hoist up` takes --wait, which asks for less".to_owned()];
    }
    if let Some(UpError::Timeout { .. }) = error.downcast_ref() {
        return vec!["--timeout gives it longer".to_owned()];
    }
    Vec::new()
}

/// Which command gets images; those of virtual machines and of other versions are got on request alone.
fn ensure_images(missing: &[String]) -> String {
    let vm = format!("{REPOSITORY}/{}:", Role::Vm.name());
    let kind = if missing.iter().any(|image| image.starts_with(&vm)) { " --node-kind vm" } else { "" };
    let asked = |role: Role, flag| {
        let image = format!("{REPOSITORY}/{}:", role.name());
        if missing.iter().any(|missing| missing.starts_with(&image)) { flag } else { "" }
    };
    let (kine, registry) = (asked(Role::Kine, " --kine"), asked(Role::Registry, " --registry"));
    let own = missing.iter().filter(|image| image.starts_with(REPOSITORY));
    let version =
        own.filter_map(|image| image.rsplit(':').next()).find_map(|tag| KubernetesVersion::parse(tag).ok());
    let version = version.filter(|version| *version != KubernetesVersion::DEFAULT);
    let version = version.map(|version| format!(" --kubernetes {version}")).unwrap_or_default();
    format!("`hoist images ensure{kind}{registry}{kine}{version}` gets or builds what is missing")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cluster::ready::Level;

    #[test]
    fn the_image_of_virtual_machines_is_asked_for_by_their_kind() {
        let hint = |name: &str| ensure_images(&[format!("localhost/hoist/{name}:v1.36.3")]);
        assert_eq!(hint("vm"), "`hoist images ensure --node-kind vm` gets or builds what is missing");
        assert_eq!(hint("kine"), "`hoist images ensure --kine` gets or builds what is missing");
        assert_eq!(hint("registry"), "`hoist images ensure --registry` gets or builds what is missing");
        assert_eq!(hint("node"), "`hoist images ensure` gets or builds what is missing");
    }

    #[test]
    fn a_deadline_is_told_with_the_flag_that_moves_it() {
        let (level, deadline) = (Level::Nodes, Duration::from_secs(9));
        let unready = UpError::NotReady(ReadyError::Deadline { level, deadline, last: "none".to_owned() });
        let slow = UpError::Timeout { timeout: deadline, running: Vec::new() };
        for error in [unready, slow] {
            let error: BoxError = error.into();
            assert!(render(error.as_ref()).contains("\nhint: --timeout gives it longer"), "{error}");
        }
    }

    #[test]
    fn images_of_another_version_are_asked_for_by_it() {
        let hint = ensure_images(&["localhost/hoist/etcd:v1.35.4".to_owned()]);
        assert_eq!(hint, "`hoist images ensure --kubernetes v1.35.4` gets or builds what is missing");
    }
}
