//! Environment variables that hoist itself reads, each once and by its constant. Variables that
//! belong to other programs keep those programs' meaning.

/// Cluster name when `--name` isn't given and the configuration file has none.
pub const HOIST_NAME: &str = "HOIST_NAME";

/// Log filter when `--log` isn't given, in tracing-subscriber's syntax: `info`, `hoist::runtime=debug`.
pub const HOIST_LOG: &str = "HOIST_LOG";

/// Where `kubevirtci run` puts the control plane when `--control-plane` isn't given.
pub const HOIST_KUBEVIRTCI_CONTROL_PLANE: &str = "HOIST_KUBEVIRTCI_CONTROL_PLANE";

/// Tag, with its colon, of the cluster image when `kubevirtci run` gets no `--container-suffix`.
pub const HOIST_KUBEVIRTCI_SUFFIX: &str = "HOIST_KUBEVIRTCI_SUFFIX";

/// Directory of the manifests that the deploy flags of `kubevirtci run` install.
pub const HOIST_KUBEVIRTCI_MANIFESTS: &str = "HOIST_KUBEVIRTCI_MANIFESTS";

/// Proxies of this process, in the order that they are told. hoist asks the cluster and the engine without
/// them and gives them to no container; `doctor` names them.
pub const PROXIES: [&str; 6] =
    ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"];

/// Where the program ends itself by SIGKILL, in builds with the feature `faults` alone: `started:PHASE`,
/// `finished:PHASE`, or `call:N` after the N-th call to engine or API.
#[cfg(feature = "faults")]
pub const HOIST_FAULT: &str = "HOIST_FAULT";

/// Set and not empty: no colours (<https://no-color.org>).
pub const NO_COLOR: &str = "NO_COLOR";

/// kubectl's list of kubeconfig files, separated by `:`; `kubeconfig --merge` uses the first.
pub const KUBECONFIG: &str = "KUBECONFIG";

/// The user's home directory, for `~/.kube/config` and the XDG defaults.
pub const HOME: &str = "HOME";

/// Where kubectl binaries of the clusters' versions are kept (XDG Base Directory Specification).
pub const XDG_CACHE_HOME: &str = "XDG_CACHE_HOME";

/// Where keys and resolved configurations are kept (XDG Base Directory Specification); must be an
/// absolute path.
pub const XDG_STATE_HOME: &str = "XDG_STATE_HOME";

/// The value of a variable; an empty one counts as absent, as in the XDG specification.
pub fn value(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
