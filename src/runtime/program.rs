//! This very program as a file of a container.

use std::fs::File;
use std::io::{self, Read as _};

use hoist_phases::ports::{ContainerSpec, Program, RuntimeError};
use ring::digest::{Context, SHA256};

use super::Engine;
use super::archive::{Owner, pack_one};
use super::transfer::{Place, Upload, unpackable};
use super::trouble::refused;

/// The file that this process was started from, even when another has taken its name since.
const SELF: &str = "/proc/self/exe";

/// Everybody may read and run it, nobody write it.
const MODE: u32 = 0o555;

const READ: &str = "read the program of";

const CHUNK: usize = 1 << 20;

impl Engine {
    /// Takes a tenth of a second for a debug build of 80 MB, which is why it's asked for once.
    pub(super) async fn digest_of_program(&self) -> Result<String, RuntimeError> {
        let digest = self.program.get_or_try_init(|| blocking("hoist", digest)).await?;
        Ok(digest.clone())
    }

    /// The program as an archive for the volume that its path lies in.
    pub(super) async fn program_upload(
        &self,
        spec: &ContainerSpec,
        owner: Owner,
    ) -> Result<Option<Upload>, RuntimeError> {
        let Some(Program { path, .. }) = &spec.program else { return Ok(None) };
        let place = Place::of(spec);
        let base = place.base(path).map_err(|why| refused(READ, &spec.name, why))?.to_owned();
        let (from, to) = (base.clone(), path.clone());
        let packed = blocking(&spec.name, move || {
            let file = File::open(SELF)?;
            let size = file.metadata()?.len();
            Ok(pack_one(&from, &to, owner, MODE, size, file))
        });
        let archive = packed.await?.map_err(|error| unpackable(&spec.name, error))?;
        Ok(Some(Upload { directory: base, archive }))
    }
}

fn digest() -> io::Result<String> {
    let mut file = File::open(SELF)?;
    let mut context = Context::new(&SHA256);
    let mut buffer = vec![0; CHUNK];
    loop {
        match file.read(&mut buffer)? {
            0 => break,
            read => context.update(buffer.get(..read).unwrap_or_default()),
        }
    }
    Ok(context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
}

async fn blocking<T: Send + 'static>(
    object: &str,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T, RuntimeError> {
    let failed = |source| RuntimeError::Failed { operation: READ, object: object.to_owned(), source };
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| failed(error.into())),
        Err(error) => Err(failed(error.into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_is_that_of_the_file() -> io::Result<()> {
        let whole = std::fs::read(std::env::current_exe()?)?;
        let wanted: String =
            ring::digest::digest(&SHA256, &whole).as_ref().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(digest()?, wanted);
        Ok(())
    }
}
