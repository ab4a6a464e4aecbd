//! The writer thread of the access log.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use parking_lot::{Condvar, Mutex};

use super::line::Line;
use super::options::{LogError, LogFormat, LogTarget};

/// Lines that have not been written yet: a second of a hundred thousand requests.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// After a pause, lines are gathered for so long before they are written: to wake this thread and
/// to call the system for each of them costs as much as a request does.
const GATHERING: Duration = Duration::from_millis(20);

/// Memory that is kept for the lines to come; what a burst needs beyond it is given back.
const KEPT_BYTES_MAX: usize = 1 << 20;

/// The way to the thread. It ends when this is dropped.
pub(super) struct Writer(Arc<Shared>);

struct Shared {
    waiting: Mutex<Waiting>,
    /// Lines wait where none did, or something is asked of the thread.
    asked: Condvar,
    lost: AtomicU64,
}

#[derive(Default)]
struct Waiting {
    lines: String,
    /// Bytes that the thread is writing.
    writing: usize,
    /// The file is to be opened again.
    reopen: Option<Reopen>,
    /// Who is told when all that waits now has been written.
    flushed: Vec<Sender<()>>,
    ended: bool,
}

#[derive(Default)]
struct Reopen {
    /// For the lines from here on.
    at: usize,
    /// Who is told what came of it.
    told: Vec<Told>,
}

pub(super) type Told = Box<dyn FnOnce(Result<(), &LogError>) + Send>;

type Output = Box<dyn Write + Send>;

impl LogTarget {
    pub(super) fn open(&self) -> io::Result<Output> {
        Ok(match self {
            Self::File(path) => Box::new(append(path)?),
            Self::Stdout => Box::new(io::stdout()),
        })
    }
}

fn append(path: &std::path::Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.lines.is_empty() && !self.is_urgent()
    }

    fn is_urgent(&self) -> bool {
        self.reopen.is_some() || !self.flushed.is_empty() || self.ended
    }
}

impl Shared {
    fn lose(&self, lines: u64) {
        self.lost.fetch_add(lines, Ordering::Relaxed);
    }

    fn ask(&self, change: impl FnOnce(&mut Waiting)) {
        change(&mut self.waiting.lock());
        self.asked.notify_one();
    }
}

impl Writer {
    /// Writes to `output`, and to `target` when it is opened again.
    pub(super) fn start(output: Output, target: LogTarget, format: LogFormat) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            waiting: Mutex::default(),
            asked: Condvar::new(),
            lost: AtomicU64::new(0),
        });
        let mut pen = Pen {
            output,
            target,
            format,
            shared: Arc::clone(&shared),
            confessed: 0,
            is_cut: false,
        };
        thread::Builder::new().name("access-log".to_owned()).spawn(move || pen.run())?;
        Ok(Self(shared))
    }

    /// Takes a line, unless too many wait already.
    pub(super) fn write(&self, line: &str) {
        let mut waiting = self.0.waiting.lock();
        if waiting.lines.len() + waiting.writing + line.len() > WAITING_BYTES_MAX {
            drop(waiting);
            return self.0.lose(1);
        }
        let is_first = waiting.lines.is_empty();
        waiting.lines.push_str(line);
        drop(waiting);
        if is_first {
            self.0.asked.notify_one();
        }
    }

    pub(super) fn reopen(&self, told: Told) {
        self.0.ask(|waiting| {
            let reopen = waiting.reopen.get_or_insert_default();
            reopen.at = waiting.lines.len();
            reopen.told.push(told);
        });
    }

    pub(super) fn lost(&self) -> u64 {
        self.0.lost.load(Ordering::Relaxed)
    }

    pub(super) fn close(&self, patience: Duration) {
        let (done, flushed) = channel();
        self.0.ask(|waiting| waiting.flushed.push(done));
        // A disk that hangs is not waited for.
        let _ = flushed.recv_timeout(patience);
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.0.ask(|waiting| waiting.ended = true);
    }
}

struct Pen {
    output: Output,
    target: LogTarget,
    format: LogFormat,
    shared: Arc<Shared>,
    /// How many lost lines the log has told of.
    confessed: u64,
    /// The last line that was written has no end.
    is_cut: bool,
}

