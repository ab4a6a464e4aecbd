//! A request body in a temporary file, which has no name and goes when it is closed.
//!
//! All here waits for the disk: it is for the runtime's threads for blocking work.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use bytes::{Bytes, BytesMut};

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

    /// Writes `bytes` behind what there is.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
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
