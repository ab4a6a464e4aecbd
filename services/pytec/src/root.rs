//! The files of a site: in a folder, below which alone they are opened, with no symbolic link
//! followed; or in the program.

use std::collections::BTreeMap;
use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

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

/// The folder that a site is in.
#[derive(Debug)]
pub(crate) struct OpenFolder(File);

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
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = File::from(open(path, flags, Mode::empty())?);
        Ok(Self::Folder(OpenFolder(folder)))
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
    pub(crate) fn fingerprint(&self, path: &SitePath) -> Option<Fingerprint> {
        match self {
            Self::Folder(folder) => {
                folder.file(path).ok().map(|(_, metadata)| Fingerprint::of(&metadata))
            }
            Self::Embedded(files) => files.contains_key(path).then_some(Fingerprint::EMBEDDED),
        }
    }

    /// All files, those that have a hidden segment left out.
    pub(crate) fn files(&self) -> io::Result<Vec<SitePath>> {
        match self {
            Self::Folder(folder) => folder.files(""),
            Self::Embedded(files) => Ok(files.keys().cloned().collect()),
        }
    }

    /// The files below a folder of the site's folder; none of a site in the program, which gives
    /// modules otherwise.
    pub(crate) fn files_below(&self, folder: &str) -> io::Result<Vec<SitePath>> {
        match self {
            Self::Folder(root) => root.files(folder),
            Self::Embedded(_) => Ok(Vec::new()),
        }
    }
}

impl OpenFolder {
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
        match openat2(&self.0, path, flags, Mode::empty(), beneath) {
            Ok(file) => Ok(file.into()),
            // Among these LOOP and XDEV: a symbolic link, a way out.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::XDEV) => {
                Err(ReadError::NotFound)
            }
            Err(errno) => Err(io::Error::from(errno).into()),
        }
    }

    /// The files below a folder of this one (`""` for all), those that have a hidden segment left
    /// out.
    fn files(&self, folder: &str) -> io::Result<Vec<SitePath>> {
        let (mut files, mut folders, mut names) = (Vec::new(), vec![folder.to_owned()], 0);
        while let Some(folder) = folders.pop() {
            let place = if folder.is_empty() { "." } else { &folder };
            // It may be gone.
            let Ok(opened) = self.open_below(place, OFlags::DIRECTORY) else { continue };
            for entry in Dir::read_from(&opened)? {
                let entry = entry?;
                names += 1;
                if names > NAMES_MAX {
                    let message = format!("more than {NAMES_MAX} files in the folder of the site");
                    return Err(io::Error::other(message));
                }
                let Ok(name) = entry.file_name().to_str() else { continue };
                let path =
                    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") };
                let Some(site_path) = SitePath::new(&path) else { continue };
                match entry.file_type() {
                    FileType::Directory if path.matches('/').count() < DEPTH_MAX => {
                        folders.push(path)
                    }
                    FileType::RegularFile | FileType::Unknown => files.push(site_path),
                    _ => {}
                }
            }
        }
        files.sort();
        Ok(files)
    }
}

impl Fingerprint {
    /// Of what does not change.
    const EMBEDDED: Self = Self([0; 4], 0, 0);

    fn of(file: &Metadata) -> Self {
        let times = [file.mtime(), file.mtime_nsec(), file.ctime(), file.ctime_nsec()];
        Self(times, file.ino(), file.size())
    }
}
