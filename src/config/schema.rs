//! The JSON Schema of the configuration file: published for editors, and what a file is held
//! against, since serde would stop at the first mistake.

use std::sync::LazyLock;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{ValidationError, Validator};
use schemars::generate::SchemaSettings;
use schemars::transform::{RecursiveTransform, Transform as _};
use serde_json::Value;

use super::file::ClusterFile;
use super::problem::Problem;

/// How alike two names are, from 0 to 1, for one to be offered in the other's place.
const ALIKE: f64 = 0.8;

/// One mistake of shape.
pub(super) struct Mistake {
    pub(super) problem: Problem,
    /// JSON Pointer (RFC 6901) of what has to go for the rest to be read.
    pub(super) at: String,
}

/// The schema as JSON, draft 2020-12.
pub fn schema() -> &'static Value {
    static SCHEMA: LazyLock<Value> = LazyLock::new(|| {
        // In one piece, so that where an error stands in the schema is where it stands in the types.
        let mut settings = SchemaSettings::draft2020_12();
        settings.inline_subschemas = true;
        let mut schema = settings.into_generator().into_root_schema_for::<ClusterFile>();
        RecursiveTransform(present).transform(&mut schema);
        schema.into()
    });
    &SCHEMA
}

/// What is absent has no value: a schema that also allows null says nothing more.
fn present(schema: &mut schemars::Schema) {
    if let Some(Value::Array(types)) = schema.get_mut("type") {
        types.retain(|name| name != "null");
        if let [only] = types.as_slice() {
            let only = only.clone();
            schema.insert("type".to_owned(), only);
        }
    }
    if let Some(Value::Array(any)) = schema.get_mut("anyOf") {
        any.retain(|one| one["type"] != "null");
        if let [Value::Object(only)] = any.as_slice() {
            let only = only.clone();
            schema.remove("anyOf");
            only.into_iter().for_each(|(key, value)| {
                schema.insert(key, value);
            });
        }
    }
    if schema.get("default").is_some_and(Value::is_null) {
        schema.remove("default");
    }
}

/// Everything in which a file is not of the schema.
pub(super) fn mistakes(file: &Value) -> Vec<Mistake> {
    // That the schema is one is tested.
    static VALIDATOR: LazyLock<Option<Validator>> =
        LazyLock::new(|| jsonschema::validator_for(schema()).ok());
    let Some(validator) = VALIDATOR.as_ref() else { return Vec::new() };
    validator.iter_errors(file).flat_map(|error| of_one(&error, file)).collect()
}

/// Turns numbers and truth values into text where text is meant: [`super::file`] says by a choice of
/// types which fields those are.
pub(super) fn as_text(file: &mut Value) {
    convert(file, schema());
}

fn convert(value: &mut Value, schema: &Value) {
    match value {
        Value::Number(_) | Value::Bool(_) if schema["anyOf"].is_array() => {
            *value = Value::String(value.to_string());
        }
        Value::Array(items) => items.iter_mut().for_each(|item| convert(item, &schema["items"])),
        Value::Object(members) => {
            for (name, member) in members {
                let own = &schema["properties"][name.as_str()];
                convert(member, if own.is_null() { &schema["additionalProperties"] } else { own });
            }
        }
        _ => {}
    }
}

fn of_one(error: &ValidationError<'_>, file: &Value) -> Vec<Mistake> {
    let at = error.instance_path().as_str();
    let field = path(at, file);
    let one = |problem| vec![Mistake { problem, at: at.to_owned() }];
    match error.kind() {
        ValidationErrorKind::AdditionalProperties { unexpected } => {
            let known = siblings(error);
            let unknown = |name: &String| Mistake {
                problem: Problem::of(&member(&field, name), not_one_of("unknown field", name, &known)),
                at: format!("{at}/{}", name.replace('~', "~0").replace('/', "~1")),
            };
            unexpected.iter().map(unknown).collect()
        }
        ValidationErrorKind::Required { property } => {
            let name = property.as_str().unwrap_or_default();
            one(Problem::of(&member(&field, name), "is missing"))
        }
        ValidationErrorKind::Type { kind } => {
            let rule = format!("is {}, must be {}", kind_of(error.instance()), wanted(kind));
            one(Problem::of(&field, rule))
        }
        ValidationErrorKind::AnyOf { .. } => {
            let rule = format!("is {}, must be text or a number", kind_of(error.instance()));
            one(Problem::of(&field, rule))
        }
        // An enum whose values are explained.
        ValidationErrorKind::OneOfNotValid { context } => {
            let constant = |error: &ValidationError<'_>| match error.kind() {
                ValidationErrorKind::Constant { expected_value } => {
                    expected_value.as_str().map(str::to_owned)
                }
                _ => None,
            };
            let names: Vec<_> = context.iter().flatten().filter_map(constant).collect();
            let names: Vec<_> = names.iter().map(String::as_str).collect();
            let found = error.instance().as_str().unwrap_or_default();
            one(Problem::of(&field, not_one_of(&format!("{found:?} is none of its values"), found, &names)))
        }
        ValidationErrorKind::Minimum { limit } => {
            one(Problem::new(&field, error.instance(), format_args!("must be {limit} or more")))
        }
        ValidationErrorKind::Maximum { limit } => {
            one(Problem::new(&field, error.instance(), format_args!("must be {limit} or less")))
        }
        _ => one(Problem::of(&field, error.masked())),
    }
}

/// The fields that could stand where an unknown one does.
fn siblings(error: &ValidationError<'_>) -> Vec<&'static str> {
    let place = error.schema_path().as_str();
    let object = place.rsplit_once('/').map_or("", |(object, _)| object);
    let fields = schema().pointer(object).and_then(|object| object["properties"].as_object());
    fields.into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

fn not_one_of(what: &str, found: &str, known: &[&str]) -> String {
    let likeness = |name: &&&str| strsim::jaro_winkler(&found.to_lowercase(), &name.to_lowercase());
    let nearest = known.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    match nearest.filter(|name| likeness(name) >= ALIKE) {
        Some(nearest) => format!("{what}; did you mean {nearest}?"),
        None => format!("{what}; there are {}", known.join(", ")),
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

fn wanted(kind: &TypeKind) -> String {
    let name = |name: &str| match name {
        "boolean" => "true or false",
        "integer" => "a whole number",
        "number" => "a number",
        "string" => "text",
        "array" => "a list",
        "object" => "a mapping",
        _ => "absent",
    };
    match kind {
        TypeKind::Single(one) => name(&one.to_string()).to_owned(),
        TypeKind::Multiple(several) => {
            several.iter().map(|one| name(&one.to_string())).collect::<Vec<_>>().join(" or ")
        }
    }
}

/// A JSON Pointer in the form in which fields are named.
fn path(pointer: &str, file: &Value) -> String {
    let mut value = file;
    let mut field = String::new();
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        if value.is_array() {
            field = format!("{field}[{token}]");
            value = token.parse::<usize>().map_or(&Value::Null, |index| &value[index]);
        } else {
            field = member(&field, &token);
            value = &value[token.as_str()];
        }
    }
    field
}

/// The path of a field in the object at `parent`.
pub(super) fn member(parent: &str, name: &str) -> String {
    if parent.is_empty() { name.to_owned() } else { format!("{parent}.{name}") }
}
