//! What the engine and its host are, and which images it holds.

use futures_util::future::try_join_all;
use hoist_phases::ports::{EngineInfo, RuntimeError};
use ipnet::IpNet;

use super::Engine;
use super::trouble::status;

/// What the making of a container depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) podman: bool,
    pub(super) version: String,
    pub(super) cpus: u32,
    pub(super) memory_bytes: u64,
    /// Whether memory and swap can be limited together.
    pub(super) swap_limit: bool,
}

impl Facts {
    fn product(&self) -> &'static str {
        if self.podman { "podman" } else { "docker" }
    }
}

/// Engines name machines as uname(1) does, images are named as Go does.
fn go_architecture(machine: &str) -> &str {
    match machine {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "armv7l" => "arm",
        "i686" | "i386" => "386",
        other => other,
    }
}

/// What an engine says of itself and its host, for whoever looks for trouble.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct About {
    pub product: String,
    pub version: String,
    pub api_version: String,
    pub endpoint: String,
    /// As in Go: `amd64`, `arm64`.
    pub architecture: String,
    /// `1` or `2`.
    pub cgroup_version: Option<String>,
    pub cgroup_driver: Option<String>,
    pub memory_bytes: u64,
    /// The engine's own clock, RFC 3339.
    pub time: Option<String>,
    /// The proxies that the engine itself uses: HTTP, HTTPS, and what it reaches without them.
    pub proxies: [Option<String>; 3],
    /// By name; one with several subnets appears several times.
    pub networks: Vec<(String, IpNet)>,
}

impl Engine {
    /// Asks anew: what is told may change.
    ///
    /// # Errors
    /// When the engine doesn't answer.
    pub async fn about(&self) -> Result<About, RuntimeError> {
        let info = async {
            let info = self.docker.info().await;
            info.map_err(|e| self.failed("ask about", "the container engine", e))
        };
        let (facts, networks, info) = tokio::try_join!(self.facts(), self.networks(), info)?;
        let filled = |text: Option<String>| text.filter(|text| !text.is_empty());
        let machine = info.architecture.unwrap_or_default();
        Ok(About {
            product: facts.product().to_owned(),
            version: facts.version.clone(),
            api_version: self.docker.client_version().to_string(),
            endpoint: self.endpoint.to_string(),
            architecture: go_architecture(&machine).to_owned(),
            cgroup_version: info
                .cgroup_version
                .map(|version| version.to_string())
                .and_then(|v| filled(Some(v))),
            cgroup_driver: info.cgroup_driver.map(|driver| driver.to_string()).and_then(|d| filled(Some(d))),
            memory_bytes: facts.memory_bytes,
            time: filled(info.system_time),
            proxies: [info.http_proxy, info.https_proxy, info.no_proxy].map(filled),
            networks,
        })
    }

    /// Architecture of each of these images that the store has.
    ///
    /// # Errors
    /// When the engine doesn't answer.
    pub async fn architectures(
        &self,
        references: &[String],
    ) -> Result<Vec<(String, Option<String>)>, RuntimeError> {
        let looks = references.iter().map(|reference| async move {
            match self.docker.inspect_image(reference).await {
                Ok(image) => Ok((reference.clone(), image.architecture)),
                Err(error) if status(&error) == Some(404) => Ok((reference.clone(), None)),
                Err(error) => Err(self.failed("look for image", reference, error)),
            }
        });
        try_join_all(looks).await
    }

    pub(super) async fn facts(&self) -> Result<&Facts, RuntimeError> {
        self.facts.get_or_try_init(|| self.ask()).await
    }

    async fn ask(&self) -> Result<Facts, RuntimeError> {
        let asked = async { tokio::try_join!(self.docker.info(), self.docker.version()) };
        let (info, version) = asked.await.map_err(|e| self.failed("ask about", "the container engine", e))?;
        let components = version.components.unwrap_or_default();
        Ok(Facts {
            podman: components.iter().any(|component| component.name.starts_with("Podman")),
            version: version.version.unwrap_or_default(),
            cpus: info.ncpu.and_then(|n| u32::try_from(n).ok()).unwrap_or_default(),
            memory_bytes: info.mem_total.and_then(|n| u64::try_from(n).ok()).unwrap_or_default(),
            swap_limit: info.swap_limit.unwrap_or_default(),
        })
    }

    pub(super) async fn engine_info(&self) -> Result<EngineInfo, RuntimeError> {
        let (facts, networks) = tokio::try_join!(self.facts(), self.networks())?;
        Ok(EngineInfo {
            product: facts.product().to_owned(),
            version: facts.version.clone(),
            api_version: self.docker.client_version().to_string(),
            cpus: facts.cpus,
            memory_bytes: facts.memory_bytes,
            networks,
        })
    }

    /// The engine's networks by name; one with several subnets appears several times.
    ///
    /// # Errors
    /// When the engine doesn't answer.
    pub async fn networks(&self) -> Result<Vec<(String, IpNet)>, RuntimeError> {
        let networks = self.docker.list_networks(None).await;
        let networks = networks.map_err(|e| self.failed("list", "the engine's networks", e))?;
        let mut subnets = Vec::new();
        for network in networks {
            let name = network.name.unwrap_or_default();
            let configs = network.ipam.and_then(|ipam| ipam.config).unwrap_or_default();
            let nets = configs.iter().filter_map(|config| config.subnet.as_deref()?.parse().ok());
            subnets.extend(nets.map(|net| (name.clone(), net)));
        }
        subnets.sort();
        Ok(subnets)
    }

    pub(super) async fn images_missing(&self, references: &[String]) -> Result<Vec<String>, RuntimeError> {
        let missing = references.iter().map(|reference| async move {
            match self.docker.inspect_image(reference).await {
                Ok(_) => Ok(None),
                Err(error) if status(&error) == Some(404) => Ok(Some(reference.clone())),
                Err(error) => Err(self.failed("look for image", reference, error)),
            }
        });
        Ok(try_join_all(missing).await?.into_iter().flatten().collect())
    }
}
