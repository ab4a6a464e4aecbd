//! The writer thread of the access log.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, SystemTime};

use super::line::Line;
use super::options::{LogFormat, LogTarget};

/// Lines that have not been written yet: a second of a hundred thousand requests.
const WAITING_BYTES_MAX: usize = 16 << 20;

/// What a line takes besides its text.
const LINE_OVERHEAD_BYTES: usize = 64;

/// After a pause, lines are gathered for so long before they are written: to wake this thread and
/// to call the system for each of them costs as much as a request does.
const GATHERING: Duration = Duration::from_millis(20);

/// Written at once, when there is so much to write.
const BUFFER_BYTES: usize = 64 * 1024;

/// The way to the thread. It ends when this is dropped.
pub(super) struct Writer {
    sender: Sender<Task>,
    accounts: Arc<Accounts>,
}

enum Task {
    Write(String),
    Reopen,
    /// Flush, and say so.
    Flush(Sender<()>),
}

#[derive(Default)]
struct Accounts {
    waiting_bytes: AtomicUsize,
    lost: AtomicU64,
}

impl Accounts {
    fn lose(&self, lines: u64) {
        self.lost.fetch_add(lines, Ordering::Relaxed);
    }
}

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

impl Writer {
    /// Writes to `output`, and to `target` when it is opened again.
    pub(super) fn start(output: Output, target: LogTarget, format: LogFormat) -> io::Result<Self> {
        let (sender, tasks) = channel();
        let accounts = Arc::new(Accounts::default());
        let mut pen = Pen {
            output: BufWriter::with_capacity(BUFFER_BYTES, output),
            unflushed: 0,
            target,
            format,
            accounts: Arc::clone(&accounts),
            confessed: 0,
        };
        thread::Builder::new().name("access-log".to_owned()).spawn(move || pen.run(&tasks))?;
        Ok(Self { sender, accounts })
    }

    /// Takes a line, unless too many wait already.
    pub(super) fn write(&self, line: String) {
        let (bytes, waiting) = (line.len() + LINE_OVERHEAD_BYTES, &self.accounts.waiting_bytes);
        let before = waiting.fetch_add(bytes, Ordering::Relaxed);
        let taken =
            before + bytes <= WAITING_BYTES_MAX && self.sender.send(Task::Write(line)).is_ok();
        if !taken {
            waiting.fetch_sub(bytes, Ordering::Relaxed);
            self.accounts.lose(1);
        }
    }

    pub(super) fn reopen(&self) {
        // Without a thread there is nothing to be opened.
        let _ = self.sender.send(Task::Reopen);
    }

    pub(super) fn lost(&self) -> u64 {
        self.accounts.lost.load(Ordering::Relaxed)
    }

    pub(super) fn close(&self, patience: Duration) {
        let (done, flushed) = channel();
        if self.sender.send(Task::Flush(done)).is_ok() {
            // A disk that hangs is not waited for.
            let _ = flushed.recv_timeout(patience);
        }
    }
}

struct Pen {
    output: BufWriter<Output>,
    /// Lines in the buffer.
    unflushed: u64,
    target: LogTarget,
    format: LogFormat,
    accounts: Arc<Accounts>,
    /// How many lost lines the log has told of.
    confessed: u64,
}

impl Pen {
    fn run(&mut self, tasks: &Receiver<Task>) {
        loop {
            let task = match tasks.try_recv() {
                Ok(task) => task,
                Err(TryRecvError::Disconnected) => break,
                Err(TryRecvError::Empty) => {
                    self.flush();
                    self.confess();
                    match tasks.recv() {
                        Ok(task @ Task::Write(_)) => {
                            thread::sleep(GATHERING);
                            task
                        }
                        Ok(task) => task,
                        Err(_) => break,
                    }
                }
            };
            match task {
                Task::Write(line) => {
                    self.write(&line);
                    let bytes = line.len() + LINE_OVERHEAD_BYTES;
                    self.accounts.waiting_bytes.fetch_sub(bytes, Ordering::Relaxed);
                }
                Task::Reopen => self.reopen(),
                Task::Flush(done) => {
                    self.flush();
                    self.confess();
                    // Whoever asked may have lost patience.
                    let _ = done.send(());
                }
            }
        }
        self.flush();
    }

    fn write(&mut self, line: &str) {
        if self.output.buffer().len() + line.len() > self.output.capacity() {
            self.flush();
        }
        match self.output.write_all(line.as_bytes()) {
            Ok(()) => self.unflushed += 1,
            Err(_) => self.accounts.lose(1),
        }
    }

    fn flush(&mut self) {
        let lines = std::mem::take(&mut self.unflushed);
        if self.output.flush().is_err() {
            self.start_over();
            self.accounts.lose(lines);
        }
    }

    /// With an empty buffer: what could not be written would be in the way.
    fn start_over(&mut self) {
        let nothing = BufWriter::with_capacity(0, Box::new(io::sink()) as Output);
        let (output, _) = std::mem::replace(&mut self.output, nothing).into_parts();
        self.output = BufWriter::with_capacity(BUFFER_BYTES, output);
    }

    fn reopen(&mut self) {
        self.flush();
        if let Ok(output) = self.target.open() {
            self.output = BufWriter::with_capacity(BUFFER_BYTES, output);
        }
    }

    /// Says how many lines have been lost since it was last said. Nothing else is in the buffer
    /// then, which is lost if this cannot be said either.
    fn confess(&mut self) {
        let lost = self.accounts.lost.load(Ordering::Relaxed);
        if lost > self.confessed {
            let line = Line::lost(self.format, SystemTime::now(), lost - self.confessed);
            if self.output.write_all(line.as_bytes()).is_ok() && self.output.flush().is_ok() {
                self.confessed = lost;
            } else {
                self.start_over();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Condvar, Mutex};

    use super::*;

    /// A disk that hangs until it is let go, and keeps what is written.
    #[derive(Clone, Default)]
    struct Disk(Arc<(Mutex<State>, Condvar)>);

    #[derive(Default)]
    struct State {
        hangs: bool,
        fails: bool,
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
            state.written.push_str(std::str::from_utf8(bytes).unwrap());
            Ok(bytes.len())
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
            writer.write(line.clone());
        }
        let room = WAITING_BYTES_MAX / (1024 + LINE_OVERHEAD_BYTES);
        // The thread may have taken some already, up to its buffer and one.
        let least = 20_000 - room as u64 - BUFFER_BYTES as u64 / 1024 - 1;
        let lost = writer.lost();
        assert!((least..=20_000 - room as u64).contains(&lost), "{lost}");
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
            writer.write("one\n".to_owned());
        }
        writer.close(PATIENCE);
        assert_eq!(writer.lost(), 3);
        disk.set(false, false);
        writer.write("two\n".to_owned());
        writer.close(PATIENCE);
        let written = disk.written();
        assert!(written.starts_with("two\n{"), "{written}");
        assert!(written.ends_with(",\"lines_lost\":3}\n"), "{written}");
    }

    #[test]
    fn what_is_written_last_is_written_at_the_end() {
        let disk = Disk::default();
        let writer = writer(&disk);
        writer.write("last\n".to_owned());
        writer.close(PATIENCE);
        assert_eq!(disk.written(), "last\n");
        drop(writer);
    }
}
