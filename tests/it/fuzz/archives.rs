//! A tar archive that comes out of the engine may be damaged, or another than was asked for.

use std::io::Write as _;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::Index;

use crate::fake_engine::FakeEngine;

/// Most bytes that are asked for.
const MOST: u64 = 4096;

/// The first entry of an archive.
#[derive(Debug, Clone)]
struct Entry {
    name: String,
    kind: tar::EntryType,
    /// What the header says, if it isn't the truth.
    size: Option<u64>,
    content: Vec<u8>,
}

fn entry() -> impl Strategy<Value = Entry> {
    let kinds = [
        tar::EntryType::Regular,
        tar::EntryType::Regular,
        tar::EntryType::Regular,
        tar::EntryType::Link,
        tar::EntryType::Symlink,
        tar::EntryType::Directory,
        tar::EntryType::GNUSparse,
        tar::EntryType::GNULongName,
        tar::EntryType::XHeader,
        tar::EntryType::Continuous,
    ];
    let names = ["db", "../../etc/passwd", "/etc/passwd", "a/b", ".", ""];
    let sizes = [0, 1, 511, 512, MOST, MOST + 1, 1 << 33, u64::MAX / 2, u64::MAX];
    let odd_size = proptest::option::weighted(0.4, proptest::sample::select(sizes.to_vec()));
    let name = proptest::sample::select(names.to_vec()).prop_map(str::to_owned);
    (name, proptest::sample::select(kinds.to_vec()), odd_size, vec(any::<u8>(), 0..1500))
        .prop_map(|(name, kind, size, content)| Entry { name, kind, size, content })
}

impl Entry {
    /// Its blocks, by hand: a writer that is right writes nothing that is wrong.
    fn write(&self, archive: &mut Vec<u8>) {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(self.kind);
        header.set_mode(0o600);
        let bytes = header.as_old_mut();
        bytes.name[..self.name.len()].copy_from_slice(self.name.as_bytes());
        header.set_size(self.size.unwrap_or(self.content.len() as u64));
        if self.kind == tar::EntryType::GNUSparse {
            let gnu = header.as_gnu_mut().unwrap();
            // One piece, at the end of what is said to be a file of sixteen tebibytes.
            let (offset, length) = ((16_u64 << 40) - 512, 512_u64);
            write!(&mut gnu.realsize[..], "{:011o}", offset + length).unwrap_or_default();
            write!(&mut gnu.sparse[0].offset[..], "{offset:011o}").unwrap_or_default();
            write!(&mut gnu.sparse[0].numbytes[..], "{length:011o}").unwrap_or_default();
        }
        header.set_cksum();
        archive.extend_from_slice(header.as_bytes());
        archive.extend_from_slice(&self.content);
        archive.resize(archive.len().next_multiple_of(512), 0);
    }
}

prop_compose! {
    fn archive()(
        entries in vec(entry(), 0..4),
        flips in vec((any::<Index>(), any::<u8>()), 0..3),
        cut in proptest::option::weighted(0.3, any::<Index>()),
    ) -> (Vec<Entry>, bool, Vec<u8>) {
        let mut bytes = Vec::new();
        entries.iter().for_each(|entry| entry.write(&mut bytes));
        bytes.extend_from_slice(&[0; 1024]);
        for (at, byte) in &flips {
            let at = at.index(bytes.len());
            bytes[at] = *byte;
        }
        if let Some(at) = cut {
            bytes.truncate(at.index(bytes.len()));
        }
        (entries, flips.is_empty() && cut.is_none(), bytes)
    }
}

proptest! {
    #[test]
    fn an_archive_is_the_file_or_an_error((entries, whole, bytes) in archive()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let length = bytes.len();
        let read = runtime.block_on(async {
            let fake = FakeEngine::start();
            fake.answer_raw("GET /containers/c/archive", "application/x-tar", bytes);
            fake.connect().await.read_file("c", "/db", MOST).await
        });
        let first = entries.first();
        match read {
            Ok(Some(content)) => {
                prop_assert!(content.len() <= length && content.len() as u64 <= MOST);
                if let Some(first) = first.filter(|first| whole && first.kind == tar::EntryType::Regular) {
                    let size = first.size.map_or(first.content.len(), |size| usize::try_from(size).unwrap());
                    prop_assert_eq!(content.len(), size, "not all of it, or more");
                }
            }
            Ok(None) => prop_assert!(false, "the engine did not say that there is none"),
            // What is right is not refused.
            Err(error) => if let Some(first) = first.filter(|_| whole) {
                let right = first.kind == tar::EntryType::Regular && first.size.is_none();
                prop_assert!(!right, "{}", hoist::error::render(&error));
            }
        }
    }
}

/// More than was asked for is not even read.
#[tokio::test]
async fn an_archive_without_end_is_left() {
    let fake = FakeEngine::start();
    fake.answer_raw("GET /containers/c/archive", "application/x-tar", vec![b'x'; 8 << 20]);
    let error = fake.connect().await.read_file("c", "/db", MOST).await.unwrap_err();
    assert!(hoist::error::render(&error).contains("larger than"), "{}", hoist::error::render(&error));
}
