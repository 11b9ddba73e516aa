//! Makes the certificates of the cluster true: reads those of the state directory, issues what is
//! missing or no longer fits, writes it. Needs no other phase, so it runs beside the network.

use std::net::Ipv4Addr;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use time::OffsetDateTime;

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::phases::{Context, PhaseId};
use crate::pki::{Action, CERTS, PkiInputs, SA_KEY, SA_PUB, reconcile};
use crate::ports::{Files, Store, StoreError};

/// # Errors
/// When the state directory can't be read or written, a name can't be put into a certificate, or
/// a CA that is there can't be used.
pub fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    async move {
        let existing = read(cx.ports.store.as_ref())?;
        // The engine publishes the API port on loopback; any other address is one of the spec's extra SANs.
        let inputs = PkiInputs::new(&cx.spec, &[Ipv4Addr::LOCALHOST.into()], &[])?;
        let reconciled = reconcile(&existing, &inputs, OffsetDateTime::now_utc())?;
        for (path, content) in &reconciled.write {
            cx.ports.store.write(path, content)?;
        }
        for (id, action) in &reconciled.actions {
            if let Action::Reissued(reason) = action {
                cx.events.step(PhaseId::Certs, format!("certificate {id} issued anew: {reason}"));
            }
        }
        cx.outputs.pki.set(reconciled.pki);
        Ok(Outcome::changed(!reconciled.write.is_empty()))
    }
    .boxed()
}

/// The files below `pki/` that the phase knows of.
fn read(store: &dyn Store) -> Result<Files, StoreError> {
    let pairs = CERTS.iter().flat_map(|spec| [spec.id.cert_path(), spec.id.key_path()]);
    let paths = pairs.chain([SA_KEY.to_owned(), SA_PUB.to_owned()]);
    let mut files = Files::new();
    for path in paths {
        if let Some(content) = store.read(&path)? {
            files.insert(path, content);
        }
    }
    Ok(files)
}
