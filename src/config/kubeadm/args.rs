//! Arguments of components as kubeadm's configurations have them.

use std::collections::BTreeMap;

use serde_json::Value;

/// By name, without dashes: a mapping in v1beta3, a list of names and values since v1beta4. One that
/// stands in the list more than once has its values in order, one a line, as hoist's extraArgs have it.
pub(crate) fn read(args: &Value) -> BTreeMap<String, String> {
    let pairs: Vec<_> = match args {
        Value::Object(args) => args.iter().map(|(name, value)| (name.clone(), scalar(value))).collect(),
        Value::Array(args) => args.iter().filter_map(pair).collect(),
        _ => Vec::new(),
    };
    let mut read = BTreeMap::<String, String>::new();
    for (name, value) in pairs {
        match read.get_mut(&name) {
            Some(before) => {
                before.push('\n');
                before.push_str(&value);
            }
            None => {
                read.insert(name, value);
            }
        }
    }
    read
}

fn pair(arg: &Value) -> Option<(String, String)> {
    Some((arg["name"].as_str()?.to_owned(), scalar(&arg["value"])))
}

fn scalar(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_spellings_are_read_and_what_is_repeated_stays() {
        let of = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        };
        assert_eq!(read(&json!({"v": 4, "a": "b", "c": null})), of(&[("a", "b"), ("c", ""), ("v", "4")]));
        let list =
            json!([{"name": "v", "value": "2"}, {"name": "a", "value": "x"}, {"name": "v", "value": 3}]);
        assert_eq!(read(&list), of(&[("a", "x"), ("v", "2\n3")]));
        assert_eq!(read(&Value::Null), of(&[]));
    }
}
