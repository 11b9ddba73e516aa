//! kine in etcd's place: the same port, the same certificates, the same volume, SQLite in it.

use super::CLIENT_PORT;
use crate::phases::flags::Flags;
use crate::phases::network::ETCD_DATA;
use crate::pki::CONTAINER_PKI_DIR;
use crate::spec::{ClusterSpec, Component};

/// Flags of kine 0.17. With `trusted-ca-file` it lets in nobody without a certificate of that CA.
pub(super) fn flags(spec: &ClusterSpec) -> Flags {
    let pki = format!("{CONTAINER_PKI_DIR}/etcd");
    // SQLite's write-ahead log is as whole after a SIGKILL with either; without waiting for the disk
    // an end of the machine may take the last writes along.
    let synchronous = if spec.etcd.syncs() { "FULL" } else { "OFF" };
    let database = format!(
        "sqlite://{ETCD_DATA}/state.db?_journal_mode=WAL&_busy_timeout=30000&_synchronous={synchronous}\
         &_txlock=immediate"
    );
    Flags::new([
        ("endpoint", database),
        // In plain text it colours each line, wherever that is shown.
        ("log-format", "json".to_owned()),
        ("listen-address", format!("127.0.0.1:{CLIENT_PORT}")),
        // On all interfaces by default.
        ("metrics-bind-address", "0".to_owned()),
        ("server-cert-file", format!("{pki}/server.crt")),
        ("server-key-file", format!("{pki}/server.key")),
        ("trusted-ca-file", format!("{pki}/ca.crt")),
    ])
    .overridden_by(&spec.component(Component::Kine).extra_args)
}

/// Where SQLite puts what it sorts; nothing else of its file system can be written.
pub(super) fn environment() -> [(String, String); 1] {
    [("SQLITE_TMPDIR".to_owned(), ETCD_DATA.to_owned())]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::test_spec;

    #[test]
    fn clients_need_a_certificate_and_only_durable_data_is_waited_for() {
        let mut spec = test_spec();
        for (durable, mode) in [(false, "_synchronous=OFF"), (true, "_synchronous=FULL")] {
            spec.etcd.durable = durable;
            let flags = flags(&spec);
            assert_eq!(flags.get("trusted-ca-file"), Some("/etc/kubernetes/pki/etcd/ca.crt"));
            assert_eq!(flags.get("listen-address"), Some("127.0.0.1:2379"));
            assert!(flags.get("endpoint").is_some_and(|database| database.contains(mode)), "{flags:?}");
        }
    }
}
