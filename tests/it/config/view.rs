//! The example, the schema and the view of a configuration.

use super::*;

#[test]
fn the_example_says_what_holds_by_itself_and_names_every_field() {
    let page =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/configuration.md")).unwrap();
    assert!(page.contains(&format!("```yaml\n{EXAMPLE}```")), "docs/configuration.md has another example");
    let file = parse_file(Path::new("example.yaml"), &EXAMPLE.replace("name: hoist", "name: t")).unwrap();
    let by_example = shown(&settings(flags(&[]), Some(file), base(), None).unwrap());
    assert_eq!(by_example, shown(&resolve(&[], None).unwrap()));
    for (flag, ..) in PAIRS {
        assert!(EXAMPLE.contains(&format!("--{flag}")), "--{flag} is missing from the example");
    }
    let mut fields = Vec::new();
    names(hoist::config::schema(), &mut fields);
    assert!(fields.len() > 50, "{fields:?}");
    for field in fields {
        assert!(EXAMPLE.contains(&field), "{field} is missing from the example");
    }
}

/// Every name of a field in a schema.
fn names(schema: &serde_json::Value, found: &mut Vec<String>) {
    for (name, schema) in schema["properties"].as_object().into_iter().flatten() {
        found.push(name.clone());
        names(schema, found);
    }
    for inner in ["items", "additionalProperties"].map(|inner| &schema[inner]) {
        if inner.is_object() {
            names(inner, found);
        }
    }
}

#[test]
fn a_view_is_a_file_that_says_the_same() {
    for (_, args, _) in PAIRS {
        let first = resolve(args, None).unwrap();
        let yaml = hoist::config::view::yaml(&first, &Origin::Default);
        let again =
            parse_file(Path::new("view.yaml"), &yaml).unwrap_or_else(|error| panic!("{error}\n{yaml}"));
        let mut base = base();
        base.token = first.spec.token.clone();
        // Read from the image that the field names, or resolved from the name, later.
        let again = settings(flags(&[]), Some(again), base, None).unwrap();
        assert_eq!(shown(&again), shown(&first), "{args:?}\n{yaml}");
        assert!(!yaml.contains(&first.spec.token.expose()), "a secret");
    }
}

#[test]
fn a_view_tells_who_has_said_what() {
    let settings = resolve(&["--pod-subnet=10.1.0.0/16"], Some("etcd: {quota: 512Mi}\n")).unwrap();
    let yaml = hoist::config::view::yaml(&settings, &Origin::Present);
    for wanted in [
        "  podSubnet: 10.1.0.0/16  # --pod-subnet\n",
        "  quota: 512Mi  # c.yaml, line 3, column 8\n",
        "  dnsDomain: cluster.local  # the cluster that is there\n",
    ] {
        assert!(yaml.contains(wanted), "{wanted} is missing from:\n{yaml}");
    }
}
