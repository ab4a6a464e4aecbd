//! One Python process, and the work that it is given.

use std::collections::HashMap;
use std::io::{self, PipeWriter};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use super::{frame, log};
use crate::compile::{PageError, Program};
use crate::request::{PageAnswer, RequestHead};

/// Reads the worker script from the socket and runs it.
const BOOTSTRAP: &str = "\
import os
def r(n):
    b = b''
    while len(b) < n:
        c = os.read(0, n - len(b))
        if not c: os._exit(0)
        b += c
    return b
__file__ = '<tamarisk worker>'
exec(compile(r(int.from_bytes(r(4), 'big')), __file__, 'exec'))";
const SCRIPT: &str = include_str!("worker.py");
const PROTOCOL: u32 = 1;

/// How long a process may take to start: a cold disk, a loaded machine, a site's slow modules.
const START_TIME_MAX: Duration = Duration::from_secs(30);
/// How long a process that has closed its socket may take to end without being killed.
const OWN_END_TIME_MAX: Duration = Duration::from_millis(100);
/// How often it is asked meanwhile.
const END_CHECK: Duration = Duration::from_millis(1);
/// How long a process may take to end after it was killed; only a hung disk makes it longer.
const END_TIME_MAX: Duration = Duration::from_secs(10);
/// Pages that a process keeps; then it is replaced, for a site may have other pages every day.
const PAGES_MAX: usize = 1024;

/// What a process is started with.
#[derive(Clone, Debug)]
pub(crate) struct WorkerOptions {
    pub(crate) python: PathBuf,
    pub(crate) setup: Setup,
}

/// The first frame that a process gets.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "kind", rename = "setup")]
pub(crate) struct Setup {
    pub(crate) folder: PathBuf,
    pub(crate) module_folders: Vec<PathBuf>,
    pub(crate) modules: HashMap<String, String>,
    pub(crate) memory_bytes_max: u64,
    pub(crate) answer_bytes_max: usize,
}

/// What a process answers the first frame with.
#[derive(Deserialize)]
struct Ready {
    protocol: u32,
}

/// A request for a page, as the process gets it.
#[derive(Serialize)]
#[serde(tag = "kind", rename = "page")]
pub(crate) struct Work<'w> {
    pub(crate) page: &'w str,
    pub(crate) version: u64,
    #[serde(rename = "source", skip_serializing_if = "Option::is_none")]
    pub(crate) program: Option<&'w Program>,
    /// None to have the page compiled alone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) request: Option<RequestHead<'w>>,
}

/// What a process answers.
#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
enum AnswerHead {
    Answer {
        status: u16,
        headers: Vec<(String, String)>,
    },
    Error {
        message: String,
        file: String,
        line: u32,
        trace: Vec<(String, u32, String)>,
        retire: bool,
    },
}

/// Why no process could be started.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error("cannot start {python}: {reason}")]
    Spawn { python: String, reason: String },
    #[error("{python} did not become ready: {reason}")]
    NotReady { python: String, reason: String },
    #[error("{python} failed to start {failures} times in a row; next attempt in {pause:.1?}")]
    Pausing { python: String, failures: u32, pause: Duration },
    #[error("the site has been closed")]
    Closed,
}

/// Why a page has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Page(#[from] PageError),
    /// The process has ended, or what it sends is no answer.
    #[error("the Python process of this page {0}")]
    Died(String),
}

/// A process that runs pages, one at a time.
pub(crate) struct Worker {
    child: Child,
    stream: UnixStream,
    /// When this is closed, the kernel kills the process.
    _lifeline: PipeWriter,
    /// The number of the process and of its group; none once it has been waited for, because
    /// another process may have the number then.
    process: Option<Pid>,
    answer_bytes_max: usize,
    /// The pages that it has, and in which version.
    pages: HashMap<String, u64>,
    /// What tells whether the site's folder or modules have changed since.
    pub(super) generation: u64,
    pub(super) idle_since: Instant,
    /// It is to take no more work.
    pub(super) is_spent: bool,
}

impl Worker {
    pub(super) async fn start(
        options: &WorkerOptions,
        generation: u64,
    ) -> Result<Self, StartError> {
        let python = || options.python.display().to_string();
        let spawned = Self::spawn(options, generation);
        let mut worker = spawned
            .map_err(|error| StartError::Spawn { python: python(), reason: error.to_string() })?;
        let ready = timeout(START_TIME_MAX, worker.set_up(&options.setup)).await;
        let reason = match ready {
            Ok(Ok(Ready { protocol: PROTOCOL })) => return Ok(worker),
            Ok(Ok(Ready { protocol })) => format!("it speaks protocol {protocol}"),
            Ok(Err(_)) => worker.end().await,
            Err(_) => format!("it took longer than {START_TIME_MAX:?}"),
        };
        Err(StartError::NotReady { python: python(), reason })
    }

