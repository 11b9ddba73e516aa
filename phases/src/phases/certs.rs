//! Makes the certificates of the cluster true: reads those of the state directory, issues what is
//! missing or no longer fits, writes it. Needs no other phase, so it runs beside the network.

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use time::OffsetDateTime;

use crate::engine::PhaseError;
use crate::events::Outcome;
use crate::phases::{Context, PhaseId};
use crate::pki::{
    Action, CERTS, PkiError, PkiInputs, Reason, Reconciled, SA_KEY, SA_PUB, SanError, reconcile, rotation,
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
    let files = whole(store, &inputs)?;
    let made = reconcile(&files, &inputs, now)?;
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
    let mut files = whole(store, &inputs)?;
    for leaf in CERTS.iter().filter(|spec| spec.issuer.is_some()) {
        files.remove(&leaf.id.cert_path());
    }
    let made = reconcile(&files, &inputs, now)?;
    for (path, content) in &made.write {
        store.write(path, content)?;
    }
    Ok(made)
}

/// The files, with an exchange of the CAs that was cut short taken to its end.
fn whole(store: &dyn Store, inputs: &PkiInputs) -> Result<Files, StoreError> {
    let files = read(store)?;
    match rotation::stage(&files) {
        rotation::Stage::Exchanging => take(store, rotation::exchange(&files, inputs), files),
        _ => Ok(files),
    }
}

/// Notes that a replacement which is settled is known to everybody.
///
/// # Errors
/// When the state directory can't be written.
pub fn rotated(store: &dyn Store) -> Result<(), StoreError> {
    take(store, rotation::end(), Files::new()).map(|_| ())
}

/// Brings the replacement of the CAs to a stage, from the one before it. Components and nodes have to
/// learn of it before it goes on to the next.
///
/// # Errors
/// As [`make`].
pub fn rotate(
    store: &dyn Store,
    spec: &ClusterSpec,
    to: rotation::Stage,
    now: OffsetDateTime,
) -> Result<(), CertsError> {
    use rotation::Stage;
    let inputs = PkiInputs::new(spec)?;
    let files = read(store)?;
    let steps = match to {
        Stage::Announced => rotation::announce(&files, &inputs, now)?,
        Stage::Exchanging | Stage::Exchanged => rotation::exchange(&files, &inputs),
        Stage::Settled => rotation::settle(&inputs),
    };
    take(store, steps, files)?;
    Ok(())
}

fn take(store: &dyn Store, steps: Vec<rotation::Step>, mut files: Files) -> Result<Files, StoreError> {
    for step in steps {
        match step {
            rotation::Step::Write(path, content) => {
                store.write(&path, &content)?;
                files.insert(path, content);
            }
            rotation::Step::Remove(path) => {
                store.remove(&path)?;
                files.remove(&path);
            }
        }
    }
    Ok(files)
}

