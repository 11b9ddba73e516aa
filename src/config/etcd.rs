//! Where the API's objects are kept: etcd, kine, or an etcd elsewhere with the keys to it.

use std::path::{Path, PathBuf};

use hoist_phases::spec::{Backend, ClusterName, EtcdSpec, ExternalEtcd, Secret};

use super::document::Document;
use super::file::{EtcdFile, ExternalEtcdFile};
use super::pem;
use super::problem::{Problem, Problems};
use super::resolve::converted;
use super::units;

/// What is in the files that `etcd.external` names, as PEM.
#[derive(Debug, Default)]
pub(super) struct Keys {
    ca: Option<String>,
    cert: Option<String>,
    key: Option<Secret>,
}

/// Reads those files; what is wrong with them is noted.
pub(super) fn keys(document: &mut Document) -> Keys {
    let ExternalEtcdFile { ca, cert, key, .. } = document.file.etcd.external.clone();
    type Read = fn(&str, &Path) -> Result<String, Problem>;
    let mut read = |field: &str, read: Read, path: Option<PathBuf>| {
        let path = document.base(field).join(path?);
        document.problems.keep(read(field, &path))
    };
    // That they fit is seen when the etcd is asked.
    Keys {
        ca: read("etcd.external.ca", pem::certificates, ca),
        cert: read("etcd.external.cert", pem::certificates, cert),
        key: read("etcd.external.key", pem::private_key, key).map(Secret::new),
    }
}

/// Puts what the file says into the specification.
pub(super) fn apply(
    spec: &mut EtcdSpec,
    cluster: &ClusterName,
    file: EtcdFile,
    keys: Keys,
    problems: &mut Problems,
) {
    let EtcdFile { backend, external, durable, fsync, tmpfs_size, quota } = file;
    let said = [
        ("etcd.durable", durable.map(|durable| durable.to_string())),
        ("etcd.fsync", fsync.map(|fsync| fsync.to_string())),
        ("etcd.tmpfsSize", tmpfs_size.clone()),
        ("etcd.quota", quota.clone()),
    ];
    backend_of(spec, cluster, backend, external, keys, problems);
    for (field, value) in said {
        let rule = match &spec.backend {
            Backend::External(_) => {
                "beside etcd.external it has no meaning: whoever runs that etcd decides it"
            }
            Backend::Kine if field == "etcd.quota" => {
                "kine has no quota; in memory etcd.tmpfsSize bounds it, on disk nothing does"
            }
            _ => continue,
        };
        if let Some(value) = value {
            problems.push(Problem::new(field, value, rule));
        }
    }
    if durable == Some(true) && !spec.durable {
        // A new cluster: the default so far is what fits into the tmpfs.
        spec.quota_bytes = EtcdSpec::DURABLE_QUOTA;
    }
    spec.durable = durable.unwrap_or(spec.durable);
    spec.fsync = fsync.or(spec.fsync);
    let sizes =
        [("etcd.tmpfsSize", tmpfs_size, &mut spec.tmpfs_bytes), ("etcd.quota", quota, &mut spec.quota_bytes)];
    for (field, text, bytes) in sizes {
        if let Some(size) = text.and_then(|text| problems.keep(converted(field, &text, units::bytes))) {
            *bytes = size;
        }
    }
}