    fn spawn(options: &WorkerOptions, generation: u64) -> io::Result<Self> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        let (lifeline_end, lifeline) = io::pipe()?;
        ours.set_nonblocking(true)?;
        let stream = UnixStream::from_std(ours)?;
        let mut child = Command::new(&options.python)
            .args(["-I", "-u", "-B", "-c", BOOTSTRAP])
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::from(OwnedFd::from(lifeline_end)))
            .stderr(Stdio::piped())
            // A signal of the terminal is the server's; and children of pages are in the group.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        let id = child.id();
        if let Some(stderr) = child.stderr.take() {
            tokio::spawn(log::follow(stderr, id.unwrap_or_default()));
        }
        Ok(Self {
            process: id.and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)),
            child,
            stream,
            _lifeline: lifeline,
            answer_bytes_max: options.setup.answer_bytes_max,
            pages: HashMap::new(),
            generation,
            idle_since: Instant::now(),
            is_spent: false,
        })
    }

    async fn set_up(&mut self, setup: &Setup) -> io::Result<Ready> {
        let length = u32::try_from(SCRIPT.len()).expect("the script is some kilobytes");
        self.stream.write_all(&length.to_be_bytes()).await?;
        self.stream.write_all(SCRIPT.as_bytes()).await?;
        frame::write(&mut self.stream, setup, &[]).await?;
        let (ready, _) = frame::read(&mut self.stream, 0).await?;
        Ok(ready)
    }

    /// Runs a page. If this is dropped before its end, the process is in no state to be used again.
    pub(super) async fn run(
        &mut self,
        mut work: Work<'_>,
        body: &[u8],
    ) -> Result<PageAnswer, RunError> {
        if self.pages.get(work.page) == Some(&work.version) {
            work.program = None;
        }
        let sent = frame::write(&mut self.stream, &work, body).await;
        let answer = match sent {
            Ok(()) => frame::read(&mut self.stream, self.answer_bytes_max).await,
            Err(error) => Err(error),
        };
        match answer {
            Ok((AnswerHead::Answer { status, headers }, body)) => {
                if work.program.is_some() {
                    self.pages.insert(work.page.to_owned(), work.version);
                    self.is_spent |= self.pages.len() > PAGES_MAX;
                }
                PageAnswer::of(status, headers, body).ok_or_else(|| {
                    self.is_spent = true;
                    RunError::Died("sent an invalid status or header".to_owned())
                })
            }
            Ok((AnswerHead::Error { message, file, line, trace, retire }, _)) => {
                self.is_spent |= retire;
                let place = |(file, line, name)| format!("{file}:{line} in {name}");
                let trace = trace.into_iter().map(place).collect();
                Err(PageError { file, line, message, trace }.into())
            }
            Err(error) if is_end(&error) => Err(RunError::Died(self.end().await)),
            Err(error) => {
                self.is_spent = true;
                Err(RunError::Died(format!("sent no valid answer: {error}")))
            }
        }
    }

    /// Whether it can take work.
    pub(super) fn is_usable(&self, generation: u64) -> bool {
        !self.is_spent && !self.has_ended() && self.generation == generation
    }

    /// Whether the process has ended. It is not waited for: it keeps its number, so that its group
    /// can still be killed.
    fn has_ended(&self) -> bool {
        let Some(process) = self.process else { return true };
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(process), options), Ok(None))
    }

    /// Kills the process, unless it has ended, and those that it has started; returns how it ended.
    pub(super) async fn end(&mut self) -> String {
        self.is_spent = true;
        // It may have ended itself, and then how is of interest.
        let itself = async {
            while !self.has_ended() {
                sleep(END_CHECK).await;
            }
        };
        // If it does not, it is killed.
        let _ = timeout(OWN_END_TIME_MAX, itself).await;
        self.kill();
        let Ok(ended) = timeout(END_TIME_MAX, self.child.wait()).await else {
            return "does not end".to_owned();
        };
        self.process = None;
        ended.map_or_else(|error| error.to_string(), how_it_ended)
    }

    /// Kills the process and those that it has started.
    pub(super) fn kill(&mut self) {
        self.is_spent = true;
        if let Some(process) = self.process {
            // An error means that all of them have ended.
            let _ = kill_process_group(process, Signal::KILL);
        }
    }
}

fn is_end(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionReset | UnexpectedEof)
}

fn how_it_ended(status: ExitStatus) -> String {
    use std::os::unix::process::ExitStatusExt;
    match (status.signal(), status.code()) {
        (Some(signal), _) => {
            let name = match signal {
                6 => " (SIGABRT)",
                9 => " (SIGKILL; the system may have been out of memory)",
                11 => " (SIGSEGV)",
                _ => "",
            };
            format!("was ended by signal {signal}{name}")
        }
        (None, code) => format!("ended with exit code {}", code.unwrap_or_default()),
    }
}
