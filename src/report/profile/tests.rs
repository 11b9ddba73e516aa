use super::*;

fn call(phase: PhaseId, peer: Peer, what: &str, begin: u64, end: u64) -> Event {
    let (began_us, elapsed_us) = (begin * 1000, (end - begin) * 1000);
    Event::Call { phase: Some(phase), peer, what: what.to_owned(), began_us, elapsed_us, failed: false }
}

fn phase(phase: PhaseId, begin: u64, end: u64) -> [Event; 2] {
    let outcome = hoist_phases::events::Outcome::Done;
    [
        Event::Started { phase, at_ms: begin },
        Event::Finished { phase, outcome, at_ms: end, elapsed_ms: end - begin },
    ]
}

/// Times in milliseconds.
fn profile() -> Profile {
    let mut profile = Profile::default();
    let events = [
        phase(PhaseId::Preflight, 0, 100).to_vec(),
        phase(PhaseId::Network, 100, 500).to_vec(),
        // Ends before the network does: on nobody's path.
        phase(PhaseId::Certs, 100, 200).to_vec(),
        phase(PhaseId::Kubeconfig, 500, 510).to_vec(),
        phase(PhaseId::ControlPlane, 510, 3000).to_vec(),
        vec![
            call(PhaseId::Network, Peer::Engine, "create owner", 110, 300),
            call(PhaseId::Network, Peer::Engine, "start owner", 300, 490),
            call(PhaseId::ControlPlane, Peer::Engine, "list containers", 515, 525),
            call(PhaseId::ControlPlane, Peer::Engine, "start <apiserver>", 530, 900),
            call(PhaseId::ControlPlane, Peer::Engine, "start scheduler", 530, 800),
            call(PhaseId::ControlPlane, Peer::Api, "get /readyz", 1000, 1010),
            call(PhaseId::ControlPlane, Peer::Api, "get /readyz", 2900, 2990),
            Event::Ready { level: "join".to_owned(), at_ms: 3500 },
        ],
    ];
    events.iter().flatten().for_each(|event| profile.note(event));
    profile
}

#[test]
fn the_critical_path_leads_back_to_the_beginning() {
    let path: Vec<_> = profile()
        .critical_path()
        .into_iter()
        .map(|part| (part.what, part.span.begin / 1000, part.span.end / 1000))
        .collect();
    let expected = [
        ("preflight: between calls", 0, 100),
        ("network: between calls", 100, 110),
        ("network: create owner", 110, 300),
        ("network: start owner", 300, 490),
        ("network: between calls", 490, 500),
        ("kubeconfig: between calls", 500, 510),
        ("control-plane: 3 short steps", 510, 530),
        ("control-plane: start <apiserver>", 530, 900),
        ("control-plane: between calls", 900, 1000),
        // Two polls with their pause.
        ("control-plane: get /readyz", 1000, 2990),
        ("control-plane: between calls", 2990, 3000),
        ("until level join", 3000, 3500),
    ];
    assert_eq!(path, expected.map(|(what, begin, end)| (what.to_owned(), begin, end)));
}

#[test]
fn chrome_gets_each_span_in_microseconds() {
    let trace = chrome::trace(&profile(), "t");
    let events = trace["traceEvents"].as_array().cloned().unwrap_or_default();
    let find = |name: &str| events.iter().find(|event| event["name"] == name && event["ph"] == "X");
    let start = find("start <apiserver>").cloned().unwrap_or_default();
    assert_eq!((start["ts"].as_u64(), start["dur"].as_u64()), (Some(530_000), Some(370_000)));
    assert_eq!(start["cat"], "engine");
    let phase = find("control-plane").cloned().unwrap_or_default();
    assert_eq!(phase["tid"], start["tid"], "a call stands in the row of its phase");
    let level = events.iter().find(|event| event["name"] == "join").cloned().unwrap_or_default();
    assert_eq!((level["ph"].as_str(), level["ts"].as_u64()), (Some("i"), Some(3_500_000)));
}

#[test]
fn the_page_needs_nothing_else_and_escapes_what_it_shows() {
    let page = page::html(&profile(), "up of \"a\" & <b>");
    assert!(!page.contains("<script") && !page.contains("http"), "{page}");
    assert!(page.contains("<title>up of &quot;a&quot; &amp; &lt;b&gt;</title>"), "{page}");
    assert!(page.contains("start &lt;apiserver&gt;, 370 ms from 0.53 s on"), "{page}");
    assert!(page.contains("class=\"critical\""), "{page}");
}

#[test]
fn an_empty_run_has_a_page_too() {
    let page = page::html(&Profile::default(), "nothing");
    assert!(page.contains("0.00 s in all"), "{page}");
}
