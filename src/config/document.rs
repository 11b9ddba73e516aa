//! A configuration file read: what it says, where it says it, and what is wrong with its shape.

use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_saphyr::{Location, Spanned};

use super::file::{API_VERSION, ClusterFile, KIND};
use super::origin::{Origin, Origins};
use super::problem::Problems;
use super::schema::{self, Mistake};
use super::yaml;

/// A file with the origins of its fields. Mistakes of its shape come out with those of its values.
#[derive(Debug, Clone, Default)]
pub struct Document {
    pub(super) file: ClusterFile,
    pub(super) origins: Origins,
    pub(super) problems: Problems,
    /// Where the file's relative paths start.
    pub(super) beside: PathBuf,
}

impl Document {
    /// Where a relative path in this field starts: one of a flag, where hoist runs.
    pub(super) fn base(&self, field: &str) -> &Path {
        match self.origins.of(field) {
            Some(Origin::Flag(_)) => Path::new(""),
            _ => &self.beside,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum FileError {
    #[error("configuration file {path}: can't be read")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("configuration file {path}{}: {message}", at(*.position))]
    Parse { path: PathBuf, position: Option<(u64, u64)>, message: String },
    #[error("configuration file {path}: {field} is {found:?}, must be {wanted:?}")]
    Header { path: PathBuf, field: &'static str, found: String, wanted: &'static str },
}

impl FileError {
    fn parse(path: &Path, error: &serde_saphyr::Error) -> Self {
        let (position, message) = yaml::told(error);
        Self::Parse { path: path.to_owned(), position, message }
    }
}

fn at(position: Option<(u64, u64)>) -> String {
    position.map(|(line, column)| format!(", line {line}, column {column}")).unwrap_or_default()
}

/// Reads a file; `-` is stdin.
///
/// # Errors
/// When it can't be read, isn't YAML, or is meant for something else.
pub fn read(path: &Path) -> Result<Document, FileError> {
    let text = text_of(path).map_err(|source| FileError::Read { path: path.to_owned(), source })?;
    parse(path, &text)
}

/// What a file holds, or stdin for `-`; a device that never ends is no file.
pub(super) fn text_of(path: &Path) -> std::io::Result<String> {
    let file: Box<dyn std::io::Read> = if path == Path::new("-") {
        Box::new(std::io::stdin())
    } else {
        Box::new(std::fs::File::open(path)?)
    };
    let mut text = String::new();
    file.take(LARGEST + 1).read_to_string(&mut text)?;
    if text.len() as u64 > LARGEST {
        return Err(std::io::Error::other(format!("is larger than {} MiB", LARGEST >> 20)));
    }
    Ok(text)
}

/// Largest configuration in bytes, policies and certificates included.
const LARGEST: u64 = 8 << 20;

/// As [`read`], from text; the path is for messages.
///
/// # Errors
/// As [`read`].
pub fn parse(path: &Path, text: &str) -> Result<Document, FileError> {
    let tree: Node = serde_saphyr::from_str(text).map_err(|error| FileError::parse(path, &error))?;
    let file = path.display().to_string();
    let mut origins = Origins::default();
    let mut value = tree.into_value("", &mut |field, place| {
        let (line, column) = (place.line(), place.column());
        origins.set(field, Origin::File { file: file.clone(), line, column });
    });
    for (field, wanted) in [("apiVersion", API_VERSION), ("kind", KIND)] {
        let found = value[field].as_str().unwrap_or_default().to_owned();
        if found != wanted {
            return Err(FileError::Header { path: path.to_owned(), field, found, wanted });
        }
    }
    let beside = path.parent().unwrap_or(Path::new("")).to_owned();
    drop_nulls(&mut value);
    let mistakes = schema::mistakes(&value);
    if mistakes.is_empty() {
        // From the text, which knows how a number was written that is meant as text; but for sections
        // without content, which mean as much as none.
        let read = serde_saphyr::from_str(text).or_else(|error| {
            schema::as_text(&mut value);
            serde_json::from_value(value).map_err(|_| FileError::parse(path, &error))
        });
        return Ok(Document { file: read?, origins, problems: Problems::default(), beside });
    }
    let mut problems = Problems::default();
    for Mistake { problem, at } in mistakes {
        problems.extend([problem]);
        if let Some(place) = value.pointer_mut(&at) {
            *place = Value::Null;
        }
    }
    drop_nulls(&mut value);
    schema::as_text(&mut value);
    // The rest is read for its own mistakes; where it can't be, those of its shape have to do.
    let file = serde_json::from_value(value).unwrap_or_default();
    Ok(Document { file, origins, problems, beside })
}

/// Takes out what is there without a value, which means as much as not being there.
pub(super) fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|_, member| !member.is_null());
            members.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => {
            items.retain(|item| !item.is_null());
            items.iter_mut().for_each(drop_nulls);
        }
        _ => {}
    }
}

/// YAML of any shape, with the place of everything in it.
enum Node {
    Scalar(Value),
    List(Vec<Spanned<Node>>),
    Mapping(Vec<(Spanned<String>, Node)>),
}

impl Node {
    fn into_value(self, field: &str, place: &mut impl FnMut(String, Location)) -> Value {
        match self {
            Self::Scalar(value) => value,
            Self::List(items) => {
                let items = items.into_iter().enumerate().map(|(index, item)| {
                    let field = format!("{field}[{index}]");
                    place(field.clone(), item.referenced);
                    item.value.into_value(&field, place)
                });
                items.collect()
            }
            Self::Mapping(members) => {
                let members = members.into_iter().map(|(name, node)| {
                    let field = schema::member(field, &name.value);
                    place(field.clone(), name.referenced);
                    (name.value, node.into_value(&field, place))
                });
                Value::Object(members.collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("YAML")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_none<E>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Node, A::Error> {
        let mut mapping = Vec::new();
        while let Some(member) = members.next_entry()? {
            mapping.push(member);
        }
        Ok(Node::Mapping(mapping))
    }
}
