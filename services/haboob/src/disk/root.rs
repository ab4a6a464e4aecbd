//! Opens files beneath the root folder only, wherever symbolic links point.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;

use crate::disk::path::SitePath;

/// A link that is exchanged while it is followed makes the kernel ask to try again.
const RACES_MAX: usize = 8;

/// The folder that a site is in.
#[derive(Debug)]
pub(crate) struct Root(File);

/// Why a file cannot be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FileError {
    /// There is none, or none that may be seen from the site.
    #[error("there is no such file")]
    NotFound,
    /// It may not be read.
    #[error("the file may not be read")]
    Forbidden,
    /// The system has no descriptor left, or as many pages are open as may be.
    #[error("too many files are open")]
    Busy,
    /// The disk or the file system failed.
    #[error("the file cannot be read")]
    Broken,
}

impl Root {
    /// The folder at `path`.
    ///
    /// # Errors
    /// It is none, or may not be entered.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(File::from(open(path, flags, Mode::empty())?)))
    }

    /// Whether both are one folder on the disk, which the one that is held cannot lose to another.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let identity = |root: &Self| root.0.metadata().map(|folder| (folder.dev(), folder.ino()));
        matches!((identity(self), identity(other)), (Ok(one), Ok(two)) if one == two)
    }

    /// Opens a file or folder beneath. The kernel itself holds every step of the way,
    /// links included, to what is beneath the root, so no race can lead out of it.
    pub(crate) fn get(&self, path: &SitePath) -> Result<(File, Metadata), FileError> {
        let mut tries = 0;
        loop {
            match self.get_with(path, ResolveFlags::empty()) {
                Err(Errno::AGAIN) if tries < RACES_MAX => tries += 1,
                got => return got.map_err(FileError::of),
            }
        }
    }

    /// The same without waiting for a disk; `None` if the kernel would have to.
    pub(crate) fn get_cached(
        &self,
        path: &SitePath,
    ) -> Option<Result<(File, Metadata), FileError>> {
        match self.get_with(path, ResolveFlags::CACHED) {
            // Older kernels do not know of it.
            Err(Errno::AGAIN | Errno::INVAL) => None,
            got => Some(got.map_err(FileError::of)),
        }
    }

    fn get_with(&self, path: &SitePath, how: ResolveFlags) -> Result<(File, Metadata), Errno> {
        // Without NONBLOCK a named pipe would hold the worker indefinitely.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let path = path.as_path();
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let file = File::from(openat2(&self.0, path, flags, Mode::empty(), beneath | how)?);
        let metadata = file.metadata().map_err(|_| Errno::IO)?;
        let kind = metadata.file_type();
        if kind.is_file() || kind.is_dir() { Ok((file, metadata)) } else { Err(Errno::NOENT) }
    }
}

impl FileError {
    pub(crate) fn of(errno: Errno) -> Self {
        match errno {
            Errno::ACCESS | Errno::PERM => Self::Forbidden,
            Errno::MFILE | Errno::NFILE | Errno::NOMEM => Self::Busy,
            Errno::IO => Self::Broken,
            // Among these XDEV and LOOP: a link that leads out of the root.
            _ => Self::NotFound,
        }
    }
}
