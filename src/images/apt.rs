//! Which Debian mirror this machine uses: a base image built here is fetched from the same one.

use std::path::Path;

/// Mirrors of a Debian machine. Both are absent elsewhere, and the tools' defaults hold.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Mirrors {
    pub(crate) main: Option<String>,
    pub(crate) security: Option<String>,
}

#[derive(Debug, PartialEq, Eq)]
struct Source {
    uri: String,
    suites: Vec<String>,
}

impl Mirrors {
    /// Reads the host's configuration; what can't be read is as good as absent.
    pub(crate) fn of_host() -> Self {
        let read = |path: &Path| std::fs::read_to_string(path).unwrap_or_default();
        let release = read(Path::new("/etc/os-release"));
        let field = |name: &str| {
            release
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix('=').map(|v| v.trim_matches('"')))
        };
        // Ubuntu's mirrors carry no Debian.
        let (Some("debian"), Some(codename)) = (field("ID"), field("VERSION_CODENAME")) else {
            return Self::default();
        };
        let mut sources = parse_lines(&read(Path::new("/etc/apt/sources.list")));
        let mut files: Vec<_> = std::fs::read_dir("/etc/apt/sources.list.d")
            .map(|entries| entries.flatten().map(|entry| entry.path()).collect())
            .unwrap_or_default();
        files.sort();
        for path in files {
            match path.extension().and_then(|extension| extension.to_str()) {
                Some("list") => sources.extend(parse_lines(&read(&path))),
                Some("sources") => sources.extend(parse_stanzas(&read(&path))),
                _ => {}
            }
        }
        Self::choose(&sources, codename)
    }

    fn choose(sources: &[Source], codename: &str) -> Self {
        let find = |suite: &str| {
            sources
                .iter()
                .filter(|source| source.uri.starts_with("http://") || source.uri.starts_with("https://"))
                .find(|source| source.suites.iter().any(|have| have == suite))
                .map(|source| source.uri.trim_end_matches('/').to_owned())
        };
        Self { main: find(codename), security: find(&format!("{codename}-security")) }
    }

    /// Contents of `sources.list` for a Debian suite; the security mirror is left out where none is known.
    pub(crate) fn sources_list(&self, suite: &str, default_main: &str) -> String {
        let main = self.main.as_deref().unwrap_or(default_main);
        let mut text = format!("deb {main} {suite} main\n");
        if let Some(security) = &self.security {
            text.push_str(&format!(
                "deb {main} {suite}-updates main\ndeb {security} {suite}-security main\n"
            ));
        }
        text
    }
}

/// First mirror of a `sources.list`.
pub(crate) fn first_uri(text: &str) -> Option<String> {
    parse_lines(text).into_iter().next().map(|source| source.uri)
}

/// One-line style: `deb [options] uri suite component…`.
fn parse_lines(text: &str) -> Vec<Source> {
    text.lines()
        .filter_map(|line| {
            let rest = line.trim().strip_prefix("deb ")?.trim_start();
            let rest = if rest.starts_with('[') { rest.split_once(']')?.1 } else { rest };
            let mut words = rest.split_whitespace();
            let (uri, suite) = (words.next()?, words.next()?);
            words
                .any(|component| component == "main")
                .then(|| Source { uri: uri.to_owned(), suites: vec![suite.to_owned()] })
        })
        .collect()
}

/// Stanzas of `Field: value` lines. Continuation lines hold only keys and comments here.
fn parse_stanzas(text: &str) -> Vec<Source> {
    let mut sources = Vec::new();
    for stanza in text.split("\n\n") {
        let field = |name: &str| {
            stanza.lines().find_map(|line| {
                let (key, value) = line.split_once(':')?;
                key.eq_ignore_ascii_case(name).then(|| value.trim())
            })
        };
        let has =
            |name: &str, word: &str| field(name).is_some_and(|v| v.split_whitespace().any(|w| w == word));
        if !has("Types", "deb") || !has("Components", "main") || field("Enabled") == Some("no") {
            continue;
        }
        let suites: Vec<String> =
            field("Suites").unwrap_or_default().split_whitespace().map(str::to_owned).collect();
        for uri in field("URIs").unwrap_or_default().split_whitespace() {
            sources.push(Source { uri: uri.to_owned(), suites: suites.clone() });
        }
    }
    sources
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_styles_of_sources_are_read() {
        let stanzas = "Types: deb\n# a comment\nURIs: http://mirror.example/debian\nSuites: stable stable-updates\n\
            Components: main\n\nTypes: deb\nURIs: http://mirror.example/security\nSuites: stable-security\n\
            Components: main\n\nTypes: deb\nURIs: http://other.example\nSuites: stable\nComponents: contrib\n";
        let lines = "# deb http://no.example stable main\n\
            deb [signed-by=/key arch=amd64] http://mirror.example/debian/ stable main contrib\n\
            deb http://mirror.example/security stable-security main\n";
        let expected = Mirrors {
            main: Some("http://mirror.example/debian".to_owned()),
            security: Some("http://mirror.example/security".to_owned()),
        };
        assert_eq!(Mirrors::choose(&parse_stanzas(stanzas), "stable"), expected);
        assert_eq!(Mirrors::choose(&parse_lines(lines), "stable"), expected);
    }

    #[test]
    fn local_mirrors_are_of_no_use_to_a_container() {
        let sources = parse_lines("deb file:/srv/debian stable main\n");
        assert_eq!(Mirrors::choose(&sources, "stable"), Mirrors::default());
    }

    #[test]
    fn updates_and_security_come_together() {
        let mirrors = Mirrors { main: None, security: Some("http://s.example".to_owned()) };
        let text = mirrors.sources_list("trixie", "http://d.example");
        assert_eq!(text.lines().count(), 3);
        assert_eq!(Mirrors::default().sources_list("trixie", "http://d.example").lines().count(), 1);
    }
}
