//! Makes the certificates of the cluster true: reads those of the state directory, issues what is
//! missing or no longer fits, writes it. Needs no other phase, so it runs beside the network.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use time::OffsetDateTime;

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::phases::{Context, PhaseId};
use crate::pki::{
    Action, CERTS, PkiError, PkiInputs, Reason, Reconciled, SA_KEY, SA_PUB, SanError, reconcile,
};
use crate::ports::{Files, Store, StoreError};
use crate::spec::ClusterSpec;

/// Why the certificates could not be made; the words are those of the module that failed.
#[derive(Debug, thiserror::Error)]
pub enum CertsError {
    #[error(transparent)]
    Name(#[from] SanError),
    #[error(transparent)]
    Pki(#[from] PkiError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// # Errors
/// See [`make`].
pub fn run(cx: &Context) -> BoxFuture<'_, Result<Outcome, PhaseError>> {
    async move {
        let made = make(cx.ports.store.as_ref(), &cx.spec, OffsetDateTime::now_utc())?;
        for (id, action) in &made.actions {
            if let Action::Reissued(reason) = action {
                cx.events.step(PhaseId::Certs, format!("certificate {id} issued anew: {reason}"));
            }
        }
        let due = made.actions.iter().filter(|(_, action)| *action == Action::Reissued(Reason::Expires));
        let due: Vec<_> = due.map(|(id, _)| id.to_string()).collect();
        cx.outputs.pki.set(made.pki);
        Ok(match due.is_empty() {
            true => Outcome::changed(!made.write.is_empty()),
            // Components are started again for it, which nobody asked for.
            false => Outcome::Warned(format!(
                "issued anew, as their time was nearly or fully up: {}",
                due.join(", ")
            )),
        })
    }
    .boxed()
}

/// Brings the files below `pki/` up to date and gives all of them.
///
/// # Errors
/// When the state directory can't be read or written, a name can't be put into a certificate, or
/// a CA that is there can't be used. Nothing has been written in the last two cases.
pub fn make(store: &dyn Store, spec: &ClusterSpec, now: OffsetDateTime) -> Result<Reconciled, CertsError> {
    let inputs = PkiInputs::new(spec)?;
    let made = reconcile(&read(store)?, &inputs, now)?;
    for (path, content) in &made.write {
        store.write(path, content)?;
    }
    Ok(made)
}

/// Issues every leaf anew; the CAs stay, and with them what trusts them.
///
/// # Errors
/// As [`make`].
pub fn renew(store: &dyn Store, spec: &ClusterSpec, now: OffsetDateTime) -> Result<Reconciled, CertsError> {
    let inputs = PkiInputs::new(spec)?;
    let mut files = read(store)?;
    for leaf in CERTS.iter().filter(|spec| spec.issuer.is_some()) {
        files.remove(&leaf.id.cert_path());
    }
    let made = reconcile(&files, &inputs, now)?;
    for (path, content) in &made.write {
        store.write(path, content)?;
    }
    Ok(made)
}

/// The files that [`make`] goes by, by path in the state directory.
///
/// # Errors
/// When the state directory can't be read.
pub fn read(store: &dyn Store) -> Result<Files, StoreError> {
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

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use time::macros::datetime;

    use super::*;
    use crate::pki::{CertId, San};

    type TestResult = Result<(), Box<dyn std::error::Error>>;

    const NOW: OffsetDateTime = datetime!(2030-01-01 12:00 UTC);

    /// A state directory in memory whose writes fail once `room` files are written.
    struct FakeStore {
        files: Mutex<Files>,
        room: Mutex<usize>,
    }

    impl FakeStore {
        fn with_room(room: usize) -> Self {
            Self { files: Mutex::default(), room: Mutex::new(room) }
        }

        fn files(&self) -> Files {
            self.files.lock().map(|files| files.clone()).unwrap_or_default()
        }
    }

    impl Store for FakeStore {
        fn read(&self, path: &str) -> Result<Option<Vec<u8>>, StoreError> {
            Ok(self.files().get(path).cloned())
        }

        fn write(&self, path: &str, content: &[u8]) -> Result<(), StoreError> {
            let full = || StoreError {
                operation: "writing",
                path: path.to_owned(),
                source: std::io::ErrorKind::StorageFull.into(),
            };
            let mut room = self.room.lock().map_err(|_| full())?;
            *room = room.checked_sub(1).ok_or_else(full)?;
            self.files.lock().map_err(|_| full())?.insert(path.to_owned(), content.to_vec());
            Ok(())
        }

        fn remove(&self, path: &str) -> Result<(), StoreError> {
            if let Ok(mut files) = self.files.lock() {
                files.remove(path);
            }
            Ok(())
        }
    }

    fn spec(extra_sans: &[&str]) -> Result<ClusterSpec, serde_json::Error> {
        serde_json::from_value(serde_json::json!({
            "name": "t", "kubernetes": "v1.36.3", "extraSans": extra_sans,
            "networking": {"podSubnet": "10.244.0.0/16", "serviceSubnet": "10.96.0.0/12", "dnsDomain": "k8s.test"},
            "token": "abcdef.0123456789abcdef", "tokenTtl": 86400, "cni": "none", "kubeProxy": "nftables",
            "etcd": {"durable": false, "tmpfsBytes": 1, "quotaBytes": 1}, "components": [], "nodes": []
        }))
    }

    #[test]
    fn writes_all_files_once() -> TestResult {
        let store = FakeStore::with_room(usize::MAX);
        let made = make(&store, &spec(&[])?, NOW)?;
        assert_eq!(made.write.len(), 2 * CERTS.len() + 2);
        assert_eq!(store.files(), made.write.into_iter().collect());
        assert_eq!(make(&store, &spec(&[])?, NOW)?.write, []);
        Ok(())
    }

    #[test]
    fn renewal_is_of_leaves_alone() -> TestResult {
        let store = FakeStore::with_room(usize::MAX);
        make(&store, &spec(&[])?, NOW)?;
        let before = store.files();
        let made = renew(&store, &spec(&[])?, NOW + time::Duration::days(1))?;
        for (id, action) in made.actions {
            let is_ca = [CertId::Ca, CertId::FrontProxyCa, CertId::EtcdCa].contains(&id);
            assert_eq!(action == Action::Kept, is_ca, "{id}");
            let (old, new) = (before.get(&id.cert_path()), store.files().get(&id.cert_path()).cloned());
            assert_eq!(old == new.as_ref(), is_ca, "{id}");
        }
        for kept in [SA_KEY, SA_PUB] {
            assert_eq!(before.get(kept), store.files().get(kept), "{kept}");
        }
        // What was renewed is what a run finds fit.
        assert_eq!(make(&store, &spec(&[])?, NOW + time::Duration::days(1))?.write, []);
        Ok(())
    }

    #[test]
    fn extra_names_of_the_spec_reach_the_api_servers_certificate() -> TestResult {
        let store = FakeStore::with_room(usize::MAX);
        make(&store, &spec(&[])?, NOW)?;
        let made = make(&store, &spec(&["api.example.com", "10.9.8.7"])?, NOW)?;
        let changed: Vec<_> =
            made.actions.into_iter().filter(|(_, action)| *action != Action::Kept).collect();
        assert_eq!(changed, [(CertId::ApiServer, Action::Reissued(Reason::NamesChanged))]);

        let before = store.files();
        let error = make(&store, &spec(&["not a name"])?, NOW).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("extraSans \"not a name\": must be an IP address or a DNS name"));
        assert_eq!(store.files(), before);
        Ok(())
    }

    /// kind#2680, kind#3755: the certificate was not valid for the host in use.
    #[test]
    fn kind_2680_the_api_server_answers_to_every_name_it_is_known_by() -> TestResult {
        let inputs = PkiInputs::new(&spec(&["10.1.2.3"])?)?;
        let names = [
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.k8s.test",
            "localhost",
            "hoist-t",
            "127.0.0.1",
            "::1",
            "10.96.0.1",
            "192.168.66.2",
            "10.1.2.3",
        ];
        let wanted = names.iter().map(|name| San::parse(name)).collect::<Result<_, _>>()?;
        assert_eq!(inputs.api_server, wanted);
        Ok(())
    }

    #[test]
    fn the_api_server_has_an_address_and_a_service_in_each_family() -> TestResult {
        let mut spec = spec(&[])?;
        spec.networking.pod_subnet = "fd10:244::/56,10.244.0.0/16".parse()?;
        spec.networking.service_subnet = "fd10:96::/112,10.96.0.0/12".parse()?;
        let inputs = PkiInputs::new(&spec)?;
        for name in ["192.168.66.2", "fd00::1", "10.96.0.1", "fd10:96::1"] {
            assert!(inputs.api_server.contains(&San::parse(name)?), "{name}");
        }
        Ok(())
    }

    /// A disk that fills up or a kill between two writes: the next run must mend what it finds, or say
    /// by name what it can't.
    #[test]
    fn a_run_cut_short_is_mended_by_the_next() -> TestResult {
        let total = 2 * CERTS.len() + 2;
        for room in 0..total {
            let store = FakeStore::with_room(room);
            let first = make(&store, &spec(&[])?, NOW).err();
            assert!(matches!(first, Some(CertsError::Store(_))), "{room}: {first:?}");
            if let Ok(mut room) = store.room.lock() {
                *room = usize::MAX;
            }
            match make(&store, &spec(&[])?, NOW) {
                Ok(_) => assert_eq!(make(&store, &spec(&[])?, NOW)?.write, [], "{room}"),
                Err(CertsError::Pki(PkiError::CaCertificateMissing { key, .. })) => {
                    assert!(store.files().contains_key(&key), "{room}");
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}
