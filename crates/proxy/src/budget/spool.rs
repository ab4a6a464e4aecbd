//! A request body in a temporary file, which has no name and goes when it is closed.
//!
//! All here waits for the disk: it is for the runtime's threads for blocking work.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use bytes::{Bytes, BytesMut};
use rustix::fs::fstatvfs;

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

/// The bytes that are free where `file` is.
fn free(file: &File) -> io::Result<u64> {
    let disk = fstatvfs(file)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Whether others have as much of the disk left as bodies take: this many bytes.
fn leaves_room(bodies: u64, free: u64) -> bool {
    bodies <= free
}

/// A file that a body is written to, and read from.
#[derive(Debug)]
pub(crate) struct Spool {
    file: File,
    length: u64,
}

impl Spool {
    pub(crate) fn create() -> io::Result<Self> {
        Ok(Self { file: tempfile::tempfile_in(folder())?, length: 0 })
    }

    /// Appends `bytes`, given the bytes that all bodies have in files.
    ///
    /// # Errors
    /// `StorageFull` if bodies would take more than half of what is free without them.
    pub(crate) fn write(&mut self, bytes: &[u8], of_all: u64) -> io::Result<()> {
        if !leaves_room(of_all, free(&self.file)?) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.file.write_all_at(bytes, self.length)?;
        self.length += bytes.len() as u64;
        Ok(())
    }

    pub(crate) fn length(&self) -> u64 {
        self.length
    }

    /// The next part of what was written, from `at` on; empty at the end.
    pub(crate) fn read(&self, at: u64) -> io::Result<Bytes> {
        let count = READ_MAX.min(self.length.saturating_sub(at)) as usize;
        let mut bytes = BytesMut::zeroed(count);
        self.file.read_exact_at(&mut bytes, at)?;
        Ok(bytes.freeze())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_take_no_more_than_half_of_what_is_free_without_them() {
        assert!(leaves_room(0, 0) && leaves_room(50, 50));
        assert!(!leaves_room(51, 50));
        let mut spool = Spool::create().unwrap();
        spool.write(b"a", 1).unwrap();
        let error = spool.write(b"b", u64::MAX).unwrap_err();
        assert_eq!((error.kind(), spool.length()), (io::ErrorKind::StorageFull, 1));
    }
}
