//! The files of a site: in a folder, below which alone they are opened, with no symbolic link
//! followed; or in the program.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;

use crate::site_path::SitePath;

/// Names that are looked at in a site; whoever has more does not have them for pages.
const NAMES_MAX: usize = 20_000;
/// How deeply folders are looked into.
const DEPTH_MAX: usize = 16;

/// Where the files of a site are.
#[derive(Debug)]
pub(crate) enum Root {
    Folder(OpenFolder),
    /// In the program: they do not change.
    Embedded(BTreeMap<SitePath, String>),
}

/// The folder that a site is in: whichever has the path that the operator gave.
#[derive(Debug)]
pub(crate) struct OpenFolder {
    given: PathBuf,
    current: RwLock<Arc<Location>>,
}

/// An open folder, and its path without symbolic links.
#[derive(Debug)]
struct Location {
    path: PathBuf,
    folder: File,
}

/// The files of a site, as far as its folders can be listed.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// In order, those that have a hidden segment left out.
    pub(crate) files: Vec<SitePath>,
    /// Folders that are there and cannot be listed, each with the cause.
    unlisted: Vec<(String, io::Error)>,
}

/// Tells whether a file has changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fingerprint([i64; 4], u64, u64);

/// Why a file cannot be had.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReadError {
    #[error("there is no such file")]
    NotFound,
    #[error("larger than {0} bytes")]
    TooLarge(u64),
    #[error("{0}")]
    Unreadable(#[from] io::Error),
}

impl Root {
    /// The folder at `path`.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let current = RwLock::new(Arc::new(Location::at(path)?));
        Ok(Self::Folder(OpenFolder { given: path.to_owned(), current }))
    }

    /// Opens the folder again if its path leads to another one now; whether it does.
    pub(crate) fn reopen(&self) -> io::Result<bool> {
        let Self::Folder(folder) = self else { return Ok(false) };
        let location = Location::at(&folder.given)?;
        if location.is_same(&folder.current())? {
            return Ok(false);
        }
        *folder.current.write() = Arc::new(location);
        Ok(true)
    }

    /// The path of the folder, without symbolic links; `/` where the files are in the program.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Folder(folder) => folder.current().path.clone(),
            Self::Embedded(_) => PathBuf::from("/"),
        }
    }

    /// A file of the folder, open. What is in the program are pages and includes, and no files.
    pub(crate) fn open_file(&self, path: &SitePath) -> Result<(File, Metadata), ReadError> {
        match self {
            Self::Folder(folder) => folder.file(path),
            Self::Embedded(_) => Err(ReadError::NotFound),
        }
    }

    /// A file's bytes, if they are no more than `bytes_max`.
    pub(crate) fn read(
        &self,
        path: &SitePath,
        bytes_max: u64,
    ) -> Result<(Vec<u8>, Fingerprint), ReadError> {
        match self {
            Self::Folder(folder) => folder.read(path, bytes_max),
            Self::Embedded(files) => {
                let text = files.get(path).ok_or(ReadError::NotFound)?;
                if text.len() as u64 > bytes_max {
                    return Err(ReadError::TooLarge(bytes_max));
                }
                Ok((text.clone().into_bytes(), Fingerprint::EMBEDDED))
            }
        }
    }

    /// What tells whether the file has changed; none if there is none.
    ///
    /// # Errors
    /// That it cannot be told: the file may be there.
    pub(crate) fn fingerprint(&self, path: &SitePath) -> Result<Option<Fingerprint>, ReadError> {
        match self {
            Self::Folder(folder) => match folder.file(path) {
                Ok((_, metadata)) => Ok(Some(Fingerprint::of(&metadata))),
                Err(ReadError::NotFound) => Ok(None),
                Err(error) => Err(error),
            },
            Self::Embedded(files) => Ok(files.contains_key(path).then_some(Fingerprint::EMBEDDED)),
        }
    }

    /// All files.
    pub(crate) fn files(&self) -> io::Result<Listing> {
        match self {
            Self::Folder(folder) => folder.files(),
            Self::Embedded(files) => {
                Ok(Listing { files: files.keys().cloned().collect(), ..Listing::default() })
            }
        }
    }
}

impl Location {
    fn at(given: &Path) -> io::Result<Self> {
        let path = given.canonicalize()?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = File::from(open(path.as_path(), flags, Mode::empty())?);
        Ok(Self { path, folder })
    }

    /// Whether both are one folder on the disk, under one path.
    fn is_same(&self, other: &Self) -> io::Result<bool> {
        let (one, two) = (self.folder.metadata()?, other.folder.metadata()?);
        Ok(self.path == other.path && (one.dev(), one.ino()) == (two.dev(), two.ino()))
    }
}

impl Listing {
    /// Whether the file is there. If that is not known, the folder that it may be in, and why.
    pub(crate) fn has(&self, file: &SitePath) -> Result<bool, &(String, io::Error)> {
        let unlisted =
            self.unlisted.iter().find(|(folder, _)| Path::new(file.as_str()).starts_with(folder));
        unlisted.map_or_else(|| Ok(self.files.binary_search(file).is_ok()), Err)
    }
}

