//! The files of the modules that pages import, looked at as Python does: along symbolic links.

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::root::Fingerprint;

/// Names that are looked at in one folder of modules; it is done every second.
const NAMES_MAX: usize = 20_000;

/// What tells whether a module has changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ModuleFiles {
    files: BTreeMap<PathBuf, Fingerprint>,
    /// Folders that have too many names.
    too_large: Vec<PathBuf>,
}

impl ModuleFiles {
    /// Looks at what is in these folders, which need not be there. What cannot be looked at stays as
    /// it is `known`.
    pub(super) fn look(folders: &[PathBuf], known: &Self) -> Self {
        let mut found = Self::default();
        for folder in folders {
            if let Some(files) = files_in(folder, &known.files) {
                found.files.extend(files);
                continue;
            }
            if !known.too_large.contains(folder) {
                tracing::warn!(
                    "{} has more than {NAMES_MAX} files: changes of its modules are not noticed.",
                    folder.display()
                );
            }
            found.too_large.push(folder.clone());
        }
        found
    }
}

/// The modules in this folder; none if it has too many names.
fn files_in(
    folder: &Path,
    known: &BTreeMap<PathBuf, Fingerprint>,
) -> Option<BTreeMap<PathBuf, Fingerprint>> {
    let (mut files, mut waiting) = (BTreeMap::new(), vec![folder.to_owned()]);
    // A link may lead back to where it was found.
    let mut seen = HashSet::new();
    let mut names = 0;
    while let Some(path) = waiting.pop() {
        let looked = fs::metadata(&path).and_then(|metadata| {
            if metadata.is_dir() {
                if seen.insert((metadata.dev(), metadata.ino())) {
                    add_names(&path, &mut waiting, &mut names)?;
                }
            } else if metadata.is_file() && is_module(&path) {
                files.insert(path.clone(), Fingerprint::of(&metadata));
            }
            Ok(())
        });
        match looked {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => {
                let below = known.range(path.clone()..);
                let kept: Vec<_> = below.take_while(|(file, _)| file.starts_with(&path)).collect();
                if !kept.is_empty() {
                    tracing::error!(
                        "The modules in {} are left as they are: {error}",
                        path.display()
                    );
                }
                files.extend(kept.into_iter().map(|(file, of)| (file.clone(), *of)));
            }
        }
        if names > NAMES_MAX {
            return None;
        }
    }
    Some(files)
}

/// Adds what is to be looked at in this folder: modules, folders, and links, which may lead to either.
/// Counts all names, up to one too many.
fn add_names(folder: &Path, waiting: &mut Vec<PathBuf>, names: &mut usize) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        *names += 1;
        if *names > NAMES_MAX {
            break;
        }
        let path = entry.path();
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !is_hidden && (is_module(&path) || !entry.file_type()?.is_file()) {
            waiting.push(path);
        }
    }
    Ok(())
}

/// Whether a file of this name is one that Python imports. Data beside modules is not: it would
/// replace all processes whenever it is written.
fn is_module(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending == "py" || ending == "so")
}
