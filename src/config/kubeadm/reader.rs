//! What a document of kubeadm's says, moved to where hoist's own file says it.

use serde_json::{Map, Value, json};

use super::args;
use crate::config::document::drop_nulls;

/// Takes values out of a document and puts them where hoist's own file has them.
pub(super) struct Reader<'a> {
    document: &'a mut Value,
    fields: &'a mut Value,
}

impl<'a> Reader<'a> {
    pub(super) fn new(document: &'a mut Value, fields: &'a mut Value) -> Self {
        Self { document, fields }
    }

    /// Takes a value out of the document, so that it is not named as unused.
    pub(super) fn pull(&mut self, pointer: &str) -> Option<Value> {
        let (parent, name) = pointer.rsplit_once('/')?;
        self.document.pointer_mut(parent)?.as_object_mut()?.remove(name).filter(|value| !value.is_null())
    }

    pub(super) fn put(&mut self, field: &[&str], value: Value) {
        *place(self.fields, field) = value;
    }

    pub(super) fn take(&mut self, pointer: &str, field: &[&str]) {
        if let Some(value) = self.pull(pointer) {
            self.put(field, value);
        }
    }

    /// Arguments of a component; those that have a field of hoist's become it. Files that flags name
    /// are not in hoist's containers.
    pub(super) fn args(&mut self, pointer: &str, component: &str) {
        let Some(args) = self.pull(pointer) else { return };
        let mut files = Map::new();
        for (name, value) in args::read(&args) {
            // Of a number the last one counts, as it does in the component.
            let last = value.lines().last().unwrap_or_default();
            match (component, name.as_str()) {
                _ if value.lines().any(|value| value.starts_with('/')) => {
                    files.insert(name, value.into());
                }
                ("kube-controller-manager", "node-cidr-mask-size-ipv4") => {
                    self.number("nodeMaskSizeIpv4", last);
                }
                ("kube-controller-manager", "node-cidr-mask-size-ipv6") => {
                    self.number("nodeMaskSizeIpv6", last);
                }
                ("kube-apiserver", "enable-admission-plugins") => {
                    let plugins = value.split([',', '\n']).filter(|plugin| !plugin.is_empty());
                    self.put(&["apiServer", "admissionPlugins"], plugins.collect());
                }
                _ => self.put(&["components", component, "extraArgs", &name], value.into()),
            }
        }
        if let (false, Some((parent, name))) = (files.is_empty(), pointer.rsplit_once('/'))
            && let Some(parent) = self.document.pointer_mut(parent).and_then(Value::as_object_mut)
        {
            parent.insert(name.to_owned(), Value::Object(files));
        }
    }

    fn number(&mut self, field: &str, text: &str) {
        let value = text.parse::<u64>().map_or_else(|_| json!(text), |number| json!(number));
        self.put(&["networking", field], value);
    }

    /// All that is left becomes the fields of a component's configuration, but for hoist's own.
    pub(super) fn rest(&mut self, component: &str, own: &[(&[&str], &str)]) {
        let mut kept = json!({});
        for (path, _) in own {
            if let Some(value) = self.pull(&format!("/{}", path.join("/"))) {
                *place(&mut kept, path) = value;
            }
        }
        let mut config = std::mem::replace(self.document, kept);
        drop_nulls(&mut config);
        if let Some(fields) = config.as_object_mut() {
            fields.retain(|name, _| !["apiVersion", "kind"].contains(&name.as_str()));
        }
        self.put(&[component, "config"], config);
    }
}

/// Where a field is, with what it is part of made on the way.
fn place<'a>(within: &'a mut Value, field: &[&str]) -> &'a mut Value {
    field.iter().fold(within, |place, name| &mut place[*name])
}
