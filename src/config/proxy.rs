//! Proxies of the nodes.

use hoist_phases::spec::{Proxy, Secret, without_user};

use super::file::ProxyFile;
use super::problem::{Problem, Problems};

/// Puts what the file says over what is there. An empty address takes one away.
pub(super) fn apply(spec: &mut Proxy, file: ProxyFile, problems: &mut Problems) {
    let ProxyFile { http, https, no_proxy } = file;
    for (field, name, text) in [(&mut spec.http, "proxy.http", http), (&mut spec.https, "proxy.https", https)]
    {
        let Some(text) = text else { continue };
        *field = (!text.is_empty()).then(|| Secret::new(text.clone()));
        if !text.is_empty() {
            problems.keep(address(name, &text));
        }
    }
    if let Some(list) = no_proxy {
        for entry in list.iter().filter(|entry| !plain(entry) || entry.contains(',')) {
            let rule = "must be a host, a domain (.example.org) or a range (10.0.0.0/8)";
            problems.push(Problem::new("proxy.noProxy", format_args!("{entry:?}"), rule));
        }
        spec.no_proxy = list;
    }
    if !spec.no_proxy.is_empty() && spec.http.is_none() && spec.https.is_none() {
        let rule = "there is no proxy that these would be reached without; name one as http or https";
        problems.push(Problem::new("proxy.noProxy", spec.no_proxy.join(","), rule));
    }
}

/// What can stand in a file of variables as it is.
fn plain(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_ascii_graphic() && !"\"'\\$`".contains(c))
}

/// `http://[USER:PASSWORD@]HOST[:PORT]`, of a host that isn't the node itself.
fn address(field: &str, text: &str) -> Result<(), Problem> {
    let wrong = |rule| Problem::new(field, format_args!("{:?}", without_user(text)), rule);
    let form = "must be http://HOST:PORT or https://HOST:PORT; in a user and password, write what isn't a letter or digit as %XX";
    let rest = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://"));
    let host = rest.filter(|_| plain(text)).map(|rest| rest.rsplit_once('@').map_or(rest, |(_, host)| host));
    let host = host.map(|host| host.trim_end_matches('/')).filter(|host| !host.contains(['/', '?', '#']));
    let host = host.ok_or_else(|| wrong(form))?;
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, port),
        _ => (host, "80"),
    };
    let name = name.trim_start_matches('[').trim_end_matches(']');
    if name.is_empty() || port.parse::<u16>().ok().is_none_or(|port| port == 0) {
        return Err(wrong(form));
    }
    let ip = name.parse::<std::net::IpAddr>().ok();
    if name == "localhost" || ip.is_some_and(|ip| ip.is_loopback() || ip.is_unspecified()) {
        return Err(wrong(
            "nodes have a loopback of their own; name an address that they reach the proxy at",
        ));
    }
    Ok(())
}

/// As the file has it, without users and passwords.
pub(super) fn file(spec: &Proxy) -> ProxyFile {
    let [http, https, _] = spec.shown().map(|(_, value)| (!value.is_empty()).then_some(value));
    ProxyFile { http, https, no_proxy: Some(spec.no_proxy.clone()) }
}
