//! The packet filter, as nft(8) of the container's image tells it. iptables(8) is not asked: its
//! legacy kind would make the tables that it looks for.

use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Chains that hang in the kernel's hooks, and the names of all others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Filter {
    /// Why it could not be read.
    Unknown(String),
    Chains {
        base: Vec<BaseChain>,
        others: Vec<String>,
    },
}

impl Default for Filter {
    fn default() -> Self {
        Self::Unknown("it was not looked at".to_owned())
    }
}

/// A chain that packets reach by themselves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BaseChain {
    /// Family, table and name as nft shows them: `ip filter FORWARD`.
    pub name: String,
    pub hook: String,
    pub policy: String,
}

pub(super) fn read() -> Filter {
    let output = Command::new("nft").args(["-j", "list", "chains"]).stdin(Stdio::null()).output();
    match output {
        Ok(output) if output.status.success() => parse(&output.stdout),
        Ok(output) => {
            let why = String::from_utf8_lossy(&output.stderr);
            Filter::Unknown(format!("nft: {}", why.lines().next().unwrap_or_default()))
        }
        Err(error) => Filter::Unknown(format!("nft can't be run: {error}")),
    }
}

/// Reads libnftables-json(5).
fn parse(json: &[u8]) -> Filter {
    let read: Value = match serde_json::from_slice(json) {
        Ok(read) => read,
        Err(error) => return Filter::Unknown(format!("nft's answer can't be understood: {error}")),
    };
    let (mut base, mut others) = (Vec::new(), Vec::new());
    let objects = read["nftables"].as_array().into_iter().flatten();
    for chain in objects.filter_map(|object| object.get("chain")) {
        let text = |field: &str| chain[field].as_str().unwrap_or_default().to_owned();
        let name = format!("{} {} {}", text("family"), text("table"), text("name"));
        match chain["hook"].as_str() {
            Some(hook) => base.push(BaseChain { name, hook: hook.to_owned(), policy: text("policy") }),
            None => others.push(name),
        }
    }
    Filter::Chains { base, others }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base_chains_are_told_from_others() {
        let json = r#"{"nftables": [{"metainfo": {"version": "1.1.3"}},
            {"chain": {"family": "ip", "table": "filter", "name": "DOCKER-USER", "handle": 7}},
            {"chain": {"family": "ip", "table": "filter", "name": "FORWARD", "type": "filter", "hook": "forward",
                       "prio": 0, "policy": "drop"}}]}"#;
        let forward = BaseChain {
            name: "ip filter FORWARD".to_owned(),
            hook: "forward".to_owned(),
            policy: "drop".to_owned(),
        };
        let others = vec!["ip filter DOCKER-USER".to_owned()];
        assert_eq!(parse(json.as_bytes()), Filter::Chains { base: vec![forward], others });
        assert!(matches!(parse(b"{"), Filter::Unknown(why) if why.contains("understood")));
    }
}
