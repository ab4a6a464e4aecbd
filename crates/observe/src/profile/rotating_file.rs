//! A file of lines that is bounded: full, it is kept as the one before, and another begins.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Twice the bound is the most that it takes on the disk.
pub(super) struct RotatingFile {
    path: PathBuf,
    bytes_max: u64,
    file: File,
    written: u64,
}

impl RotatingFile {
    /// Goes on with what is there.
    pub(super) fn open(path: &Path, bytes_max: u64) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        let written = file.metadata()?.len();
        Ok(Self { path: path.to_owned(), bytes_max, file, written })
    }

    /// Appends a line in one write.
    pub(super) fn write(&mut self, line: &str) -> io::Result<()> {
        if self.written > 0 && self.written + line.len() as u64 > self.bytes_max {
            fs::rename(&self.path, previous(&self.path))?;
            *self = Self::open(&self.path, self.bytes_max)?;
        }
        self.file.write_all(line.as_bytes())?;
        self.written += line.len() as u64;
        Ok(())
    }
}

fn previous(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_file_is_kept_once_and_another_begins() {
        let folder = std::env::temp_dir().join(format!("tamarisk-rotating-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("profile.jsonl");
        let read = |path: &Path| fs::read_to_string(path).unwrap();
        let mut file = RotatingFile::open(&path, 10).unwrap();
        for line in ["one\n", "two\n", "three\n"] {
            file.write(line).unwrap();
        }
        assert_eq!((read(&path), read(&previous(&path))), ("three\n".into(), "one\ntwo\n".into()));
        let mut file = RotatingFile::open(&path, 10).unwrap();
        file.write("four\n").unwrap();
        file.write("a line longer than the bound\n").unwrap();
        assert_eq!(read(&previous(&path)), "four\n", "what was there counts: {}", read(&path));
        assert_eq!(read(&path), "a line longer than the bound\n");
        fs::remove_dir_all(folder).unwrap();
    }
}