impl Pen {
    fn run(&mut self) {
        let mut lines = String::new();
        loop {
            let (reopen, flushed, ended) = self.wait(&mut lines);
            let at = reopen.as_ref().map_or(lines.len(), |reopen| reopen.at);
            let (before, after) = lines.split_at(at);
            self.write(before.as_bytes());
            if let Some(Reopen { told, .. }) = reopen {
                self.reopen(told);
            }
            self.write(after.as_bytes());
            self.confess();
            // The caller may have given up waiting.
            for done in flushed {
                let _ = done.send(());
            }
            if ended {
                return;
            }
            lines.clear();
            lines.shrink_to(KEPT_BYTES_MAX);
        }
    }

    /// Takes the lines that wait, and what is asked.
    fn wait(&self, lines: &mut String) -> (Option<Reopen>, Vec<Sender<()>>, bool) {
        let mut waiting = self.shared.waiting.lock();
        waiting.writing = 0;
        self.shared.asked.wait_while(&mut waiting, |waiting| waiting.is_empty());
        let is_calm = |waiting: &mut Waiting| !waiting.is_urgent();
        self.shared.asked.wait_while_for(&mut waiting, is_calm, GATHERING);
        std::mem::swap(&mut waiting.lines, lines);
        waiting.writing = lines.len();
        (waiting.reopen.take(), std::mem::take(&mut waiting.flushed), waiting.ended)
    }

    fn write(&mut self, lines: &[u8]) {
        let lost = self.put(lines);
        self.shared.lose(lost);
    }

