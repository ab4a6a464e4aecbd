//! Long pages in memory, as files that never were on a disk: the kernel sends them without
//! a copy, and never waits for them.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;

/// Copying less than this costs less than sending it from a file, and the descriptor that it takes.
pub(crate) const LENGTH_MIN: u64 = 64 * 1024;

/// Each takes a descriptor, of which a server keeps a thousand beside its connections.
const COUNT_MAX: usize = 512;

/// How many there are in this process, whose descriptors they take.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A page's bytes, which do not change.
#[derive(Debug)]
pub(crate) struct MemoryFile {
    file: File,
    _place: Place,
}

impl MemoryFile {
    /// One of `bytes`; `None` if there are too many already, or the system has no such files.
    pub(crate) fn of(bytes: &[u8]) -> Option<Self> {
        Self::filled(|mut file| file.write_all(bytes))
    }

    /// The same of the first `length` bytes of `source`, which may have fewer.
    pub(crate) fn copy(source: &File, length: u64) -> Option<Self> {
        Self::filled(|file| copy(source, file, length))
    }

    fn filled(fill: impl FnOnce(&File) -> io::Result<()>) -> Option<Self> {
        let place = Place::take()?;
        let file = create().ok()?;
        fill(&file).ok()?;
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

#[cfg(target_os = "linux")]
fn create() -> io::Result<File> {
    use rustix::fs::{MemfdFlags, memfd_create};

    Ok(memfd_create("page", MemfdFlags::CLOEXEC)?.into())
}

/// Copies within the kernel, once.
#[cfg(target_os = "linux")]
fn copy(source: &File, to: &File, length: u64) -> io::Result<()> {
    let mut at = 0;
    while at < length {
        let left = usize::try_from(length - at).unwrap_or(usize::MAX);
        // It moves `at` on.
        if rustix::fs::sendfile(to, source, Some(&mut at), left)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn copy(_: &File, _: &File, _: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(not(target_os = "linux"))]
fn create() -> io::Result<File> {
    Err(io::ErrorKind::Unsupported.into())
}

#[derive(Debug)]
struct Place;

impl Place {
    fn take() -> Option<Self> {
        let before = COUNT.fetch_add(1, Ordering::Relaxed);
        let place = Self;
        (before < COUNT_MAX).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        COUNT.fetch_sub(1, Ordering::Relaxed);
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
        drop(files);
        let page = MemoryFile::of(b"page").unwrap();
        let copy = MemoryFile::copy(&page.file, 3).unwrap();
        assert_eq!(copy.read(0, 3).unwrap(), "pag");
        assert!(copy.read(0, 4).is_err());
        assert!(MemoryFile::copy(&page.file, 5).is_none(), "it has fewer");
    }
}
