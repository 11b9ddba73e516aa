//! Whether a cluster's API server could still read what etcd holds under another
//! EncryptionConfiguration (apiserver.config.k8s.io/v1).

use std::collections::BTreeSet;
use std::fmt;

use hoist_phases::spec::Secret;
use serde_json::Value;

/// A resource that the API server could not read any more.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Unreadable {
    pub(super) resource: String,
    writer: Provider,
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resource, writer: Provider { kind, key } } = self;
        match key {
            None => write!(f, "{resource} in the clear ({kind})"),
            Some(Key { name, .. }) => write!(f, "{resource} written by {kind} {name}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Provider {
    kind: String,
    /// `None` of identity.
    key: Option<Key>,
}

#[derive(Clone, PartialEq, Eq)]
struct Key {
    name: String,
    secret: String,
}

/// Without the secret.
impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Resources whose provider that writes by `present` is none of those that read by `wanted`. Which objects an
/// earlier one has written only etcd knows: that they were written anew is the user's to see to.
pub(super) fn unreadable(present: Option<&Secret>, wanted: Option<&Secret>) -> Vec<Unreadable> {
    let (present, wanted) = (Encryption::of(present), Encryption::of(wanted));
    let resources: BTreeSet<_> = present.resources().chain(wanted.resources()).collect();
    let lost = resources.into_iter().filter_map(|resource| {
        let writer = present.providers(resource).into_iter().next()?;
        let read = wanted.providers(resource).contains(&writer);
        (!read).then(|| Unreadable { resource: resource.to_owned(), writer })
    });
    lost.collect()
}

/// All keys that a configuration holds, in Base64 as it has them; none when it can't be read.
pub(crate) fn keys(config: &Secret) -> Vec<String> {
    let read = Encryption::of(Some(config));
    let keys = read.entries().flat_map(providers).filter_map(|provider| provider.key);
    keys.map(|key| key.secret).filter(|secret| !secret.is_empty()).collect()
}

struct Encryption(Value);

impl Encryption {
    fn of(config: Option<&Secret>) -> Self {
        let read = config.and_then(|text| serde_saphyr::from_str(text.expose()).ok());
        Self(read.unwrap_or_default())
    }

    fn entries(&self) -> impl Iterator<Item = &Value> {
        self.0["resources"].as_array().into_iter().flatten()
    }

    fn resources(&self) -> impl Iterator<Item = &str> {
        self.entries().flat_map(names)
    }

    /// In order: the first one writes, all read. Of what is in no list: none but identity.
    fn providers(&self, resource: &str) -> Vec<Provider> {
        let entry = self.entries().find(|entry| names(entry).any(|pattern| covers(pattern, resource)));
        let Some(entry) = entry else { return vec![Provider { kind: "identity".to_owned(), key: None }] };
        providers(entry).collect()
    }
}

fn providers(entry: &Value) -> impl Iterator<Item = Provider> {
    let each = entry["providers"].as_array().into_iter().flatten().filter_map(Value::as_object).flatten();
    each.flat_map(|(kind, settings)| of_one(kind, settings))
}

fn names(entry: &Value) -> impl Iterator<Item = &str> {
    entry["resources"].as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// `*.*` is everything, `*.apps` a group, and `*.` the group without a name.
fn covers(pattern: &str, resource: &str) -> bool {
    let group = |name: &str| name.split_once('.').map(|(_, group)| group.to_owned()).unwrap_or_default();
    pattern == resource
        || pattern == "*.*"
        || pattern.strip_prefix("*.").is_some_and(|wanted| wanted == group(resource))
}

fn of_one(kind: &str, settings: &Value) -> Vec<Provider> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let of = |name, secret| Provider { kind: kind.to_owned(), key: Some(Key { name, secret }) };
    match kind {
        "identity" => vec![Provider { kind: kind.to_owned(), key: None }],
        // The plugin keeps the keys.
        "kms" => vec![of(text(&settings["name"]), String::new())],
        _ => {
            let keys = settings["keys"].as_array().into_iter().flatten();
            keys.map(|key| of(text(&key["name"]), text(&key["secret"]))).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_list_of_resources_covers_by_its_wildcards() {
        for (pattern, resource, wanted) in [
            ("secrets", "secrets", true),
            ("*.*", "deployments.apps", true),
            ("*.", "secrets", true),
            ("*.apps", "deployments.apps", true),
            ("*.apps", "secrets", false),
            ("*.apps", "*.*", false),
            ("*.", "deployments.apps", false),
        ] {
            assert_eq!(covers(pattern, resource), wanted, "{pattern} {resource}");
        }
    }

    #[test]
    fn keys_are_found_however_the_configuration_is_written() {
        let secret = |name: &str, secret: &str| json!({"name": name, "secret": secret});
        let value = json!({"kind": "EncryptionConfiguration", "resources": [
            {"resources": ["secrets"], "providers": [
                {"aescbc": {"keys": [secret("one", "b25l"), secret("two", "dHdv")]}}, {"identity": {}}]},
            {"resources": ["configmaps"], "providers": [
                {"secretbox": {"keys": [secret("three", "dGhyZWU=")]}}, {"kms": {"name": "vault"}}]}]});
        let block = "resources:\n- resources: [secrets]\n  providers:\n  - aescbc:\n      keys:\n      - name: one\n        \
                     secret: b25l\n      - {name: two, 'secret': dHdv}\n  - secretbox: {keys: [{name: three, \"secret\": dGhyZWU=}]}\n";
        for text in [value.to_string(), format!("{value:#}"), block.to_owned()] {
            assert_eq!(keys(&Secret::new(text.clone())), ["b25l", "dHdv", "dGhyZWU="], "{text}");
        }
        assert_eq!(keys(&Secret::new("no: [config".to_owned())), Vec::<String>::new());
    }

    #[test]
    fn a_wider_list_reads_what_was_in_none() {
        let config = |resources: &str, providers: &str| {
            Secret::new(format!("resources: [{{resources: [{resources}], providers: [{providers}]}}]"))
        };
        let one = "aescbc: {keys: [{name: one, secret: a}]}";
        let lost = |present: &Secret, wanted: &Secret| -> Vec<String> {
            unreadable(Some(present), Some(wanted)).iter().map(ToString::to_string).collect()
        };
        let (narrow, wide) = (config("secrets", one), config("'*.*'", one));
        assert_eq!(lost(&narrow, &wide), ["*.* in the clear (identity)"]);
        assert_eq!(lost(&wide, &narrow), ["*.* written by aescbc one"]);
        assert_eq!(lost(&narrow, &config("secrets", &one.replace("secret: a", "secret: b"))).len(), 1);
        let kms = config("secrets", "kms: {apiVersion: v2, name: vault, endpoint: 'unix:///a'}");
        assert_eq!(lost(&kms, &narrow), ["secrets written by kms vault"]);
        assert_eq!(lost(&kms, &kms), Vec::<String>::new());
    }
}
