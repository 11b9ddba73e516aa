//! An OpenID Connect provider in a container of its own: tests/fixtures/issuer.

use std::process::Command;
use std::time::Duration;

use hoist_phases::ports::{ContainerSpec, Network, Runtime as _};
use serde_json::Value;

use super::program::Program;
use super::{Done, Hoist, block, engine, tell, until};

/// Container and image are removed in the end.
pub(crate) struct Issuer {
    container: String,
    /// Of the tokens' claim `iss`.
    pub(crate) url: String,
    /// Path of the PEM file of the authority that its certificate is of.
    pub(crate) ca: String,
    _image: Program,
}

/// What a token says beside who has made it.
#[derive(Clone, Copy)]
pub(crate) struct Token<'a> {
    pub(crate) algorithm: &'a str,
    /// As Go writes durations; it has expired when negative.
    pub(crate) lives: &'a str,
    /// Signed by somebody whose keys the issuer doesn't name.
    pub(crate) stranger: bool,
}

impl Issuer {
    /// Starts it on the engine's default network, where the control plane is too.
    pub(crate) fn start(hoist: &Hoist) -> Self {
        let image = Program::build("issuer", hoist.home());
        let container = format!("hoist-issuer-{}", std::process::id());
        let mut spec = ContainerSpec::new(&container, &image.image, Network::Own);
        spec.entrypoint = vec!["/issuer".to_owned()];
        spec.user = Some("65532:65532".to_owned());
        block(engine().create(&spec)).expect("the engine makes it");
        let mut issuer = Self { container, url: String::new(), ca: String::new(), _image: image };
        block(engine().start(&issuer.container)).expect("the engine starts it");
        let told: Value = until("the issuer listens", Duration::from_secs(30), || {
            let log = block(engine().logs(&issuer.container, 5)).expect("the engine answers");
            log.lines().find_map(|line| serde_json::from_str(line).ok()).ok_or(log)
        });
        let text = |field: &str| told[field].as_str().expect("the issuer tells it").to_owned();
        let ca = hoist.home().join("issuer.crt");
        std::fs::write(&ca, text("ca")).expect("the temporary directory is writable");
        issuer.url = text("issuer");
        issuer.ca = ca.display().to_string();
        issuer
    }

    /// A token for `alice`, who is in the groups `testers` and `system:masters`.
    pub(crate) fn token(&self, token: Token<'_>) -> String {
        let Token { algorithm, lives, stranger } = token;
        let url = format!(
            "{}/token?sub=alice&groups=testers,system:masters&alg={algorithm}&lives={lives}&stranger={stranger}",
            self.url
        );
        let mut curl = Command::new("curl");
        curl.args(["--silent", "--show-error", "--fail", "--noproxy", "*", "--cacert", &self.ca, &url]);
        let done = Done::of(curl);
        assert_eq!(done.code, Some(0), "{}", done.stderr);
        done.stdout
    }
}

impl Drop for Issuer {
    fn drop(&mut self) {
        if let Err(error) = block(engine().remove(&self.container)) {
            tell(&format!("container {} is left: {error}", self.container));
        }
    }
}
