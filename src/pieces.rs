//! Files on their way to the engine, a piece at a time: what is large is never held in memory whole.

use std::io;

use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream::try_unfold;
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;

/// Bytes of a piece.
const SIZE: usize = 256 << 10;

/// From where it is read until its end.
pub(crate) fn of(file: File) -> impl Stream<Item = io::Result<Bytes>> + Send + 'static {
    try_unfold(file, |mut file| async move {
        let mut buffer = Vec::with_capacity(SIZE);
        let length = file.read_buf(&mut buffer).await?;
        Ok((length > 0).then_some((buffer.into(), file)))
    })
}
