//! Writes a trace file.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::JoinHandle;

use parking_lot::Mutex;
use tamarisk_control::{AdmissionLaw, Classes};

use crate::encode::{put_end, put_head};
use crate::pen::{BUFFER, BUFFERS, Pen};
use crate::record::{Close, End, Head};
use crate::traced::Traced;
use crate::wire::{BLOCK_HEAD, MAGIC, VERSION};

/// Records one law into one file, on a thread of its own. Its clones stand for the same
/// recording.
#[derive(Clone, Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    stopped: Arc<AtomicBool>,
    full: Arc<AtomicBool>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Until there is a law.
    waiting: Option<Waiting>,
    /// Until the file is where it was asked for.
    unplaced: Option<Unplaced>,
    pen: Option<Arc<Mutex<Pen>>>,
    writer: Option<JoinHandle<io::Result<Written>>>,
}

#[derive(Debug)]
struct Waiting {
    file: File,
    bytes_max: u64,
}

/// A file that is written under another name, so that the one before it stays as it is until there
/// is something better, and whoever still writes to that has it for itself.
#[derive(Debug)]
struct Unplaced {
    partial: PathBuf,
    path: PathBuf,
}

impl Drop for Unplaced {
    fn drop(&mut self) {
        // There is none under this name if it has taken its place.
        let _ = fs::remove_file(&self.partial);
    }
}

/// Why a trace is not what was wanted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The file could not be made or written.
    #[error("cannot write the trace")]
    Write(#[from] io::Error),
    /// No law was ever given to the recorder, or it was finished before.
    #[error("the recording has already ended")]
    Nothing,
}

impl Recorder {
    /// The bound of a file that is given none: a gibibyte, some seventy million records.
    pub const BYTES_MAX: u64 = 1 << 30;

    /// Less than this holds nothing of interest.
    pub const BYTES_LEAST: u64 = 1 << 20;

    /// A recorder that writes up to `bytes_max` bytes ([`Recorder::BYTES_LEAST`] at least). The
    /// file is at `path`, in place of one that is there, after [`take_place`](Self::take_place) or
    /// [`finish`](Self::finish).
    ///
    /// # Errors
    /// [`RecordError::Write`] if the file cannot be made.
    pub fn create(path: &Path, bytes_max: u64) -> Result<Self, RecordError> {
        let (mut file, unplaced) = begin(path)?;
        file.write_all(&MAGIC)?;
        file.write_all(&[VERSION])?;
        let bytes_max = bytes_max.max(Self::BYTES_LEAST);
        let waiting = Some(Waiting { file, bytes_max });
        let state = State { waiting, unplaced, ..State::default() };
        let (stopped, full) = (Arc::default(), Arc::default());
        Ok(Self { shared: Arc::new(Shared { stopped, full, state: Mutex::new(state) }) })
    }

    /// Puts the file where it was asked for: one that is there is lost, except to who has it open. A
    /// recording that comes to nothing before leaves that alone.
    ///
    /// # Errors
    /// [`RecordError::Write`] if it cannot be put there.
    pub fn take_place(&self) -> Result<(), RecordError> {
        Ok(self.shared.state.lock().take_place()?)
    }

    /// `law`, listened to: it rules the stage named `stage`, and was made for `classes`
    /// with the constants `knobs`. A recorder records one law; the records of a second
    /// one go nowhere.
    pub fn trace(
        &self,
        law: Box<dyn AdmissionLaw>,
        stage: &str,
        classes: &Classes,
        knobs: &[(&str, f64)],
    ) -> Traced {
        let (send_full, full) = sync_channel(BUFFERS + 1);
        let (send_empty, empty) = channel();
        let head = Head {
            stage: stage.to_owned(),
            law: law.name().to_owned(),
            knobs: knobs.iter().map(|&(name, value)| (name.to_owned(), value)).collect(),
            classes: classes.clone(),
        };
        let mut state = self.shared.state.lock();
        let Some(Waiting { file, bytes_max }) = state.waiting.take() else {
            let nowhere = Arc::new(AtomicBool::new(true));
            let pen = Pen::new(classes.len(), send_full, empty, nowhere);
            return Traced::new(law, Arc::new(Mutex::new(pen)));
        };
        fill(&send_full, &send_empty, &head);
        let pen = Pen::new(classes.len(), send_full, empty, Arc::clone(&self.shared.stopped));
        let pen = Arc::new(Mutex::new(pen));
        let writer = Writer {
            file,
            bytes: (MAGIC.len() + 1) as u64,
            bytes_max,
            checksum: 0,
            full: Arc::clone(&self.shared.full),
            stopped: Arc::clone(&self.shared.stopped),
        };
        let thread = std::thread::Builder::new().name("trace".to_owned());
        match thread.spawn(move || writer.run(&full, &send_empty)) {
            Ok(thread) => state.writer = Some(thread),
            // Without a writer nothing is recorded, and `finish` says so.
            Err(_) => self.shared.stopped.store(true, Ordering::Relaxed),
        }
        state.pen = Some(Arc::clone(&pen));
        Traced::new(law, pen)
    }

    /// Whether the file has reached its bound, so that nothing is recorded any more.
    pub fn is_full(&self) -> bool {
        self.shared.full.load(Ordering::Relaxed)
    }

    /// Whether nothing is recorded any more, for whatever reason.
    pub fn has_stopped(&self) -> bool {
        self.shared.stopped.load(Ordering::Relaxed)
    }

