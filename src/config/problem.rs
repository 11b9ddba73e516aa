//! What is wrong with a configuration: all of it, each with field, value and remedy.

use std::fmt;

/// One thing that is wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem(String);

impl Problem {
    pub fn new(field: &str, value: impl fmt::Display, rule: impl fmt::Display) -> Self {
        Self(format!("{field} {value}: {rule}"))
    }
}

/// The message of an error that names its field and value already.
impl<E: std::error::Error> From<E> for Problem {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Collects problems while values are judged.
#[derive(Debug, Default)]
pub(super) struct Problems(Vec<Problem>);

impl Problems {
    pub(super) fn push(&mut self, problem: impl Into<Problem>) {
        self.0.push(problem.into());
    }

    /// The value, or its problem noted and `None`.
    pub(super) fn keep<T, P: Into<Problem>>(&mut self, result: Result<T, P>) -> Option<T> {
        result.map_err(|problem| self.push(problem)).ok()
    }

    pub(super) fn into_result(self) -> Result<(), Invalid> {
        if self.0.is_empty() { Ok(()) } else { Err(Invalid(self.0)) }
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
