//! JSON of the right shape, damaged.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;
use serde_json::{Value, json};

/// What stands where something else should.
fn odd() -> impl Strategy<Value = Value> {
    let values = vec![
        json!(null),
        json!(true),
        json!(-1),
        json!(u64::MAX),
        json!(i64::MIN),
        json!(1e308),
        json!(""),
        json!("/"),
        json!("é\u{0}"),
        json!("9999-12-31T23:59:59.999999999Z"),
        json!("0000-01-01T00:00:00Z"),
        json!("99999999999999999999Gi"),
        json!("x".repeat(1 << 16)),
        json!([]),
        json!({}),
        json!([null]),
        json!([[1], "a", {"name": 1}]),
        json!({"a": null, "items": 1}),
        (0..100).fold(json!(1), |inner, _| json!({ "a": [inner] })),
    ];
    prop_oneof![4 => proptest::sample::select(values), 1 => "\\PC{0,12}".prop_map(Value::from)]
}

#[derive(Debug, Clone)]
enum Change {
    Replace(Index, Value),
    Remove(Index),
    Repeat(Index),
}

/// Paths to everything in a value, as [`Value::pointer`] takes them.
fn paths(value: &Value, at: &str, found: &mut Vec<String>) {
    found.push(at.to_owned());
    let escaped = |key: &str| key.replace('~', "~0").replace('/', "~1");
    match value {
        Value::Object(fields) => {
            fields.iter().for_each(|(key, value)| paths(value, &format!("{at}/{}", escaped(key)), found));
        }
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(key, value)| paths(value, &format!("{at}/{key}"), found));
        }
        _ => {}
    }
}

fn change(mut value: Value, change: &Change) -> Value {
    let mut found = Vec::new();
    paths(&value, "", &mut found);
    let (Change::Replace(at, _) | Change::Remove(at) | Change::Repeat(at)) = change;
    let path = at.get(&found);
    let (above, key) = path.rsplit_once('/').unwrap_or_default();
    match change {
        Change::Replace(_, odd) => {
            if let Some(place) = value.pointer_mut(path) {
                *place = odd.clone();
            }
        }
        Change::Remove(_) => match value.pointer_mut(above) {
            Some(Value::Object(fields)) => drop(fields.remove(&key.replace("~1", "/").replace("~0", "~"))),
            Some(Value::Array(items)) => {
                let at: usize = key.parse().unwrap_or_default();
                if at < items.len() {
                    items.remove(at);
                }
            }
            _ => {}
        },
        Change::Repeat(_) => {
            let copy = value.pointer(path).cloned();
            if let (Some(Value::Array(items)), Some(copy)) = (value.pointer_mut(above), copy) {
                items.push(copy);
            }
        }
    }
    value
}

/// One of these with some changes, or none, as text; now and then cut short, or anything at all.
pub(super) fn damaged(all: Vec<Value>) -> impl Strategy<Value = Vec<u8>> {
    let one = prop_oneof![
        6 => (any::<Index>(), odd()).prop_map(|(at, odd)| Change::Replace(at, odd)),
        2 => any::<Index>().prop_map(Change::Remove),
        1 => any::<Index>().prop_map(Change::Repeat),
    ];
    let changed = (proptest::sample::select(all), vec(one, 0..6))
        .prop_map(|(value, changes)| changes.iter().fold(value, change).to_string().into_bytes());
    let cut = (changed, proptest::option::weighted(0.1, any::<Index>())).prop_map(|(mut text, cut)| {
        if let Some(at) = cut {
            text.truncate(at.index(text.len()));
        }
        text
    });
    prop_oneof![12 => cut, 1 => vec(any::<u8>(), 0..64)]
}
