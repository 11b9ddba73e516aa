//! Where a value comes from: for messages, and for `hoist config view`.

use std::collections::BTreeMap;
use std::fmt;

/// Who has said a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// A flag of the command line, with its dashes.
    Flag(&'static str),
    /// A variable of the environment.
    Env(&'static str),
    /// A place in a file; line and column count from 1.
    File { file: String, line: u64, column: u64 },
    /// A kubeadm configuration, which has no lines of its own here.
    Kubeadm { file: String },
    /// The cluster of that name that is there.
    Present,
    /// Nobody.
    Default,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Flag(name) | Self::Env(name) => f.write_str(name),
            Self::File { file, line, column } => write!(f, "{file}, line {line}, column {column}"),
            Self::Kubeadm { file } => f.write_str(file),
            Self::Present => f.write_str("the cluster that is there"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// Origins of fields, by their path in the configuration file, such as `networking.podSubnet` or
/// `nodes[0].kind`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Origins(BTreeMap<String, Origin>);

impl Origins {
    /// The last one to say a field's value is the one that counts.
    pub(super) fn set(&mut self, field: impl Into<String>, origin: Origin) {
        self.0.insert(field.into(), origin);
    }

    /// Whether the field itself has been said.
    pub(super) fn has(&self, field: &str) -> bool {
        self.0.contains_key(field)
    }

    /// Of the field, or of what it is part of.
    pub fn of(&self, field: &str) -> Option<&Origin> {
        let mut field = field;
        loop {
            if let Some(origin) = self.0.get(field) {
                return Some(origin);
            }
            field = &field[..field.rfind(['.', '['])?];
        }
    }
}
