//! Errors as people read them: the chain of causes, one a line, and what to do about it.

use std::error::Error;
use std::fmt::Write as _;

/// Any error of a command. What it means to a caller is decided in [`crate::exit`], what to do
/// about it in [`hints`].
pub type BoxError = Box<dyn Error + Send + Sync>;

/// An error and everything that caused it, outermost first.
pub fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| (*error).source())
}

/// The chain and its hints as text that ends with a newline.
pub fn render(error: &(dyn Error + 'static)) -> String {
    let mut text = String::new();
    for (depth, error) in chain(error).enumerate() {
        let label = if depth == 0 { "error" } else { "  caused by" };
        // A message of several lines stays readable under its label.
        let message = error.to_string().replace('\n', "\n    ");
        let _ = writeln!(text, "{label}: {message}");
    }
    for hint in hints(error) {
        let _ = writeln!(text, "hint: {hint}");
    }
    text
}

/// What the user can do, from anywhere in the chain.
pub fn hints(_error: &(dyn Error + 'static)) -> Vec<String> {
    Vec::new()
}
