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
use tamarisk_server::{FileBody, FileLoad, SentFile};
use tamarisk_stage::{Request, Sink};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Copying less than this costs less than sending it from a file, and the descriptor that it takes.
pub(crate) const LENGTH_MIN: u64 = 64 * 1024;

/// To tell whether a file is in memory, the first byte of each so many is looked at, and the last of
/// all: the kernel reads and forgets no less at once, or hardly. Where it has not what is between, a
/// core waits.
const PROBED_BYTES: usize = 128 * 1024;

/// An open file.
#[derive(Debug)]
pub(crate) struct PageFile {
    file: File,
    written: Written,
    /// Whether the kernel tells what it has of it in memory. Of others nothing is asked but by the
    /// stage: the answer may have to come over a network.
    is_told_of: bool,
    /// Where is read what is not in memory.
    chunk: ChunkSink,
    _place: OwnedSemaphorePermit,
}

/// What the open files of pages have in common; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct PageFiles {
    chunk: ChunkSink,
    /// As many as may be open at once: who is being sent one keeps it open for as long as it likes.
    places: Arc<Semaphore>,
}

impl PageFiles {
    /// So many at most, of which `chunk` reads what is not in memory.
    pub(crate) fn new(chunk: ChunkSink, files_max: usize) -> Self {
        let places = Arc::new(Semaphore::new(files_max.min(Semaphore::MAX_PERMITS)));
        Self { chunk, places }
    }
}

/// A part of a file.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) file: Arc<PageFile>,
    pub(crate) part: Range<u64>,
    pub(crate) wanted: ReadInto,
}

/// Where it is to be.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ReadInto {
    /// In the answer of the stage.
    Answer,
    /// In the kernel's memory; the answer is empty.
    Memory,
}

/// What the stage that reads parts is asked.
pub(crate) type ChunkRequest = Request<Chunk, io::Result<Bytes>>;

/// Where parts of files are asked for.
pub(crate) type ChunkSink = Sink<ChunkRequest>;

/// Tells whether somebody has written to a file. (The time of its last change, as for a page that
/// is compared with the disk, would tell of its deletion too, which answers under way outlive.)
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

impl PageFile {
    /// One of `files`; `None` if as many are open as may be.
    pub(crate) fn new(
        file: File,
        metadata: &Metadata,
        is_told_of: bool,
        files: &PageFiles,
    ) -> Option<Self> {
        let place = Arc::clone(&files.places).try_acquire_owned().ok()?;
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        let written = Written { length: metadata.len(), modified };
        Some(Self { file, written, is_told_of, chunk: files.chunk.clone(), _place: place })
    }

    /// Whether it is of use while it stays open.
    pub(crate) const fn is_told_of(&self) -> bool {
        self.is_told_of
    }

    /// Whether it was neither written to nor deleted since it was opened.
    pub(crate) fn is_current(&self) -> bool {
        let is_current = |stat: Stat| Written::of(&stat) == self.written && stat.st_nlink > 0;
        fstat(&self.file).is_ok_and(is_current)
    }

    /// Whether its beginning can be sent without waiting for a disk.
    pub(crate) fn begins_in_memory(&self) -> bool {
        self.is_in_memory(self.beginning())
    }

    /// What is sent first.
    pub(crate) fn beginning(&self) -> Range<u64> {
        0..self.written.length.min(FileBody::PART_BYTES)
    }

    /// So is what is behind its end.
    fn has_in_memory(&self, at: u64) -> bool {
        read_at_once(&self.file, &mut [0], at).is_ok()
    }

    /// Some of the `length` bytes from `at` on, if the kernel has them in memory.
    pub(crate) fn read_at_once(&self, at: u64, length: usize) -> io::Result<Option<Bytes>> {
        if !self.is_told_of || !self.has_in_memory(at) {
            return Ok(None);
        }
        self.unchanged()?;
        let mut bytes = vec![0; length];
        // A failure, too, is the stage's to tell.
        let Ok(read @ 1..) = read_at_once(&self.file, &mut bytes, at) else { return Ok(None) };
        bytes.truncate(read);
        Ok(Some(bytes.into()))
    }