/// The files that [`make`] goes by, by path in the state directory.
///
/// # Errors
/// When the state directory can't be read.
pub fn read(store: &dyn Store) -> Result<Files, StoreError> {
    let pairs = CERTS.iter().flat_map(|spec| [spec.id.cert_path(), spec.id.key_path()]);
    let authorities = CERTS.iter().filter(|spec| spec.issuer.is_none()).map(|spec| spec.id);
    let paths = pairs.chain([SA_KEY.to_owned(), SA_PUB.to_owned()]).chain(rotation::paths(authorities));
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

    /// A state directory in memory whose changes fail once `room` files are written or removed.
    struct FakeStore {
        files: Mutex<Files>,
        room: Mutex<usize>,
    }

    impl FakeStore {
        fn with_room(room: usize) -> Self {
            Self { files: Mutex::default(), room: Mutex::new(room) }
        }

        fn takes(&self, path: &str) -> Result<(), StoreError> {
            let full = || StoreError {
                operation: "changing",
                path: path.to_owned(),
                source: std::io::ErrorKind::StorageFull.into(),
            };
            let mut room = self.room.lock().map_err(|_| full())?;
            *room = room.checked_sub(1).ok_or_else(full)?;
            Ok(())
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
            self.takes(path)?;
            if let Ok(mut files) = self.files.lock() {
                files.insert(path.to_owned(), content.to_vec());
            }
            Ok(())
        }

        fn remove(&self, path: &str) -> Result<(), StoreError> {
            self.takes(path)?;
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

    /// Who everything trusts, who signs, at each stage of a replacement.
    #[test]
    fn cas_are_replaced_with_both_trusted_meanwhile() -> TestResult {
        use rotation::Stage;
        let (store, spec) = (FakeStore::with_room(usize::MAX), spec(&[])?);
        let old = make(&store, &spec, NOW)?.pki;
        assert_eq!(rotation::stage(&read(&store)?), Stage::Settled);

        rotate(&store, &spec, Stage::Announced, NOW)?;
        let announced = make(&store, &spec, NOW)?;
        assert_eq!((rotation::stage(&read(&store)?), announced.write.len()), (Stage::Announced, 0));
        let announced = announced.pki;
        rotate(&store, &spec, Stage::Exchanged, NOW)?;
        assert_eq!(rotation::stage(&read(&store)?), Stage::Exchanged);
        let made = make(&store, &spec, NOW)?;
        let leaves = made.actions.iter().filter(|(_, action)| *action != Action::Kept);
        assert!(leaves.clone().all(|(_, action)| *action == Action::Reissued(Reason::CaChanged)));
        assert_eq!(leaves.count(), CERTS.iter().filter(|spec| spec.issuer.is_some()).count());
        let exchanged = made.pki;
        rotate(&store, &spec, Stage::Settled, NOW)?;
        assert_eq!(rotation::stage(&read(&store)?), Stage::Exchanged, "until everybody knows");
        rotated(&store)?;
        let settled = make(&store, &spec, NOW)?;
        assert_eq!((rotation::stage(&read(&store)?), settled.write.len()), (Stage::Settled, 0));

        for ca in [CertId::Ca, CertId::FrontProxyCa, CertId::EtcdCa] {
            let (first, second) = (old.cert(ca), settled.pki.cert(ca));
            assert_ne!(first, second, "{ca}");
            assert_eq!(
                (announced.cert(ca), announced.trusted(ca)),
                (first, &*[first, second].concat()),
                "{ca}"
            );
            assert_eq!(
                (exchanged.cert(ca), exchanged.trusted(ca)),
                (second, &*[second, first].concat()),
                "{ca}"
            );
            assert_eq!(settled.pki.trusted(ca), second, "{ca}");
        }
        assert_eq!(announced.ca_cert_hash(), old.ca_cert_hash());
        assert_ne!(exchanged.ca_cert_hash(), old.ca_cert_hash());
        assert_eq!(settled.pki.ca_cert_hash(), exchanged.ca_cert_hash());
        assert!(!store.files().keys().any(|path| path.contains("next") || path.contains("previous")));
        Ok(())
    }

    /// Wherever it is killed, an `up` works with what is there, and the same step completes it.
    #[test]
    fn a_replacement_cut_short_anywhere_goes_on() -> TestResult {
        use rotation::Stage;
        let spec = spec(&[])?;
        for to in [Stage::Announced, Stage::Exchanged, Stage::Settled] {
            for room in 0.. {
                let store = FakeStore::with_room(usize::MAX);
                let first = make(&store, &spec, NOW)?.pki;
                for before in
                    [Stage::Announced, Stage::Exchanged].into_iter().take_while(|stage| *stage != to)
                {
                    rotate(&store, &spec, before, NOW)?;
                }
                if to == Stage::Settled {
                    make(&store, &spec, NOW)?;
                }
                if let Ok(mut left) = store.room.lock() {
                    *left = room;
                }
                let cut = rotate(&store, &spec, to, NOW).is_err();
                if let Ok(mut room) = store.room.lock() {
                    *room = usize::MAX;
                }
                let meanwhile = make(&store, &spec, NOW)?.pki;
                let trusted = meanwhile.trusted(CertId::Ca);
                let both = |part: &[u8]| trusted.windows(part.len()).any(|window| window == part);
                assert!(both(meanwhile.cert(CertId::Ca)), "{to:?} after {room}");
                assert!(to == Stage::Settled || both(first.cert(CertId::Ca)), "{to:?} after {room}");
                rotate(&store, &spec, to, NOW)?;
                make(&store, &spec, NOW)?;
                if to == Stage::Settled {
                    rotated(&store)?;
                }
                assert_eq!(rotation::stage(&read(&store)?), to, "after {room}");
                if !cut {
                    break;
                }
            }
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
