//! Command lines of the components: hoist's flags, overridden by the user's. Flags that list names are
//! merged: the user adds to what hoist asks for, and wins where both say something of one name.

use std::collections::BTreeMap;

/// Flags whose value is `NAME=VALUE,…`.
const MAPS: [&str; 2] = ["feature-gates", "runtime-config"];

/// Flags whose value is `NAME,…`.
const SETS: [&str; 1] = ["enable-admission-plugins"];

/// Flags by name, without dashes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Flags(BTreeMap<String, String>);

impl Flags {
    pub fn new<const N: usize>(flags: [(&str, String); N]) -> Self {
        Self(flags.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.0.insert(name.to_owned(), value.into());
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The user's flags win over hoist's of the same name.
    #[must_use]
    pub fn overridden_by(mut self, extra: &BTreeMap<String, String>) -> Self {
        // kamaji#1120: the API server refuses both; hoist's default gives way to the user's.
        if extra.contains_key("authorization-config") {
            self.0.remove("authorization-mode");
        }
        // kube-controller-manager refuses the one for all families beside those of each.
        if extra.contains_key("node-cidr-mask-size") {
            self.0.retain(|name, _| !name.starts_with("node-cidr-mask-size-"));
        }
        for (name, value) in extra {
            let merged = match self.0.get(name) {
                Some(own) if MAPS.contains(&name.as_str()) => map(own, value),
                Some(own) if SETS.contains(&name.as_str()) => set(own, value),
                _ => value.clone(),
            };
            self.0.insert(name.clone(), merged);
        }
        self
    }

    /// `--name=value`, in a stable order; once for each line of the value.
    pub fn render(&self) -> Vec<String> {
        let rendered = self.0.iter().flat_map(|(name, value)| {
            // An empty value has no line, and is one.
            let values: Vec<_> = if value.is_empty() { vec![""] } else { value.lines().collect() };
            values.into_iter().map(move |value| format!("--{name}={value}"))
        });
        rendered.collect()
    }
}

fn parts(list: &str) -> impl Iterator<Item = &str> {
    list.split([',', '\n']).map(str::trim).filter(|part| !part.is_empty())
}

fn map(own: &str, extra: &str) -> String {
    let name = |pair: &str| pair.split('=').next().unwrap_or_default().trim().to_owned();
    let pairs: BTreeMap<_, _> = parts(own).chain(parts(extra)).map(|pair| (name(pair), pair)).collect();
    pairs.into_values().collect::<Vec<_>>().join(",")
}

fn set(own: &str, extra: &str) -> String {
    let mut names: Vec<_> = parts(own).collect();
    for name in parts(extra) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kamaji_1120_the_default_authorization_gives_way() {
        let flags = Flags::new([("authorization-mode", "Node,RBAC".into()), ("v", "0".into())]);
        let extra = [("authorization-config".to_owned(), "/f".to_owned()), ("v".to_owned(), "4".to_owned())];
        let merged = flags.overridden_by(&extra.into());
        assert_eq!(merged.render(), ["--authorization-config=/f", "--v=4"]);
    }

    fn given(own: &[(&str, &str)], extra: &[(&str, &str)]) -> Vec<String> {
        let owned = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        Flags(owned(own)).overridden_by(&owned(extra)).render()
    }

    #[test]
    fn lists_of_names_are_merged_and_the_user_wins() {
        assert_eq!(
            given(&[("feature-gates", "A=true,B=false")], &[("feature-gates", "B=true\nC=false")]),
            ["--feature-gates=A=true,B=true,C=false"]
        );
        assert_eq!(
            given(&[("runtime-config", "api/beta=true")], &[("runtime-config", "api/beta=false,api/all")]),
            ["--runtime-config=api/all,api/beta=false"]
        );
        assert_eq!(
            given(
                &[("enable-admission-plugins", "NodeRestriction")],
                &[("enable-admission-plugins", "ResourceQuota,NodeRestriction")]
            ),
            ["--enable-admission-plugins=NodeRestriction,ResourceQuota"]
        );
        // What lists no names is the user's alone.
        let suites = "TLS_AES_128_GCM_SHA256,TLS_AES_256_GCM_SHA384";
        assert_eq!(given(&[("tls-cipher-suites", "X")], &[("tls-cipher-suites", suites)]).len(), 1);
        assert!(given(&[("tls-cipher-suites", "X")], &[("tls-cipher-suites", suites)])[0].ends_with(suites));
    }

    #[test]
    fn a_flag_is_given_once_a_line() {
        let issuers = "https://new.example\nhttps://old.example\n";
        assert_eq!(
            given(&[("service-account-issuer", "https://own")], &[("service-account-issuer", issuers)]),
            ["--service-account-issuer=https://new.example", "--service-account-issuer=https://old.example"]
        );
        assert_eq!(given(&[("a", "x")], &[("a", "")]), ["--a="]);
    }
}