fn backend_of(
    spec: &mut EtcdSpec,
    cluster: &ClusterName,
    backend: Option<String>,
    file: ExternalEtcdFile,
    keys: Keys,
    problems: &mut Problems,
) {
    let present = spec.backend.external().cloned();
    let wants_external = file != ExternalEtcdFile::default();
    if let Some(text) = &backend {
        match text.as_str() {
            _ if wants_external => problems.push(Problem::new(
                "etcd.backend",
                text,
                "beside etcd.external there is no etcd of the cluster's own; leave one of the two out",
            )),
            "etcd" => spec.backend = Backend::Etcd,
            "kine" => spec.backend = Backend::Kine,
            _ => {
                problems.push(Problem::new("etcd.backend", format_args!("{text:?}"), "must be etcd or kine"))
            }
        }
    }
    if !wants_external {
        return;
    }
    let ExternalEtcdFile { endpoints, prefix, ca, cert, key } = file;
    let named = [("ca", ca.is_some()), ("cert", cert.is_some()), ("key", key.is_some())];
    for endpoint in endpoints.iter().flatten() {
        problems.keep(endpoint_of(endpoint));
    }
    let prefix = prefix.map(|text| problems.keep(prefix_of(&text)).unwrap_or(text));
    let given = endpoints.filter(|endpoints| !endpoints.is_empty());
    if given.is_none() && present.is_none() {
        problems
            .push(Problem::of("etcd.external.endpoints", "must name an etcd, such as https://10.0.0.5:2379"));
    }
    if present.is_none() {
        for (field, _) in named.into_iter().filter(|(_, named)| !named) {
            let rule = "must name a file with PEM: an etcd is only spoken to with TLS, and with a client's certificate";
            problems.push(Problem::of(&format!("etcd.external.{field}"), rule));
        }
    }
    let base = present.unwrap_or_else(|| ExternalEtcd {
        endpoints: Vec::new(),
        // Of no two clusters of one machine the same; on another one may have this name too (docs/configuration.md).
        prefix: format!("/hoist/{cluster}"),
        ca: String::new(),
        cert: String::new(),
        key: Secret::new(""),
    });
    spec.backend = Backend::External(ExternalEtcd {
        endpoints: given.unwrap_or(base.endpoints),
        prefix: prefix.unwrap_or(base.prefix),
        ca: keys.ca.unwrap_or(base.ca),
        cert: keys.cert.unwrap_or(base.cert),
        key: keys.key.unwrap_or(base.key),
    });
}

/// `https://HOST:PORT`, of a host that isn't the namespace itself.
fn endpoint_of(text: &str) -> Result<(), Problem> {
    let problem = |rule| Problem::new("etcd.external.endpoints", format_args!("{text:?}"), rule);
    let rest = text
        .strip_prefix("https://")
        .ok_or_else(|| problem("must be https://HOST:PORT; an etcd without TLS is not spoken to"))?;
    let (host, port) = rest.rsplit_once(':').unwrap_or((rest, ""));
    let plain = host.trim_start_matches('[').trim_end_matches(']');
    let wrong = |c: char| c.is_whitespace() || "/@,?#".contains(c);
    if plain.is_empty() || host.contains(wrong) || port.parse::<u16>().ok().is_none_or(|port| port == 0) {
        return Err(problem("must be https://HOST:PORT and nothing more"));
    }
    let address = plain.parse::<std::net::IpAddr>().ok();
    if plain == "localhost" || address.is_some_and(|ip| ip.is_loopback() || ip.is_unspecified()) {
        return Err(problem(
            "the control plane has a loopback of its own; name an address that the engine's containers reach",
        ));
    }
    Ok(())
}

fn prefix_of(text: &str) -> Result<String, Problem> {
    let valid = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
    let right = text.len() > 1 && text.starts_with('/') && !text.ends_with('/') && text.chars().all(valid);
    // Each between two slashes: neither nothing nor a step elsewhere.
    if right && text.split('/').skip(1).all(|part| !["", ".", ".."].contains(&part)) {
        return Ok(text.to_owned());
    }
    let rule = "must be a path such as /hoist/one: letters, digits, '-', '_' and '.', no '/' at its end, no '.' or '..' for a name";
    Err(Problem::new("etcd.external.prefix", format_args!("{text:?}"), rule))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_urls_with_tls_of_another_host() {
        for good in ["https://10.0.0.5:2379", "https://etcd.example.org:2379", "https://[fd00::5]:2379"] {
            assert_eq!(endpoint_of(good), Ok(()), "{good}");
        }
        for bad in [
            "http://10.0.0.5:2379",
            "10.0.0.5:2379",
            "https://10.0.0.5",
            "https://10.0.0.5:0",
            "https://10.0.0.5:2379/v3",
            "https://u@10.0.0.5:2379",
            "https://127.0.0.1:2379",
            "https://[::1]:2379",
            "https://localhost:2379",
            "https://:2379",
        ] {
            assert!(endpoint_of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_prefix_is_a_path() {
        for good in ["/a", "/registry", "/hoist/one-2", "/a/.b/c..d"] {
            assert!(prefix_of(good).is_ok(), "{good}");
        }
        for bad in ["", "/", "a", "/a/", "/a b", "//a", "/a//b", "/a/..", "/../a", "/a/./b"] {
            assert!(prefix_of(bad).is_err(), "{bad}");
        }
    }
}
