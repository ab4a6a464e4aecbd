//! All messages of some files, one after the other.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use super::files::{MailFile, files_at};
use super::mbox::{Mbox, is_mbox};
use crate::store::MESSAGE_BYTES_MAX;

/// What is read of a file at once.
const BUFFER_BYTES: usize = 256 << 10;

/// Reads messages from files; holds one message at a time.
pub struct Import {
    files: VecDeque<MailFile>,
    skipped: VecDeque<(PathBuf, String)>,
    mbox: Option<OpenMbox>,
    /// The size of the files that are done.
    done_bytes: u64,
    total_bytes: u64,
}

/// What comes next in the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportEvent {
    /// A message.
    Message(ImportedMessage),
    /// Something that is no message, or is too long to be one.
    Skipped {
        /// Where it stands.
        place: String,
        /// Why it is skipped.
        reason: String,
    },
}

/// A message of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedMessage {
    /// As it came, byte by byte.
    pub raw: Vec<u8>,
    /// When it came, in seconds since 1970: by the mbox, or by when the file was changed last.
    pub received_seconds: i64,
    /// Whether its user has read it.
    pub is_read: bool,
    /// Where it stands.
    pub place: String,
}

struct OpenMbox {
    file: MailFile,
    modified_seconds: i64,
    messages: Mbox<BufReader<File>>,
}

impl Import {
    /// All messages at `paths`: mboxes, single messages, Maildirs, and folders of these.
    ///
    /// # Errors
    /// If one of `paths` cannot be read; the path is told with it.
    pub fn open(paths: &[PathBuf]) -> Result<Self, (PathBuf, io::Error)> {
        let mut skipped = VecDeque::new();
        let mut skip = |path, reason| skipped.push_back((path, reason));
        let mut files = VecDeque::new();
        for path in paths {
            files.extend(files_at(path, &mut skip).map_err(|error| (path.clone(), error))?);
        }
        let total_bytes = files.iter().map(|file| file.size_bytes).sum();
        Ok(Self { files, skipped, mbox: None, done_bytes: 0, total_bytes })
    }

    /// The size of all files.
    pub fn total_bytes(&self) -> u64 {
        self.total_bytes
    }

    /// How much of them has been read.
    pub fn read_bytes(&self) -> u64 {
        self.done_bytes + self.mbox.as_ref().map_or(0, |mbox| mbox.messages.position)
    }

    fn next_of_mbox(&mut self) -> Option<ImportEvent> {
        let mbox = self.mbox.as_mut()?;
        let path = mbox.file.path.display();
        let event = match mbox.messages.next_message() {
            Ok(Some(message)) => {
                let place = format!("{path}, at byte {}", message.position);
                match message.content {
                    Ok(raw) => ImportEvent::Message(ImportedMessage {
                        raw,
                        received_seconds: message.received_seconds.unwrap_or(mbox.modified_seconds),
                        is_read: false,
                        place,
                    }),
                    Err(size) => ImportEvent::Skipped { place, reason: too_large(size) },
                }
            }
            Ok(None) => {
                self.close_mbox();
                return None;
            }
            Err(error) => {
                let place = format!("{path}, behind byte {}", mbox.messages.position);
                self.close_mbox();
                ImportEvent::Skipped { place, reason: error.to_string() }
            }
        };
        Some(event)
    }

    fn close_mbox(&mut self) {
        if let Some(mbox) = self.mbox.take() {
            self.done_bytes += mbox.file.size_bytes;
        }
    }

    /// Opens `file`: an mbox is read message by message from now on, anything else is one.
    fn open_file(&mut self, file: MailFile) -> Option<ImportEvent> {
        let place = file.path.display().to_string();
        let size_bytes = file.size_bytes;
        match read(&file) {
            Ok(Content::Mbox(messages, modified_seconds)) => {
                self.mbox = Some(OpenMbox { file, modified_seconds, messages });
                None
            }
            Ok(Content::Message(raw, received_seconds)) => {
                self.done_bytes += size_bytes;
                let is_read = file.is_read;
                Some(ImportEvent::Message(ImportedMessage {
                    raw,
                    received_seconds,
                    is_read,
                    place,
                }))
            }
            Ok(Content::TooLarge) => {
                self.done_bytes += size_bytes;
                Some(ImportEvent::Skipped { place, reason: too_large(size_bytes) })
            }
            Err(error) => {
                self.done_bytes += size_bytes;
                Some(ImportEvent::Skipped { place, reason: error.to_string() })
            }
        }
    }
}

impl Iterator for Import {
    type Item = ImportEvent;

    fn next(&mut self) -> Option<ImportEvent> {
        if let Some((path, reason)) = self.skipped.pop_front() {
            return Some(ImportEvent::Skipped { place: path.display().to_string(), reason });
        }
        loop {
            if let Some(event) = self.next_of_mbox() {
                return Some(event);
            }
            let file = self.files.pop_front()?;
            if let Some(event) = self.open_file(file) {
                return Some(event);
            }
        }
    }
}

fn too_large(size_bytes: u64) -> String {
    format!("{size_bytes} bytes; a message has at most {MESSAGE_BYTES_MAX}")
}

enum Content {
    Mbox(Mbox<BufReader<File>>, i64),
    Message(Vec<u8>, i64),
    TooLarge,
}

fn read(file: &MailFile) -> io::Result<Content> {
    let opened = open_regular(&file.path)?;
    let modified_seconds = opened.metadata()?.modified().map_or(0, seconds);
    let mut reader = BufReader::with_capacity(BUFFER_BYTES, opened);
    let is_message = file.is_of_maildir || !is_mbox(reader.fill_buf()?);
    if !is_message {
        return Ok(Content::Mbox(Mbox::new(reader, MESSAGE_BYTES_MAX), modified_seconds));
    }
    let mut raw = Vec::new();
    reader.take(MESSAGE_BYTES_MAX as u64 + 1).read_to_end(&mut raw)?;
    if raw.len() > MESSAGE_BYTES_MAX {
        return Ok(Content::TooLarge);
    }
    Ok(Content::Message(raw, modified_seconds))
}

fn open_regular(path: &Path) -> io::Result<File> {
    let file = File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("no file any more"));
    }
    Ok(file)
}

fn seconds(time: SystemTime) -> i64 {
    match time.duration_since(UNIX_EPOCH) {
        Ok(since) => i64::try_from(since.as_secs()).unwrap_or(i64::MAX),
        Err(before) => i64::try_from(before.duration().as_secs()).map_or(0, |seconds| -seconds),
    }
}
