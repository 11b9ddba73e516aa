//! What is wrong with a configuration: all of it, each with field, value and remedy.

use std::fmt;

use hoist_phases::causes;

use super::origin::{Origin, Origins};

/// One thing that is wrong. Its text begins with the path of the field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem(String);

impl Problem {
    pub fn new(field: &str, value: impl fmt::Display, rule: impl fmt::Display) -> Self {
        Self(format!("{field} {value}: {rule}"))
    }

    /// Of a field that has no value worth showing.
    pub fn of(field: &str, rule: impl fmt::Display) -> Self {
        Self(format!("{field}: {rule}"))
    }

    fn field_and_rest(&self) -> (&str, &str) {
        self.0.split_at(self.0.find([' ', ':']).unwrap_or(self.0.len()))
    }

    /// Those of a file in its order, after all others.
    fn order(&self, origins: &Origins) -> Option<(u64, u64)> {
        match origins.of(self.field_and_rest().0) {
            Some(Origin::File { line, column, .. }) => Some((*line, *column)),
            _ => None,
        }
    }

    /// A problem is found by a flag's name, or by line and column, when that is where it comes from.
    fn placed(self, origins: &Origins) -> Self {
        let (field, rest) = self.field_and_rest();
        let shown = printable(field);
        match origins.of(field) {
            Some(Origin::Flag(name) | Origin::Env(name)) => Self(format!("{name}{rest}")),
            Some(origin @ (Origin::File { .. } | Origin::Kubeadm { .. })) => {
                Self(format!("{origin}: {shown}{rest}"))
            }
            Some(Origin::Present | Origin::Default) | None => Self(format!("{shown}{rest}")),
        }
    }
}

/// Names in a file may hold what moves a terminal's cursor.
fn printable(field: &str) -> String {
    let mut shown = String::with_capacity(field.len());
    for character in field.chars() {
        if character.is_control() {
            shown.extend(character.escape_default());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// The message of an error that names its field and value already.
impl<E: std::error::Error + 'static> From<E> for Problem {
    fn from(error: E) -> Self {
        Self(causes(&error))
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Collects problems while values are judged.
#[derive(Debug, Clone, Default)]
pub(super) struct Problems(Vec<Problem>);

impl Problems {
    pub(super) fn push(&mut self, problem: impl Into<Problem>) {
        self.0.push(problem.into());
    }

    /// The value, or its problem noted and `None`.
    pub(super) fn keep<T, P: Into<Problem>>(&mut self, result: Result<T, P>) -> Option<T> {
        result.map_err(|problem| self.push(problem)).ok()
    }

    pub(super) fn into_result(mut self, origins: &Origins) -> Result<(), Invalid> {
        if self.0.is_empty() {
            return Ok(());
        }
        self.0.sort_by_key(|problem| problem.order(origins));
        Err(Invalid(self.0.into_iter().map(|problem| problem.placed(origins)).collect()))
    }
}

impl Extend<Problem> for Problems {
    fn extend<T: IntoIterator<Item = Problem>>(&mut self, problems: T) {
        self.0.extend(problems);
    }
}

/// At least one problem.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Invalid(Vec<Problem>);

impl Invalid {
    pub(crate) fn one(problem: Problem) -> Self {
        Self(vec![problem])
    }

    pub fn problems(&self) -> &[Problem] {
        &self.0
    }
}

impl std::error::Error for Invalid {}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [only] => only.fmt(f),
            many => {
                write!(f, "{} settings are wrong", many.len())?;
                many.iter().try_for_each(|problem| write!(f, "\n- {problem}"))
            }
        }
    }
}
