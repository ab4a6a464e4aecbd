//! Long pages, which are sent from where the kernel has them: it keeps what is read often in
//! memory, and sends it from there without a copy. What it would have to read from a disk, a
//! stage reads before.

use std::fs::{File, Metadata};
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::Arc;

use bytes::Bytes;
use rustix::fs::{Stat, fstat};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use tamarisk_http::server::{Bringing, SentFile};

use crate::files::{Chunk, ChunkSink};

/// Copying less than this costs less than sending it from a file, and the descriptor that it takes.
pub(crate) const LENGTH_MIN: u64 = 64 * 1024;

/// To tell whether a file is in memory, the first byte of each so many is looked at: the kernel
/// reads and forgets much at once. Where it has not, a core waits for the disk.
const PROBED_BYTES: u64 = 256 * 1024;

/// A file that is open, to be sent.
#[derive(Debug)]
pub(crate) struct PageFile {
    file: Arc<WatchedFile>,
    /// Whether the kernel tells what it has of it in memory. Of others nothing is asked but by the
    /// stage: the answer may have to come over a network.
    is_told_of: bool,
    /// Where is read what is not in memory.
    chunk: ChunkSink,
}

/// It may be written to while it is sent, which then ends.
#[derive(Debug)]
pub(crate) struct WatchedFile {
    file: File,
    written: Written,
}

/// Differs if somebody has written to the file.
#[derive(Debug, PartialEq, Eq)]
struct Written {
    length: u64,
    modified: (i64, i64),
}

impl Written {
    fn of(stat: &Stat) -> Self {
        let modified = (stat.st_mtime, stat.st_mtime_nsec as i64);
        Self { length: stat.st_size as u64, modified }
    }
}

impl WatchedFile {
    fn is_current(&self) -> bool {
        let is_current = |stat: Stat| Written::of(&stat) == self.written && stat.st_nlink > 0;
        fstat(&self.file).is_ok_and(is_current)
    }

    /// Answers under way outlive that it is deleted.
    fn unchanged(&self) -> io::Result<()> {
        match Written::of(&fstat(&self.file)?) == self.written {
            true => Ok(()),
            false => Err(io::Error::other("the file has changed while it was sent")),
        }
    }

    /// These bytes, from the disk if need be.
    pub(crate) fn read(&self, at: u64, length: usize) -> io::Result<Bytes> {
        self.unchanged()?;
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(bytes.into())
    }
}

impl PageFile {
    pub(crate) fn new(file: File, metadata: &Metadata, chunk: ChunkSink) -> Self {
        let written =
            Written { length: metadata.len(), modified: (metadata.mtime(), metadata.mtime_nsec()) };
        let is_told_of = is_told_of(&file);
        Self { file: Arc::new(WatchedFile { file, written }), is_told_of, chunk }
    }

    /// Whether it is of use while it stays open.
    pub(crate) const fn is_told_of(&self) -> bool {
        self.is_told_of
    }

    /// Whether nobody has written to it since it was opened, or deleted it.
    pub(crate) fn is_current(&self) -> bool {
        self.file.is_current()
    }

    /// Some of the `length` bytes from `at` on, if the kernel has them in memory.
    pub(crate) fn read_at_once(&self, at: u64, length: usize) -> io::Result<Option<Bytes>> {
        if !self.is_told_of {
            return Ok(None);
        }
        self.file.unchanged()?;
        let mut bytes = vec![0; length];
        // A failure, too, is the stage's to tell.
        let Ok(read @ 1..) = read_at_once(&self.file.file, &mut bytes, at) else { return Ok(None) };
        bytes.truncate(read);
        Ok(Some(bytes.into()))
    }

    /// These bytes, once the disk has been read.
    pub(crate) fn read(
        &self,
        at: u64,
        length: usize,
    ) -> impl Future<Output = io::Result<Bytes>> + Send + use<> {
        let (chunk, wanted) =
            (self.chunk.clone(), Chunk { file: Arc::clone(&self.file), at, length });
        async move { chunk.call(wanted).await.map_err(io::Error::other).flatten() }
    }
}

impl AsFd for PageFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.file.as_fd()
    }
}

impl SentFile for PageFile {
    fn bring(&self, part: Range<u64>) -> io::Result<Option<Bringing>> {
        // When the answer was begun, it was asked for.
        if part.start > 0 {
            self.file.unchanged()?;
        }
        let is_in_memory = |at| read_at_once(&self.file.file, &mut [0], at) == Ok(1);
        if part.clone().step_by(PROBED_BYTES as usize).all(is_in_memory) {
            return Ok(None);
        }
        let length = usize::try_from(part.end - part.start).map_err(io::Error::other)?;
        let read = self.read(part.start, length);
        Ok(Some(Box::pin(async move { read.await.map(drop) })))
    }
}

/// Whether the kernel would tell what it has of this file in memory: not all file systems know.
pub(crate) fn is_told_of(file: &File) -> bool {
    matches!(read_at_once(file, &mut [0], 0), Ok(_) | Err(Errno::AGAIN))
}

/// Reads some bytes from `at` on, if the kernel has them in memory.
fn read_at_once(file: &File, bytes: &mut [u8], at: u64) -> rustix::io::Result<usize> {
    preadv2(file, &mut [IoSliceMut::new(bytes)], at, ReadWriteFlags::NOWAIT)
}
