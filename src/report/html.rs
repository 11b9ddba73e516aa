//! What the pages of reports share: one file each, no script, nothing from a network.

use std::fmt::Write as _;

/// Text as it stands in a page, attributes included.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A whole page. `style` comes after the common one; `body` is markup already.
pub fn page(title: &str, style: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{}</title>\n\
         <style>{STYLE}{style}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n",
        escape(title)
    )
}

/// A table; cells that look like numbers are for the stylesheet to align.
pub fn table<const N: usize>(header: &[&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut markup = String::from("<table>\n<tr>");
    for title in header {
        let _ = write!(markup, "<th>{}</th>", escape(title));
    }
    markup.push_str("</tr>\n");
    for row in rows {
        markup.push_str("<tr>");
        for cell in row {
            let class = if cell.starts_with(|c: char| c.is_ascii_digit()) { " class=\"number\"" } else { "" };
            let _ = write!(markup, "<td{class}>{}</td>", escape(&cell));
        }
        markup.push_str("</tr>\n");
    }
    markup.push_str("</table>");
    markup
}

/// A row for each name, its bar as long as its value, with `text` behind it.
pub fn bars<'a>(rows: impl Iterator<Item = (&'a str, u64, String)>) -> String {
    const LEFT: u64 = 220;
    const LENGTH: u64 = 800;
    const HEIGHT: u64 = 24;
    let rows: Vec<_> = rows.collect();
    let largest = rows.iter().map(|(_, value, _)| *value).max().unwrap_or_default().max(1);
    let mut markup = String::new();
    for (index, (name, value, text)) in (0_u64..).zip(&rows) {
        let (y, length) = (index * HEIGHT, value.saturating_mul(LENGTH) / largest);
        let _ = writeln!(
            markup,
            "<text x=\"{}\" y=\"{}\" text-anchor=\"end\">{}</text><rect x=\"{LEFT}\" y=\"{y}\" width=\"{length}\" \
             height=\"18\" fill=\"var(--bar)\"/><text x=\"{}\" y=\"{}\">{}</text>",
            LEFT - 8,
            y + 14,
            escape(name),
            LEFT + length + 8,
            y + 14,
            escape(text)
        );
    }
    let height = HEIGHT * u64::try_from(rows.len()).unwrap_or_default();
    format!("<svg viewBox=\"0 0 1200 {height}\" role=\"img\">\n{markup}</svg>")
}

/// Colours for light and dark; everything else is the browser's.
const STYLE: &str = "
:root { color-scheme: light dark; --ink: #1c2430; --paper: #fff; --faint: #d5dae1; --bar: #9db4d3;
  --one: #c2703d; --two: #3c7a89; --three: #6a4c93; --bad: #c8102e; }
@media (prefers-color-scheme: dark) { :root { --ink: #dfe5ee; --paper: #14181f; --faint: #39414e; --bar: #4a648a;
  --one: #e09a6a; --two: #6fb3c2; --three: #b39ddb; --bad: #ff5c74; } }
body { font: 15px/1.45 system-ui, sans-serif; color: var(--ink); background: var(--paper); max-width: 1240px; margin: 1.5em auto; padding: 0 1em; }
svg { width: 100%; height: auto; } svg text { font: 12px system-ui, sans-serif; fill: var(--ink); }
table { border-collapse: collapse; } th, td { text-align: left; padding: 2px 14px 2px 0; border-bottom: 1px solid var(--faint); }
td.number { text-align: right; font-variant-numeric: tabular-nums; } h1 { font-size: 1.4em; } h2 { font-size: 1.1em; margin-top: 1.6em; }
";
