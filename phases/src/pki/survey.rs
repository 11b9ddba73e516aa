//! How the certificates that are there fare; nothing is issued.

use time::OffsetDateTime;

use super::x509::Parsed;
use super::{Action, CertId, PkiError, PkiInputs, RENEW_BEFORE, Reason, reconcile};
use crate::ports::Files;

/// What a certificate is good for at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    Good,
    /// It ends within [`RENEW_BEFORE`].
    Ends,
    Ended,
    /// There is none.
    Missing,
    /// The next `up` issues it anew, for this reason.
    Misfit(Reason),
}

/// What is to be told of a certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surveyed {
    pub verdict: Verdict,
    pub common_name: String,
    pub not_after: Option<OffsetDateTime>,
    /// DNS names and addresses.
    pub sans: Vec<String>,
}

/// All certificates of the table that this cluster has, in its order. Files are those below `pki/`, as of [`reconcile`].
pub fn survey(existing: &Files, inputs: &PkiInputs, now: OffsetDateTime) -> Vec<(CertId, Surveyed)> {
    // A CA that can't be used leaves the dates, which tell why.
    let actions = reconcile(existing, inputs, now).map(|made| made.actions).unwrap_or_default();
    let rows = inputs.certs().map(|spec| {
        let path = spec.id.cert_path();
        let Some(pem) = existing.get(&path) else { return (spec.id, absent(Verdict::Missing)) };
        let Ok(told) = read(&path, pem, now) else {
            return (spec.id, absent(Verdict::Misfit(Reason::Unreadable)));
        };
        let action = actions.iter().find(|(id, _)| *id == spec.id).map(|(_, action)| *action);
        let verdict = match (told.verdict, action) {
            // The dates say more than that it will be issued anew because of them.
            (Verdict::Good, Some(Action::Reissued(reason))) => Verdict::Misfit(reason),
            (verdict, _) => verdict,
        };
        (spec.id, Surveyed { verdict, ..told })
    });
    rows.collect()
}

/// The same of one certificate that isn't in the table, by its dates alone.
///
/// # Errors
/// When it can't be understood.
pub fn read(path: &str, pem: &[u8], now: OffsetDateTime) -> Result<Surveyed, PkiError> {
    let cert = Parsed::read(path, pem)?;
    let verdict = match cert.not_after - now {
        left if left <= time::Duration::ZERO => Verdict::Ended,
        left if left < RENEW_BEFORE => Verdict::Ends,
        _ => Verdict::Good,
    };
    Ok(Surveyed {
        verdict,
        common_name: cert.common_name,
        not_after: Some(cert.not_after),
        sans: cert.sans.iter().map(ToString::to_string).collect(),
    })
}

fn absent(verdict: Verdict) -> Surveyed {
    Surveyed { verdict, common_name: String::new(), not_after: None, sans: Vec::new() }
}

#[cfg(test)]
mod tests {
    use time::Duration;
    use time::macros::datetime;

    use super::*;
    use crate::pki::{CA_LIFETIME, LEAF_LIFETIME};
    use crate::spec::test_spec;

    const NOW: OffsetDateTime = datetime!(2030-01-01 12:00 UTC);

    fn of(id: CertId, all: &[(CertId, Surveyed)]) -> Option<Verdict> {
        all.iter().find(|(other, _)| *other == id).map(|(_, told)| told.verdict)
    }

    #[test]
    fn certificates_are_judged_by_their_dates_and_by_what_is_wanted() -> Result<(), Box<dyn std::error::Error>>
    {
        let inputs = PkiInputs::new(&test_spec())?;
        let mut files: Files = reconcile(&Files::new(), &inputs, NOW)?.write.into_iter().collect();
        let at = |files: &Files, now| survey(files, &inputs, now);
        assert!(at(&files, NOW).iter().all(|(_, told)| told.verdict == Verdict::Good));

        let late = at(&files, NOW + LEAF_LIFETIME - Duration::days(29));
        assert_eq!(of(CertId::Admin, &late), Some(Verdict::Ends));
        assert_eq!(of(CertId::Ca, &late), Some(Verdict::Good));
        assert_eq!(of(CertId::Admin, &at(&files, NOW + LEAF_LIFETIME)), Some(Verdict::Ended));
        // reconcile() refuses to go on with a CA that has ended; its date is told all the same.
        assert_eq!(of(CertId::Ca, &at(&files, NOW + CA_LIFETIME)), Some(Verdict::Ended));

        let mut wanted = test_spec();
        wanted.extra_sans = vec!["added.example.org".to_owned()];
        let told = survey(&files, &PkiInputs::new(&wanted)?, NOW);
        assert_eq!(of(CertId::ApiServer, &told), Some(Verdict::Misfit(Reason::NamesChanged)));

        files.remove(&CertId::Scheduler.cert_path());
        files.insert(CertId::Steward.cert_path(), b"nonsense".to_vec());
        let told = at(&files, NOW);
        assert_eq!(of(CertId::Scheduler, &told), Some(Verdict::Missing));
        assert_eq!(of(CertId::Steward, &told), Some(Verdict::Misfit(Reason::Unreadable)));
        Ok(())
    }
}
