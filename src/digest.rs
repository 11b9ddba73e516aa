//! SHA-256 of files and texts, by ring, whose machine code hashes gigabytes in seconds in builds for
//! development too.

use std::fs::File;
use std::io::{self, Read};

use ring::digest::{Context, SHA256, digest};

/// The file that this process was started from, even when another has taken its name since.
pub(crate) const PROGRAM: &str = "/proc/self/exe";

/// Bytes read at a time.
const CHUNK: usize = 1 << 20;

/// Of all that can be read, in lower-case hexadecimal digits.
pub(crate) fn of(from: &mut impl Read) -> io::Result<String> {
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer)? {
            0 => break,
            read => context.update(buffer.get(..read).unwrap_or_default()),
        }
    }
    Ok(hex(context.finish().as_ref()))
}

/// Of bytes that are there already.
pub(crate) fn of_bytes(bytes: &[u8]) -> String {
    hex(digest(&SHA256, bytes).as_ref())
}

/// Of this very program: a tenth of a second for a debug build of 80 MB.
pub(crate) fn of_program() -> io::Result<String> {
    of(&mut File::open(PROGRAM)?)
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_sha256() -> io::Result<()> {
        // FIPS 180-2, appendix B.1.
        let of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(of(&mut &b"abc"[..])?, of_abc);
        Ok(())
    }

    #[test]
    fn the_programs_digest_is_that_of_its_file() -> io::Result<()> {
        let whole = std::fs::read(std::env::current_exe()?)?;
        assert_eq!(of_program()?, of_bytes(&whole));
        Ok(())
    }
}