impl OpenFolder {
    fn current(&self) -> Arc<Location> {
        Arc::clone(&self.current.read())
    }

    fn read(&self, path: &SitePath, bytes_max: u64) -> Result<(Vec<u8>, Fingerprint), ReadError> {
        let (file, metadata) = self.file(path)?;
        let mut bytes = Vec::new();
        // The file may grow meanwhile.
        file.take(bytes_max + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > bytes_max {
            return Err(ReadError::TooLarge(bytes_max));
        }
        Ok((bytes, Fingerprint::of(&metadata)))
    }

    fn file(&self, path: &SitePath) -> Result<(File, Metadata), ReadError> {
        let file = self.open_below(path.as_str(), OFlags::empty())?;
        let metadata = file.metadata()?;
        if metadata.is_file() { Ok((file, metadata)) } else { Err(ReadError::NotFound) }
    }

    fn open_below(&self, path: &str, flags: OFlags) -> Result<File, ReadError> {
        // Without NONBLOCK a named pipe would hold the thread indefinitely.
        let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let beneath =
            ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let opened = openat2(&self.current().folder, path, flags, Mode::empty(), beneath);
        opened.map(File::from).map_err(ReadError::of)
    }

    fn files(&self) -> io::Result<Listing> {
        let (mut listing, mut folders, mut names) = (Listing::default(), vec![String::new()], 0);
        while let Some(folder) = folders.pop() {
            let entries = match self.entries(&folder) {
                Ok(entries) => entries,
                // It has gone meanwhile.
                Err(ReadError::NotFound) if !folder.is_empty() => continue,
                Err(ReadError::Unreadable(error)) if !folder.is_empty() => {
                    listing.unlisted.push((folder, error));
                    continue;
                }
                Err(error) => return Err(io::Error::other(error)),
            };
            names += entries.len();
            if names > NAMES_MAX {
                let message = format!("more than {NAMES_MAX} files in the folder of the site");
                return Err(io::Error::other(message));
            }
            for (path, kind) in entries {
                match kind {
                    FileType::Directory if path.as_str().matches('/').count() < DEPTH_MAX => {
                        folders.push(path.to_string());
                    }
                    FileType::RegularFile | FileType::Unknown => listing.files.push(path),
                    _ => {}
                }
            }
        }
        listing.files.sort();
        Ok(listing)
    }

    /// What is in a folder of this one (`""` for itself), hidden names left out; no more of it than
    /// is too much.
    fn entries(&self, folder: &str) -> Result<Vec<(SitePath, FileType)>, ReadError> {
        let place = if folder.is_empty() { "." } else { folder };
        let opened = self.open_below(place, OFlags::DIRECTORY)?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(&opened).map_err(ReadError::of)? {
            let entry = entry.map_err(ReadError::of)?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            let path = if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
            entries.extend(SitePath::new(&path).map(|path| (path, entry.file_type())));
            if entries.len() > NAMES_MAX {
                break;
            }
        }
        Ok(entries)
    }
}

impl ReadError {
    /// Only a file that is not there, or that nobody is to reach, is not found. Anything else says
    /// nothing about the file: there may be no descriptors left.
    fn of(errno: Errno) -> Self {
        match errno {
            // Among these LOOP and XDEV: a symbolic link, a way out. NXIO: a socket.
            Errno::NOENT
            | Errno::NOTDIR
            | Errno::NAMETOOLONG
            | Errno::LOOP
            | Errno::XDEV
            | Errno::NXIO => Self::NotFound,
            errno => Self::Unreadable(errno.into()),
        }
    }
}

impl Fingerprint {
    /// Of what does not change.
    const EMBEDDED: Self = Self([0; 4], 0, 0);

    pub(crate) fn of(file: &Metadata) -> Self {
        let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
        Self(times, file.ino(), file.size())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_of_the_system_does_not_say_that_a_file_is_gone() {
        for (errno, is_gone) in [
            (Errno::NOENT, true),
            (Errno::NOTDIR, true),
            (Errno::NAMETOOLONG, true),
            (Errno::LOOP, true),
            (Errno::XDEV, true),
            (Errno::NXIO, true),
            (Errno::MFILE, false),
            (Errno::NFILE, false),
            (Errno::ACCESS, false),
            (Errno::IO, false),
            (Errno::NOMEM, false),
            (Errno::AGAIN, false),
        ] {
            let error = ReadError::of(errno);
            assert_eq!(matches!(error, ReadError::NotFound), is_gone, "{errno}");
        }
    }

    #[test]
    fn of_a_folder_that_cannot_be_listed_it_is_not_known_what_is_in_it() {
        let file = |path: &str| SitePath::new(path).unwrap();
        let listing = Listing {
            files: vec![file("a.pytec"), file("sub2/a.pytec")],
            unlisted: vec![("sub".to_owned(), io::Error::from(Errno::MFILE))],
        };
        for (path, expected) in [
            ("a.pytec", Some(true)),
            ("b.pytec", Some(false)),
            ("sub/a.pytec", None),
            ("sub2/a.pytec", Some(true)),
            ("sub2/b.pytec", Some(false)),
        ] {
            assert_eq!(listing.has(&file(path)).ok(), expected, "{path}");
        }
    }
}