    /// Writes lines as far as that goes; how many of them are not there in full.
    fn put(&mut self, lines: &[u8]) -> u64 {
        if lines.is_empty() {
            return 0;
        }
        if self.is_cut && self.output.write_all(b"\n").is_err() {
            return count(lines);
        }
        self.is_cut = false;
        let mut rest = lines;
        while !rest.is_empty() {
            match self.output.write(rest) {
                Ok(bytes) if bytes > 0 => rest = &rest[bytes..],
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
        let written = lines.len() - rest.len();
        self.is_cut = written > 0 && lines[written - 1] != b'\n';
        match self.output.flush() {
            Ok(()) => count(rest),
            Err(_) => count(lines),
        }
    }

    fn reopen(&mut self, told: Vec<Told>) {
        let opened = match self.target.open() {
            Ok(output) => {
                (self.output, self.is_cut) = (output, false);
                Ok(())
            }
            Err(source) => Err(LogError { to: self.target.clone(), source }),
        };
        told.into_iter().for_each(|told| told(opened.as_ref().copied()));
    }

    /// Says how many lines have been lost since it was last said.
    fn confess(&mut self) {
        let lost = self.shared.lost.load(Ordering::Relaxed);
        if lost > self.confessed {
            let line = Line::lost(self.format, SystemTime::now(), lost - self.confessed);
            if self.put(line.as_bytes()) == 0 {
                self.confessed = lost;
            }
        }
    }
}

fn count(lines: &[u8]) -> u64 {
    lines.iter().filter(|&&byte| byte == b'\n').count() as u64
}

#[cfg(test)]
mod tests {
    use std::sync::{Condvar, Mutex};

    use super::{Arc, Duration, LogFormat, LogTarget, WAITING_BYTES_MAX, Write, Writer, io};

    /// A disk that hangs until it is let go, and keeps what is written.
    #[derive(Clone, Default)]
    struct Disk(Arc<(Mutex<State>, Condvar)>);

    #[derive(Default)]
    struct State {
        hangs: bool,
        fails: bool,
        /// So many bytes more, and then it is full.
        room: Option<usize>,
        written: String,
    }

    impl Disk {
        fn set(&self, hangs: bool, fails: bool) {
            let mut state = self.0.0.lock().unwrap();
            (state.hangs, state.fails) = (hangs, fails);
            self.0.1.notify_all();
        }

        fn written(&self) -> String {
            self.0.0.lock().unwrap().written.clone()
        }
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let mut state = self.0.1.wait_while(self.0.0.lock().unwrap(), |s| s.hangs).unwrap();
            if state.fails {
                return Err(io::ErrorKind::StorageFull.into());
            }
            let room = state.room.unwrap_or(bytes.len()).min(bytes.len());
            if room == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            state.room = state.room.map(|left| left - room);
            state.written.push_str(std::str::from_utf8(&bytes[..room]).unwrap());
            Ok(room)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    const PATIENCE: Duration = Duration::from_secs(60);

    fn writer(disk: &Disk) -> Writer {
        let output = Box::new(disk.clone());
        Writer::start(output, LogTarget::Stdout, LogFormat::Json).unwrap()
    }

    #[test]
    fn a_disk_that_hangs_holds_nobody_up_and_what_was_lost_is_told() {
        let disk = Disk::default();
        disk.set(true, false);
        let writer = writer(&disk);
        let line = format!("{}\n", "x".repeat(1023));
        for _ in 0..20_000 {
            writer.write(&line);
        }
        let lost = 20_000 - WAITING_BYTES_MAX as u64 / 1024;
        assert_eq!(writer.lost(), lost);
        writer.close(Duration::ZERO);

        disk.set(false, false);
        writer.close(PATIENCE);
        let written = disk.written();
        // The thread may have been held up before its first line, and begin with what was lost.
        let (told, lines): (Vec<_>, Vec<_>) =
            written.lines().partition(|line| line.contains("lines_lost"));
        assert_eq!(lines.len() as u64, 20_000 - lost);
        let [told] = told[..] else { panic!("{told:?}") };
        assert!(told.ends_with(&format!(",\"lines_lost\":{lost}}}")), "{told}");
    }

    #[test]
    fn a_disk_that_is_full_costs_the_lines_that_it_did_not_take() {
        let disk = Disk::default();
        disk.set(false, true);
        let writer = writer(&disk);
        for _ in 0..3 {
            writer.write("one\n");
        }
        writer.close(PATIENCE);
        assert_eq!(writer.lost(), 3);
        disk.set(false, false);
        writer.write("two\n");
        writer.close(PATIENCE);
        let written = disk.written();
        assert!(written.starts_with("two\n{"), "{written}");
        assert!(written.ends_with(",\"lines_lost\":3}\n"), "{written}");
    }

    #[test]
    fn a_line_that_was_cut_off_is_ended_before_the_next() {
        let disk = Disk::default();
        disk.0.0.lock().unwrap().room = Some(6);
        let writer = writer(&disk);
        writer.write("one\ntwo\n");
        writer.close(PATIENCE);
        writer.write("three\n");
        writer.close(PATIENCE);
        assert_eq!(writer.lost(), 2);
        disk.0.0.lock().unwrap().room = None;
        writer.write("four\n");
        writer.close(PATIENCE);
        let written = disk.written();
        let lines: Vec<_> = written.lines().collect();
        let ["one", "tw", "four", told] = lines[..] else { panic!("{written}") };
        assert!(told.ends_with(",\"lines_lost\":2}"), "{told}");
        assert!(written.ends_with('\n'), "{written}");
    }

    #[test]
    fn lines_go_to_the_file_that_was_open_when_they_came() {
        let folder = std::env::temp_dir().join(format!("tamarisk-writer-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let (path, moved) = (folder.join("access.log"), folder.join("access.log.1"));
        let target = LogTarget::File(path.clone());
        let writer = Writer::start(target.open().unwrap(), target, LogFormat::Json).unwrap();
        writer.write("one\n");
        std::fs::rename(&path, &moved).unwrap();
        writer.reopen(Box::new(|_| ()));
        writer.write("two\n");
        writer.close(PATIENCE);
        let read = [moved, path].map(|path| std::fs::read_to_string(path).unwrap());
        std::fs::remove_dir_all(folder).unwrap();
        assert_eq!(read, ["one\n", "two\n"]);
    }

    #[test]
    fn what_is_written_last_is_written_at_the_end() {
        let disk = Disk::default();
        let writer = writer(&disk);
        writer.write("last\n");
        writer.close(PATIENCE);
        assert_eq!(disk.written(), "last\n");
        drop(writer);
    }
}
