//! Where an engine is looked for.

use std::path::Path;

use hoist::runtime::connect::{ConnectError, Environment, endpoints};
use sha2::{Digest, Sha256};

fn host(host: &str) -> Environment {
    Environment { docker_host: Some(host.to_owned()), ..Environment::default() }
}

fn found(environment: &Environment) -> Result<Vec<String>, ConnectError> {
    Ok(endpoints(environment)?.iter().map(ToString::to_string).collect())
}

fn write_context(docker: &Path, name: &str, meta: &str) -> String {
    let id: String = Sha256::digest(name).iter().map(|byte| format!("{byte:02x}")).collect();
    let directory = docker.join("contexts/meta").join(&id);
    std::fs::create_dir_all(&directory).unwrap();
    std::fs::write(directory.join("meta.json"), meta).unwrap();
    id
}

#[test]
fn docker_host_wins() {
    let cases = [
        ("unix:///run/x.sock", "unix:///run/x.sock"),
        ("tcp://10.0.0.1:2375", "tcp://10.0.0.1:2375"),
        ("http://[::1]:2375/", "tcp://[::1]:2375"),
    ];
    for (given, expected) in cases {
        let mut environment = host(given);
        environment.docker_context = Some("ignored".to_owned());
        assert_eq!(found(&environment).unwrap(), [expected]);
    }
}

#[test]
fn what_is_not_spoken_is_refused_with_a_way_around() {
    let ssh = found(&host("ssh://me@host")).unwrap_err();
    assert!(matches!(ssh, ConnectError::Scheme { .. }) && ssh.hint().contains("ssh -nNT -L"), "{ssh}");
    assert!(matches!(found(&host("https://host:2376")), Err(ConnectError::Tls { .. })));
    let mut tls = host("tcp://host:2376");
    tls.docker_tls_verify = true;
    assert!(matches!(found(&tls), Err(ConnectError::Tls { .. })));
    assert!(matches!(found(&host("fd://3")), Err(ConnectError::Scheme { .. })));
    for bad in [
        "/var/run/docker.sock",
        "unix://relative",
        "tcp://host",
        "tcp://:2375",
        "tcp://host:port",
        "tcp://h:1/x",
    ] {
        assert!(matches!(found(&host(bad)), Err(ConnectError::Address { .. })), "{bad} was accepted");
    }
}

#[test]
fn contexts_are_those_of_docker() {
    let home = tempfile::tempdir().unwrap();
    let docker = home.path().join(".docker");
    let meta = |host: &str| {
        format!(
            r#"{{"Name":"x","Metadata":{{}},"Endpoints":{{"docker":{{"Host":"{host}","SkipTLSVerify":false}}}}}}"#
        )
    };
    write_context(&docker, "colima", &meta("unix:///home/me/colima.sock"));
    write_context(&docker, "kube", r#"{"Name":"kube","Endpoints":{}}"#);
    write_context(&docker, "broken", "{");
    let tls = write_context(&docker, "tls", &meta("tcp://far:2376"));
    std::fs::create_dir_all(docker.join("contexts/tls").join(tls).join("docker")).unwrap();
    std::fs::write(docker.join("config.json"), r#"{"currentContext":"colima","auths":{}}"#).unwrap();

    let mut environment = Environment { home: Some(home.path().to_owned()), ..Environment::default() };
    assert_eq!(found(&environment).unwrap(), ["unix:///home/me/colima.sock"]);
    let mut named = |name: &str| {
        environment.docker_context = Some(name.to_owned());
        found(&environment)
    };
    assert!(matches!(named("tls"), Err(ConnectError::Tls { .. })));
    assert!(matches!(named("kube"), Err(ConnectError::ContextEndpoint(_))));
    assert!(matches!(named("broken"), Err(ConnectError::ContextContent { .. })));
    assert!(matches!(named("none"), Err(ConnectError::Context { .. })));
    assert!(named("default").unwrap().len() > 1);
}

#[test]
fn the_usual_sockets_come_in_order() {
    let environment = Environment { runtime_dir: Some("/run/user/7".into()), ..Environment::default() };
    let expected = [
        "unix:///var/run/docker.sock",
        "unix:///run/docker.sock",
        "unix:///run/user/7/docker.sock",
        "unix:///run/user/7/podman/podman.sock",
        "unix:///run/podman/podman.sock",
    ];
    assert_eq!(found(&environment).unwrap(), expected);
}
