//! The only place that writes to stdout and stderr.

use std::io::Write as _;

use serde::Serialize;

use crate::cli::args::Format;

#[derive(Debug, thiserror::Error)]
pub enum OutputError {
    #[error("stdout can't be written")]
    Write(#[source] std::io::Error),
    #[error("data can't be written as JSON")]
    Serialize(#[source] serde_json::Error),
}

impl OutputError {
    /// Whether the reader has gone, as `head` does once it has enough: no error.
    pub fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Write(error) if error.kind() == std::io::ErrorKind::BrokenPipe)
    }
}

/// Writes data to stdout as it is.
///
/// # Errors
/// When stdout can't be written.
pub fn data(bytes: impl AsRef<[u8]>) -> Result<(), OutputError> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes.as_ref()).and_then(|()| out.flush()).map_err(OutputError::Write)
}

/// Writes data to stdout in the form asked for.
///
/// # Errors
/// When stdout can't be written.
pub fn formatted<T: Serialize>(
    format: Format,
    value: &T,
    text: impl FnOnce(&T) -> String,
) -> Result<(), OutputError> {
    match format {
        Format::Text => data(text(value)),
        Format::Json => {
            let json = serde_json::to_string_pretty(value).map_err(OutputError::Serialize)?;
            data(json + "\n")
        }
    }
}

/// Tells the user something on stderr; a closed stderr is nobody's error.
pub fn tell(text: impl std::fmt::Display) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Columns of equal width, two spaces apart, without trailing blanks.
pub fn table<const N: usize>(header: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut lines = vec![header.map(str::to_owned)];
    lines.extend(rows);
    let mut widths = [0_usize; N];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for line in &lines {
        let cells: Vec<_> = line.iter().zip(widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let text = table(
            ["NAME", "STATE"],
            [["a-long-name".to_owned(), "up".to_owned()], ["b".into(), String::new()]],
        );
        assert_eq!(text, "NAME         STATE\na-long-name  up\nb\n");
    }
}