    /// These bytes, from the disk if need be.
    pub(crate) fn read(&self, part: Range<u64>) -> io::Result<Bytes> {
        self.unchanged()?;
        let length = usize::try_from(part.end - part.start).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, part.start)?;
        Ok(bytes.into())
    }

    /// Has the kernel read these bytes.
    pub(crate) fn touch(&self, part: Range<u64>) -> io::Result<()> {
        let mut piece = [0; 64 * 1024];
        let mut at = part.start;
        while at < part.end {
            match self.file.read_at(&mut piece, at)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => at += read as u64,
            }
        }
        Ok(())
    }

    /// What the stage reads of these bytes, and whether they are wanted.
    pub(crate) fn ask(
        self: &Arc<Self>,
        part: Range<u64>,
        wanted: ReadInto,
    ) -> impl Future<Output = io::Result<Bytes>> + Send + use<> {
        let (chunk, asked) = (self.chunk.clone(), Chunk { file: Arc::clone(self), part, wanted });
        async move { chunk.call(asked).await.map_err(io::Error::other).flatten() }
    }
}

impl AsFd for PageFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl SentFile for PageFile {
    fn is_in_memory(&self, part: Range<u64>) -> bool {
        let last = part.end.saturating_sub(1);
        self.has_in_memory(last) && part.step_by(PROBED_BYTES).all(|at| self.has_in_memory(at))
    }

    fn load(self: Arc<Self>, part: Range<u64>) -> FileLoad {
        let brought = self.ask(part, ReadInto::Memory);
        Box::pin(async move { brought.await.map(drop) })
    }

    /// What is added at its end, as to a log, takes nothing from what the head speaks of.
    fn unchanged(&self) -> io::Result<()> {
        let now = Written::of(&fstat(&self.file)?);
        match now == self.written || now.length > self.written.length {
            true => Ok(()),
            false => Err(io::Error::other("the file changed while it was sent")),
        }
    }
}

/// Whether the kernel would tell what it has of this file in memory: not all file systems know.
pub(crate) fn is_told_of(file: &File) -> bool {
    matches!(read_at_once(file, &mut [0], 0), Ok(_) | Err(Errno::AGAIN))
}

/// Reads some bytes from `at` on, if the kernel has them in memory.
pub(crate) fn read_at_once(file: &File, bytes: &mut [u8], at: u64) -> rustix::io::Result<usize> {
    preadv2(file, &mut [IoSliceMut::new(bytes)], at, ReadWriteFlags::NOWAIT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::files::Files;

    #[tokio::test]
    async fn what_is_added_to_a_file_changes_nothing_and_all_else_does() {
        let files = Files::for_tests();
        let path = std::env::temp_dir().join(format!("tamarisk-page-{}", std::process::id()));
        let open = || Arc::new(files.open(&path));
        let ends = async |page: Arc<PageFile>| {
            let asked = page.ask(0..4, ReadInto::Answer).await;
            assert_eq!(asked.is_err(), page.unchanged().is_err());
            asked.ok()
        };
        std::fs::write(&path, "page").unwrap();
        let page = open();
        assert_eq!(ends(Arc::clone(&page)).await.unwrap(), "page");
        std::fs::write(&path, "pages").unwrap();
        assert_eq!(ends(Arc::clone(&page)).await.unwrap(), "page");
        assert!(!page.is_current());
        std::fs::write(&path, "pag").unwrap();
        assert!(ends(page).await.is_none());
        let page = open();
        std::fs::remove_file(&path).unwrap();
        assert!(page.unchanged().is_ok() && !page.is_current());
        assert!(page.touch(0..3).is_ok() && page.touch(0..4).is_err());
    }
}
