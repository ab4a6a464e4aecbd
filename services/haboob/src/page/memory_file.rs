//! Long pages that are in our memory, as files that never were on a disk: the kernel sends them
//! without a copy, and never waits for them.

use std::fs::File;
use std::future::ready;
use std::io::{self, Write};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{MemfdFlags, memfd_create};
use tamarisk_server::{FileLoad, SentFile};
use tokio::sync::{Semaphore, SemaphorePermit};

/// Each takes a descriptor; a server keeps a thousand beside its connections.
const COUNT_MAX: usize = 256;

/// Of this process, whose descriptors they take.
static PLACES: Semaphore = Semaphore::const_new(COUNT_MAX);

/// A page's bytes, which do not change.
#[derive(Debug)]
pub(crate) struct MemoryFile {
    file: File,
    _place: SemaphorePermit<'static>,
}

impl MemoryFile {
    /// One of `bytes`; `None` if there are too many already, or the system has no such files.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        let place = PLACES.try_acquire().ok()?;
        let descriptor = memfd_create("page", MemfdFlags::CLOEXEC).ok()?;
        let mut file = File::from(descriptor);
        file.write_all(bytes).ok()?;
        Some(Self { file, _place: place })
    }

    /// So many bytes from `at` on.
    pub(crate) fn read(&self, at: u64, length: usize) -> io::Result<Bytes> {
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(bytes.into())
    }
}

impl AsFd for MemoryFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl SentFile for MemoryFile {
    fn is_in_memory(&self, _: Range<u64>) -> bool {
        true
    }

    fn load(self: Arc<Self>, _: Range<u64>) -> FileLoad {
        Box::pin(ready(Ok(())))
    }

    fn unchanged(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_no_more_than_there_are_descriptors_for() {
        let files: Vec<_> = std::iter::from_fn(|| MemoryFile::of(b"page")).collect();
        assert_eq!(files.len(), COUNT_MAX);
        assert_eq!(files[COUNT_MAX - 1].read(1, 2).unwrap(), "ag");
        assert!(files[0].read(3, 2).is_err());
    }
}
