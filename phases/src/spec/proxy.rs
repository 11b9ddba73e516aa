use serde::{Deserialize, Serialize};

use super::{ClusterSpec, REGISTRY_HOST, Secret};

/// The proxies through which nodes pull images; none unless asked for. Addresses may hold a password.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Proxy {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub http: Option<Secret>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub https: Option<Secret>,
    /// What is reached directly, beside what is the cluster's own.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub no_proxy: Vec<String>,
}

impl Proxy {
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// The addresses and exceptions, without users and passwords, for people to read.
    pub fn shown(&self) -> [(&'static str, String); 3] {
        let address = |address: &Option<Secret>| address.as_ref().map(|url| without_user(url.expose()));
        [
            ("http", address(&self.http).unwrap_or_default()),
            ("https", address(&self.https).unwrap_or_default()),
            ("noProxy", self.no_proxy.join(",")),
        ]
    }

    /// The environment of a program of this cluster that goes through them; empty without any.
    pub fn environment(&self, spec: &ClusterSpec) -> Vec<(&'static str, String)> {
        let addresses = [("HTTP_PROXY", &self.http), ("HTTPS_PROXY", &self.https)];
        let given =
            addresses.into_iter().filter_map(|(name, url)| Some((name, url.as_ref()?.expose().to_owned())));
        let mut variables: Vec<_> = given.collect();
        if !variables.is_empty() {
            variables.push(("NO_PROXY", self.exceptions(spec).join(",")));
        }
        variables
    }

    /// What a proxy can't reach: it stands outside of the cluster.
    fn exceptions(&self, spec: &ClusterSpec) -> Vec<String> {
        let networking = &spec.networking;
        let own = ["localhost", "127.0.0.0/8", "::1", ".svc"].map(str::to_owned).into_iter();
        let ranges = networking.families().map(|family| family.node_subnet());
        let ranges = ranges.chain(networking.pod_subnet.iter()).chain(networking.service_subnet.iter());
        let registry = spec.registry.map(|_| REGISTRY_HOST.to_owned());
        let own = own.chain([format!(".{}", networking.dns_domain)]).chain(registry);
        let own = own.chain(ranges.map(|range| range.to_string()));
        self.no_proxy.iter().cloned().chain(own).collect()
    }
}

/// The address of a proxy without the user and password that may be in it.
pub fn without_user(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((before, host)) => {
            let scheme = before.split_once("://").map(|(scheme, _)| format!("{scheme}://"));
            format!("{}{host}", scheme.unwrap_or_default())
        }
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phases::addon::testing;

    #[test]
    fn what_is_the_clusters_own_is_reached_directly() -> Result<(), Box<dyn std::error::Error>> {
        let mut spec = testing::dual_stack()?;
        assert_eq!(spec.proxy.environment(&spec), []);
        spec.networking.dns_domain = "a.example".to_owned();
        let proxy = Proxy {
            https: Some(Secret::new("http://me:hush@proxy.example:3128")),
            no_proxy: vec!["mirror.example".to_owned()],
            ..Proxy::default()
        };
        let variables = proxy.environment(&spec);
        let direct = "mirror.example,localhost,127.0.0.0/8,::1,.svc,.a.example,192.168.66.0/24,fd00::/64,\
                      10.244.0.0/16,fd10:244::/56,10.96.0.0/12,fd10:96::/112";
        assert_eq!(
            variables,
            [
                ("HTTPS_PROXY", "http://me:hush@proxy.example:3128".to_owned()),
                ("NO_PROXY", direct.to_owned())
            ]
        );
        assert!(!format!("{proxy:?} {:?}", proxy.shown()).contains("hush"));
        Ok(())
    }
}
