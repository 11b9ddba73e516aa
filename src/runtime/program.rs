//! This very program as a file of a container.

use std::fs::File;
use std::io;

use hoist_phases::ports::{ContainerSpec, Program, RuntimeError};

use super::Engine;
use super::archive::{Owner, pack_one};
use super::transfer::{Place, Upload, unpackable};
use super::trouble::refused;
use crate::digest;

/// Everybody may read and run it, nobody write it.
const MODE: u32 = 0o555;

const READ: &str = "read the program of";

impl Engine {
    /// Reads all of it, which is why it's asked for once.
    pub(super) async fn digest_of_program(&self) -> Result<String, RuntimeError> {
        let digest = self.program.get_or_try_init(|| blocking("hoist", digest::of_program)).await?;
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
            let file = File::open(digest::PROGRAM)?;
            let size = file.metadata()?.len();
            Ok(pack_one(&from, &to, owner, MODE, size, file))
        });
        let archive = packed.await?.map_err(|error| unpackable(&spec.name, error))?;
        Ok(Some(Upload { directory: base, archive }))
    }
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
