//! Command lines of the components: hoist's flags, overridden by the user's.

use std::collections::BTreeMap;

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
        self.0.extend(extra.iter().map(|(name, value)| (name.clone(), value.clone())));
        self
    }

    /// `--name=value`, in a stable order.
    pub fn render(&self) -> Vec<String> {
        self.0.iter().map(|(name, value)| format!("--{name}={value}")).collect()
    }
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
}
