//! Output files, written whole or not at all.

use std::convert::Infallible;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::Context;
#[cfg(not(feature = "png"))]
use tamarisk_plot::{Format, PngError};

/// A file, or the standard output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Destination {
    Stdout,
    File(PathBuf),
}

/// A result that is not there yet. What has been opened can be written; until it is,
/// there is a file beside it, which goes away if the result never comes.
pub(crate) struct Output(Place);

enum Place {
    Stdout,
    /// What is no regular file is written as it is: `/dev/null`, a pipe.
    Special(File),
    File {
        path: PathBuf,
        partial: PathBuf,
        file: File,
    },
}

impl FromStr for Destination {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(if text == "-" { Self::Stdout } else { Self::File(text.into()) })
    }
}

/// The file of a figure, whose name says which format it has.
pub(crate) fn figure_file(path: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(path);
    let is_known = |ending: &std::ffi::OsStr| {
        ending.eq_ignore_ascii_case("svg") || ending.eq_ignore_ascii_case("png")
    };
    match path.extension() {
        #[cfg(not(feature = "png"))]
        Some(_) if Format::of(&path) == Format::Png => Err(PngError::LeftOut.to_string()),
        Some(ending) if is_known(ending) => Ok(path),
        _ if cfg!(feature = "png") => {
            Err("unknown image format: the name must end in `.svg` or `.png`".into())
        }
        _ => Err("unknown image format: the name must end in `.svg`".into()),
    }
}

impl Output {
    pub(crate) fn open(destination: &Destination) -> anyhow::Result<Self> {
        let Destination::File(path) = destination else { return Ok(Self(Place::Stdout)) };
        let cannot = || format!("cannot write {}", path.display());
        if fs::metadata(path).is_ok_and(|found| !found.is_file()) {
            let file = File::options().write(true).open(path).with_context(cannot)?;
            return Ok(Self(Place::Special(file)));
        }
        let mut partial = path.clone().into_os_string();
        partial.push(".partial");
        let partial = PathBuf::from(partial);
        let file = create(&partial).with_context(cannot)?;
        Ok(Self(Place::File { path: path.clone(), partial, file }))
    }

    pub(crate) fn is_stdout(&self) -> bool {
        matches!(self.0, Place::Stdout)
    }

    pub(crate) fn write(mut self, bytes: &[u8]) -> anyhow::Result<()> {
        match &mut self.0 {
            Place::Stdout => io::stdout().write_all(bytes)?,
            Place::Special(file) => file.write_all(bytes)?,
            Place::File { path, partial, file } => {
                let written = file.write_all(bytes).and_then(|()| fs::rename(partial, &*path));
                written.with_context(|| format!("cannot write {}", Path::display(path)))?;
            }
        }
        Ok(())
    }
}

/// A new file, in a new folder if that is not there yet.
fn create(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    File::create(path)
}

impl Drop for Output {
    fn drop(&mut self) {
        if let Place::File { partial, .. } = &self.0 {
            // It is gone already if the result came.
            let _ = fs::remove_file(partial);
        }
    }
}
