//! A request body in a temporary file, which has no name and goes when it is closed.
//!
//! The disk is read and written on the runtime's threads for blocking work.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use tokio::task::{JoinHandle, spawn_blocking};

/// What is read at once: as much as is written at once.
const READ_MAX: u64 = 64 * 1024;

/// Where `TMPDIR` says, or in `/var/tmp`, because `/tmp` is often memory.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let large = Path::new("/var/tmp");
    let is_chosen = std::env::var_os("TMPDIR").is_some();
    if !is_chosen && large.is_dir() { large.to_owned() } else { std::env::temp_dir() }
});

/// Where the files are.
pub(crate) fn folder() -> &'static Path {
    &FOLDER
}

/// A file that a body is written to.
#[derive(Debug)]
pub(crate) struct Spool {
    file: Arc<File>,
    length: u64,
}

impl Spool {
    pub(crate) async fn create() -> io::Result<Self> {
        let file = blocking(spawn_blocking(|| tempfile::tempfile_in(folder()))).await?;
        Ok(Self { file: Arc::new(file), length: 0 })
    }

    /// Writes `bytes` behind what there is.
    pub(crate) async fn write(&mut self, bytes: Bytes) -> io::Result<()> {
        let (file, at) = (Arc::clone(&self.file), self.length);
        self.length += bytes.len() as u64;
        blocking(spawn_blocking(move || file.write_all_at(&bytes, at))).await
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// All that was written, from its beginning.
    pub(crate) fn read(self) -> Spooled {
        Spooled { file: self.file, at: 0, length: self.length, reading: None }
    }
}

async fn blocking<T>(work: JoinHandle<io::Result<T>>) -> io::Result<T> {
    work.await.map_err(io::Error::other)?
}

/// A file that a body is read from.
#[derive(Debug)]
pub(crate) struct Spooled {
    file: Arc<File>,
    at: u64,
    length: u64,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

impl Spooled {
    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.length
    }

    /// The next part of it; `None` at the end.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        if self.is_at_end() {
            return Poll::Ready(Ok(None));
        }
        let (file, at) = (Arc::clone(&self.file), self.at);
        let count = READ_MAX.min(self.length - at) as usize;
        let reading = self.reading.get_or_insert_with(|| {
            spawn_blocking(move || {
                let mut bytes = BytesMut::zeroed(count);
                file.read_exact_at(&mut bytes, at)?;
                Ok(bytes.freeze())
            })
        });
        let read = ready!(std::pin::Pin::new(reading).poll(cx));
        self.reading = None;
        let bytes = read.map_err(io::Error::other)??;
        self.at += bytes.len() as u64;
        Poll::Ready(Ok(Some(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test]
    async fn what_is_written_is_read() {
        let mut spool = Spool::create().await.unwrap();
        let written: Vec<u8> = (0..200_000_u32).map(|index| (index % 251) as u8).collect();
        for part in written.chunks(70_000) {
            spool.write(Bytes::copy_from_slice(part)).await.unwrap();
        }
        assert_eq!(spool.length(), written.len() as u64);
        let mut spooled = spool.read();
        let mut read = Vec::new();
        while let Some(bytes) = poll_fn(|cx| spooled.poll_next(cx)).await.unwrap() {
            read.extend_from_slice(&bytes);
        }
        assert!(spooled.is_at_end() && read == written);
    }
}
