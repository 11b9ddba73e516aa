//! Mirrors that nodes ask before a registry.

use std::collections::BTreeMap;

use hoist_phases::spec::{ClusterSpec, REGISTRY_HOST, REGISTRY_PORT};

use super::problem::{Problem, Problems};

/// Reads what flags say, `REGISTRY=URL` each. What is wrong with the parts is found with those of the
/// file.
pub(super) fn from_flags(flags: Vec<String>) -> BTreeMap<String, Vec<String>> {
    let mut mirrors = BTreeMap::<_, Vec<_>>::new();
    for flag in flags {
        let (registry, url) = flag.split_once('=').unwrap_or((&flag, &flag));
        mirrors.entry(registry.to_owned()).or_default().push(url.to_owned());
    }
    mirrors
}

pub(super) fn of(
    mirrors: BTreeMap<String, Vec<String>>,
    problems: &mut Problems,
) -> BTreeMap<String, Vec<String>> {
    for (registry, urls) in &mirrors {
        // It becomes the name of a directory on nodes.
        let fits = |c: char| c.is_ascii_alphanumeric() || ".-_:[]".contains(c);
        if registry.is_empty() || registry.starts_with('.') || !registry.chars().all(fits) {
            let rule = "must be the name of a registry, HOST or HOST:PORT, such as docker.io";
            problems.push(Problem::new("images.mirrors", format_args!("{registry:?}"), rule));
        }
        let field = format!("images.mirrors.{registry}");
        if urls.is_empty() {
            problems.push(Problem::of(&field, "must list at least one URL, or be left out"));
        }
        for url in urls.iter().filter(|url| !is_url(url)) {
            let rule =
                "must be https://HOST[:PORT][/PATH], without user, or http:// for a mirror without TLS";
            problems.push(Problem::new(&field, format_args!("{url:?}"), rule));
        }
    }
    mirrors
}

fn is_url(text: &str) -> bool {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://")).unwrap_or_default();
    let fits = |c: char| c.is_ascii_alphanumeric() || ".-_:/[]".contains(c);
    !rest.is_empty() && !rest.starts_with('/') && rest.chars().all(fits)
}

/// Rules between them and other settings.
pub(super) fn check(spec: &ClusterSpec, problems: &mut Problems) {
    let own = format!("{REGISTRY_HOST}:{REGISTRY_PORT}");
    if spec.registry.is_some() && spec.mirrors.contains_key(&own) {
        let rule = "is the cluster's own registry, which has no mirror; leave one of the two out";
        problems.push(Problem::new("images.mirrors", own, rule));
    }
}