    /// Ends the trace, and waits until all of it is written. The law goes on without.
    ///
    /// # Errors
    /// [`RecordError`]: what became of it instead.
    pub fn finish(&self) -> Result<End, RecordError> {
        let mut state = self.shared.state.lock();
        let pen = state.pen.take().ok_or(RecordError::Nothing)?;
        let writer = state.writer.take().ok_or(RecordError::Nothing)?;
        let (records, lost) = {
            let mut pen = pen.lock();
            pen.flush();
            self.shared.stopped.store(true, Ordering::Relaxed);
            pen.hang_up();
            pen.counts()
        };
        let written = writer.join().expect("the writer does not panic")?;
        let close = if self.is_full() { Close::Full } else { Close::Finished };
        let end = written.close(End { close, records, lost, bytes: 0 })?;
        state.take_place()?;
        Ok(end)
    }
}

impl State {
    fn take_place(&mut self) -> io::Result<()> {
        if let Some(Unplaced { partial, path }) = &self.unplaced {
            fs::rename(partial, path)?;
            self.unplaced = None;
        }
        Ok(())
    }
}

/// A file that is to be at `path`. What is there and is no regular file, such as a pipe, is written
/// to as it stands.
fn begin(path: &Path) -> io::Result<(File, Option<Unplaced>)> {
    if fs::metadata(path).is_ok_and(|metadata| !metadata.is_file()) {
        return Ok((File::create(path)?, None));
    }
    // Of a symbolic link, the file that it leads to is replaced.
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut partial = path.clone().into_os_string();
    partial.push(format!(".{}.partial", std::process::id()));
    let partial = PathBuf::from(partial);
    Ok((File::create(&partial)?, Some(Unplaced { partial, path })))
}

/// The head on its way, and the buffers where they are taken from.
fn fill(full: &SyncSender<Vec<u8>>, empty: &Sender<Vec<u8>>, head: &Head) {
    let mut first = vec![0; BLOCK_HEAD];
    put_head(&mut first, head);
    let sent = full.try_send(first).is_ok()
        && (0..BUFFERS).all(|_| empty.send(Vec::with_capacity(BUFFER)).is_ok());
    debug_assert!(sent, "both ends are in one hand, and there is room for one more");
}

struct Writer {
    file: File,
    bytes: u64,
    bytes_max: u64,
    checksum: u32,
    full: Arc<AtomicBool>,
    stopped: Arc<AtomicBool>,
}

/// A file with all but its last block.
#[derive(Debug)]
struct Written {
    file: File,
    bytes: u64,
    checksum: u32,
}

/// The last block is not longer than this.
const END_MAX: u64 = 64;

impl Writer {
    /// Until the other side hangs up, or nothing more can be written.
    fn run(mut self, full: &Receiver<Vec<u8>>, empty: &Sender<Vec<u8>>) -> io::Result<Written> {
        while let Ok(mut block) = full.recv() {
            if self.bytes + block.len() as u64 + END_MAX > self.bytes_max {
                self.full.store(true, Ordering::Relaxed);
                self.stopped.store(true, Ordering::Relaxed);
                break;
            }
            let written = seal(&mut block, &mut self.checksum, &mut self.file);
            if let Err(error) = written {
                self.stopped.store(true, Ordering::Relaxed);
                // A reader has no use for a part of a block.
                let _ = self.file.set_len(self.bytes);
                return Err(error);
            }
            self.bytes += block.len() as u64;
            // Nobody may want it any more.
            let _ = empty.send(block);
        }
        Ok(Written { file: self.file, bytes: self.bytes, checksum: self.checksum })
    }
}

impl Written {
    fn close(mut self, end: End) -> io::Result<End> {
        let mut block = vec![0; BLOCK_HEAD];
        put_end(&mut block, &end);
        if let Err(error) = seal(&mut block, &mut self.checksum, &mut self.file) {
            let _ = self.file.set_len(self.bytes);
            return Err(error);
        }
        Ok(End { bytes: self.bytes + block.len() as u64, ..end })
    }
}

/// Completes a block and writes it.
fn seal(block: &mut [u8], checksum: &mut u32, file: &mut File) -> io::Result<()> {
    let (head, payload) = block.split_at_mut(BLOCK_HEAD);
    let mut hasher = crc32fast::Hasher::new_with_initial(*checksum);
    hasher.update(payload);
    *checksum = hasher.finalize();
    head[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    head[4..].copy_from_slice(&checksum.to_le_bytes());
    file.write_all(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of this name with the file `live.trace`, which says `before`.
    fn folder(name: &str) -> (PathBuf, PathBuf) {
        let name = format!("tamarisk-recorder-{name}-{}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("live.trace");
        fs::write(&path, "before").unwrap();
        (folder, path)
    }

    fn files(folder: &Path) -> usize {
        fs::read_dir(folder).unwrap().count()
    }

    #[test]
    fn a_recording_that_comes_to_nothing_leaves_the_one_before_alone() {
        let (folder, path) = folder("nothing");
        let recorder = Recorder::create(&path, 0).unwrap();
        assert_eq!(files(&folder), 2);
        assert!(matches!(recorder.finish(), Err(RecordError::Nothing)));
        drop(recorder);
        assert_eq!((files(&folder), fs::read(&path).unwrap()), (1, b"before".to_vec()));
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_recording_takes_the_place_of_one_that_is_still_written() {
        let (folder, path) = folder("place");
        let link = folder.join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        let mut before = File::options().append(true).open(&path).unwrap();
        let recorder = Recorder::create(&link, 0).unwrap();
        before.write_all(b" and on").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"before and on");
        recorder.take_place().unwrap();
        before.write_all(b" and on").unwrap();
        recorder.take_place().unwrap();
        drop(recorder);
        assert_eq!(fs::read(&path).unwrap(), [&MAGIC[..], &[VERSION]].concat());
        assert!(link.is_symlink() && files(&folder) == 2);
        fs::remove_dir_all(folder).unwrap();
    }
}
