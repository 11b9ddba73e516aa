//! `hoist token`.

use hoist_phases::ports::KubeConnect as _;
use hoist_phases::spec::TokenTtl;
use serde_json::json;
use time::OffsetDateTime;

use super::args::{Format, Global, TokenCommand};
use super::session::Session;
use crate::cluster::kube::Connector;
use crate::error::BoxError;
use crate::nodes::tokens::{self, Listed};
use crate::{config, report};

pub(super) async fn run(global: &Global, command: TokenCommand) -> Result<(), BoxError> {
    match command {
        TokenCommand::Create { ttl, description, output } => {
            create(global, &ttl, description.as_deref(), output.output).await
        }
        TokenCommand::List { show_secret, output } => list(global, show_secret, output.output).await,
        TokenCommand::Delete { tokens } => delete(global, &tokens).await,
    }
}

async fn create(
    global: &Global,
    ttl: &str,
    description: Option<&str>,
    format: Format,
) -> Result<(), BoxError> {
    let ttl = config::duration("--ttl", ttl)?.as_secs();
    let session = Session::new(global)?;
    let api = Connector.connect(&session.kubeconfig()?).await?;
    let token = tokens::create(api.as_ref(), TokenTtl(ttl), description).await?.expose();
    let made = json!({ "token": token, "lifetimeSecs": ttl });
    report::output::formatted(format, &made, |_| token + "\n")?;
    tell_lifetime(ttl);
    Ok(())
}

/// How long a token works that was made a moment ago.
pub(super) fn tell_lifetime(secs: u64) {
    match secs {
        0 => report::tell("the token works for ever"),
        secs => report::tell(format_args!("the token works for {}", report::span(secs))),
    }
}

async fn list(global: &Global, show_secret: bool, format: Format) -> Result<(), BoxError> {
    let session = Session::new(global)?;
    let api = Connector.connect(&session.kubeconfig()?).await?;
    let tokens = tokens::list(api.as_ref(), OffsetDateTime::now_utc(), show_secret).await?;
    report::output::formatted(format, &tokens, |tokens| {
        report::table(["TOKEN", "LEFT", "EXPIRES", "USAGES", "DESCRIPTION"], tokens.iter().map(row))
    })?;
    Ok(())
}

fn row(token: &Listed) -> [String; 5] {
    let Listed { id, token, expires, left_secs, usages, groups: _, description, configured } = token;
    let of_configuration = configured.then(|| "of the cluster's configuration".to_owned());
    [
        token.as_ref().unwrap_or(id).clone(),
        match left_secs {
            None => "for ever".to_owned(),
            Some(0) => "ended".to_owned(),
            Some(secs) => report::span(*secs),
        },
        expires.clone().unwrap_or_else(|| "never".to_owned()),
        usages.join(","),
        of_configuration.or_else(|| description.clone()).unwrap_or_default(),
    ]
}

async fn delete(global: &Global, names: &[String]) -> Result<(), BoxError> {
    let session = Session::new(global)?;
    let api = Connector.connect(&session.kubeconfig()?).await?;
    let ids = tokens::delete(api.as_ref(), names).await?;
    report::tell(format_args!("deleted {}", ids.join(", ")));
    // Whatever became of its file: the tokens are deleted.
    if let Ok(spec) = session.spec()
        && ids.iter().any(|id| id == spec.token.id())
    {
        report::tell(format_args!(
            "{} is of the cluster's configuration: the next `hoist up` makes it again; --token names another",
            spec.token.id()
        ));
    }
    Ok(())
}
