//! The files beneath a path, and whether they are read messages of a Maildir.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// How deep folders may lie in each other.
const DEPTH_MAX: usize = 32;

/// A file that may hold messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MailFile {
    pub(super) path: PathBuf,
    pub(super) size_bytes: u64,
    /// Whether it is a message alone, whatever it looks like.
    pub(super) is_of_maildir: bool,
    /// Whether a Maildir says that its user has read it.
    pub(super) is_read: bool,
}

/// The files at `path` and beneath it, in the order of their names. What cannot be read or is
/// neither a file nor a folder goes to `skip`.
///
/// # Errors
/// If `path` itself cannot be read.
pub(super) fn files_at(
    path: &Path,
    skip: &mut dyn FnMut(PathBuf, String),
) -> io::Result<Vec<MailFile>> {
    let mut files = Vec::new();
    let found = fs::metadata(path)?;
    if found.is_dir() {
        add_folder(path, 0, &mut files, skip)?;
    } else if found.is_file() {
        files.push(MailFile::new(path.to_owned(), found.len(), false));
    } else {
        return Err(io::Error::other("neither a file nor a folder"));
    }
    Ok(files)
}

fn add_folder(
    folder: &Path,
    depth: usize,
    files: &mut Vec<MailFile>,
    skip: &mut dyn FnMut(PathBuf, String),
) -> io::Result<()> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder)? {
        paths.push(entry?.path());
    }
    paths.sort();
    let is_maildir = ["cur", "new"].iter().all(|name| folder.join(name).is_dir());
    let is_in_maildir = folder.parent().is_some_and(|parent| {
        matches!(folder.file_name().and_then(|name| name.to_str()), Some("cur" | "new"))
            && ["cur", "new"].iter().all(|name| parent.join(name).is_dir())
    });
    for path in paths {
        // Symbolic links could lead in circles.
        let found = match fs::symlink_metadata(&path) {
            Ok(found) => found,
            Err(error) => {
                skip(path, error.to_string());
                continue;
            }
        };
        if found.is_file() {
            // Servers keep their own files beside the messages.
            if !is_maildir {
                files.push(MailFile::new(path, found.len(), is_in_maildir));
            }
        } else if !found.is_dir() {
            skip(path, "neither a file nor a folder".into());
        } else if is_maildir && path.ends_with("tmp") {
            // Messages that are being written.
        } else if depth == DEPTH_MAX {
            skip(path, format!("more than {DEPTH_MAX} folders deep"));
        } else if let Err(error) = add_folder(&path, depth + 1, files, skip) {
            skip(path, error.to_string());
        }
    }
    Ok(())
}

impl MailFile {
    fn new(path: PathBuf, size_bytes: u64, is_of_maildir: bool) -> Self {
        // As in `1056969157.M1P2.host:2,RS`: flags behind the last comma, `S` for seen.
        let name = path.file_name().map(|name| name.to_string_lossy());
        let flags = name.as_ref().and_then(|name| Some(name.rsplit_once(":2,")?.1));
        let is_read = is_of_maildir && flags.is_some_and(|flags| flags.contains('S'));
        Self { is_read, path, size_bytes, is_of_maildir }
    }
}
