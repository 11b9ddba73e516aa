//! This very program as a file of a container.

use std::io;

use bytes::Bytes;
use futures_util::StreamExt as _;
use futures_util::stream::iter;
use hoist_phases::ports::{ContainerSpec, Program, RuntimeError};

use super::Engine;
use super::archive::{Owner, around_one};
use super::transfer::{Place, Upload, unpackable};
use super::trouble::refused;
use crate::{digest, pieces};

/// Everybody may read and run it, nobody write it.
const MODE: u32 = 0o555;

const READ: &str = "read the program of";

impl Engine {
    /// Reads all of it, which is why it's asked for once.
    pub(super) async fn digest_of_program(&self) -> Result<String, RuntimeError> {
        let digest = self.program.get_or_try_init(|| async {
            let read = tokio::task::spawn_blocking(digest::of_program).await;
            read.map_err(io::Error::other).flatten().map_err(|error| unreadable("hoist", error))
        });
        Ok(digest.await?.clone())
    }

    /// The program as an archive for the volume that its path lies in.
    pub(super) async fn program_upload(
        &self,
        spec: &ContainerSpec,
        owner: Owner,
    ) -> Result<Option<Upload>, RuntimeError> {
        let Some(Program { path, .. }) = &spec.program else { return Ok(None) };
        let place = Place::of(spec);
        let base = place.base(path).map_err(|why| refused(READ, &spec.name, why))?;
        let open = async {
            let file = tokio::fs::File::open(digest::PROGRAM).await?;
            let size = file.metadata().await?.len();
            Ok((file, size))
        };
        let (file, size) = open.await.map_err(|error| unreadable(&spec.name, error))?;
        let around = around_one(base, path, owner, MODE, size);
        let (before, after) = around.map_err(|error| unpackable(&spec.name, error))?;
        let edge = |bytes: Vec<u8>| iter([Ok(Bytes::from(bytes))]);
        let archive = edge(before).chain(pieces::of(file)).chain(edge(after));
        Ok(Some(Upload { directory: base.to_owned(), archive: archive.boxed() }))
    }
}

fn unreadable(object: &str, error: io::Error) -> RuntimeError {
    RuntimeError::Failed { operation: READ, object: object.to_owned(), source: error.into() }
}
