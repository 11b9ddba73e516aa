//! Makes the kubeconfigs of the host's user and of the components. Comes after the network,
//! because only then the port is known that the engine published.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::phases::Context;
use crate::pki::Kubeconfigs;
use crate::ports::{Store, StoreError};

/// Path of the user's kubeconfig in the state directory.
pub const ADMIN: &str = "kubeconfig";

/// Path of the kubeconfig that passes every authorizer.
pub const SUPER_ADMIN: &str = "kubeconfig-super-admin";

/// # Errors
/// When the phases certs or network have not run, or the state directory can't be read or written.
pub fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    async move {
        let kubeconfigs =
            Kubeconfigs::new(cx.outputs.pki.get()?, cx.outputs.network.get()?.api, cx.spec.api_port())?;
        let changed = write(cx.ports.store.as_ref(), &kubeconfigs)?;
        cx.outputs.kubeconfigs.set(kubeconfigs);
        Ok(Outcome::changed(changed))
    }
    .boxed()
}

/// Writes those of the host's user, if they differ from what is there; tells whether they did.
/// Those of the components go into their containers alone.
///
/// # Errors
/// When the state directory can't be read or written.
pub fn write(store: &dyn Store, kubeconfigs: &Kubeconfigs) -> Result<bool, StoreError> {
    let mut changed = false;
    for (path, content) in [(ADMIN, kubeconfigs.admin()), (SUPER_ADMIN, kubeconfigs.super_admin())] {
        if store.read(path)?.as_deref() != Some(content.as_bytes()) {
            store.write(path, content.as_bytes())?;
            changed = true;
        }
    }
    Ok(changed)
}
