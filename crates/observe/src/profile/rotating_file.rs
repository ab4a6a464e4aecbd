//! A file of lines that is bounded: full, it is kept as the one before, and another begins.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Twice the bound is the most that it takes on the disk.
pub(super) struct RotatingFile {
    path: PathBuf,
    bytes_max: u64,
    file: File,
    written: u64,
    /// The last line has no end: the disk was full, or the process was killed.
    is_cut: bool,
}

impl RotatingFile {
    /// Goes on with what is there.
    pub(super) fn open(path: &Path, bytes_max: u64) -> io::Result<Self> {
        let file = OpenOptions::new().append(true).create(true).open(path)?;
        let written = file.metadata()?.len();
        let is_cut = written > 0 && last_byte(path).is_ok_and(|byte| byte != b'\n');
        Ok(Self { path: path.to_owned(), bytes_max, file, written, is_cut })
    }

    /// Appends a line in one write.
    ///
    /// # Errors
    /// Those of the system. Then the file is to be opened again, for there may be a part of the
    /// line in it.
    pub(super) fn write(&mut self, line: &str) -> io::Result<()> {
        if self.written > 0 && self.written + line.len() as u64 > self.bytes_max {
            fs::rename(&self.path, previous(&self.path))?;
            *self = Self::open(&self.path, self.bytes_max)?;
        }
        if self.is_cut {
            self.file.write_all(b"\n")?;
            self.written += 1;
            self.is_cut = false;
        }
        self.file.write_all(line.as_bytes())?;
        self.written += line.len() as u64;
        Ok(())
    }
}

fn last_byte(path: &Path) -> io::Result<u8> {
    let mut file = File::open(path)?;
    file.seek(SeekFrom::End(-1))?;
    let mut byte = [0];
    file.read_exact(&mut byte)?;
    Ok(byte[0])
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

    #[test]
    fn a_line_that_was_cut_off_is_ended_before_the_next() {
        let folder = std::env::temp_dir().join(format!("tamarisk-cut-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("profile.jsonl");
        fs::write(&path, "one\ntw").unwrap();
        for line in ["three\n", "four\n"] {
            let mut file = RotatingFile::open(&path, 100).unwrap();
            file.write(line).unwrap();
            file.write("five\n").unwrap();
        }
        let written = fs::read_to_string(&path).unwrap();
        assert_eq!(written, "one\ntw\nthree\nfive\nfour\nfive\n");
        fs::remove_dir_all(folder).unwrap();
    }
}
