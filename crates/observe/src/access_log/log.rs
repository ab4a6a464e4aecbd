//! The log, and the line about a request while it is under way.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use http::StatusCode;
use tamarisk_server::guard::Violation;

use super::admission::Admission;
use super::line::{Asked, Line};
use super::options::{LogError, LogFormat, LogOptions};
use super::writer::Writer;

/// What a client sees nothing of: it left before there was an answer. The number is nginx's.
const LEFT: u16 = 499;

/// The log; clones write to the same one.
#[derive(Clone)]
pub struct Log {
    format: LogFormat,
    writer: Arc<Writer>,
}

impl Log {
    /// Opens the file and starts the thread that writes to it.
    ///
    /// # Errors
    /// [`LogError`]: the file cannot be written to, or there is no thread.
    pub fn start(options: &LogOptions) -> Result<Self, LogError> {
        let LogOptions { to, format } = options;
        let writer = to.open().and_then(|output| Writer::start(output, to.clone(), *format));
        let writer = writer.map_err(|source| LogError { to: to.clone(), source })?;
        Ok(Self { format: *format, writer: Arc::new(writer) })
    }

    /// Opens the file again, which has been moved away perhaps. If it cannot be opened the
    /// old one is written to.
    pub fn reopen(&self) {
        self.reopen_then(|_| ());
    }

    /// The same, and calls `then` with what came of it, on the thread that writes.
    pub fn reopen_then(&self, then: impl FnOnce(Result<(), &LogError>) + Send + 'static) {
        self.writer.reopen(Box::new(then));
    }

    /// How many lines could not be written.
    pub fn lost(&self) -> u64 {
        self.writer.lost()
    }

    /// Writes what there is, for as long as `patience` lasts, and nothing more.
    pub fn close(&self, patience: Duration) {
        self.writer.close(patience);
    }

    /// The line about a request that has come just now.
    pub fn begin(&self, client: IpAddr, asked: &Asked<'_>) -> Box<Entry> {
        Box::new(Entry {
            line: Line::begin(self.format, SystemTime::now(), client, asked),
            admission: None,
            started: Instant::now(),
            status: LEFT,
            bytes: 0,
            writer: Arc::clone(&self.writer),
        })
    }

    /// Writes the line about what a client has sent instead of a request, and the bytes of the answer that said why.
    pub fn rejected(&self, client: IpAddr, violation: Violation, bytes: usize) {
        let (format, now) = (self.format, SystemTime::now());
        self.writer.write(&Line::rejected(format, now, client, violation, bytes));
    }
}

/// The line about a request; it is written when this is dropped.
pub struct Entry {
    line: Line,
    admission: Option<Admission>,
    started: Instant,
    status: u16,
    bytes: u64,
    writer: Arc<Writer>,
}

impl Entry {
    /// There is an answer.
    pub fn answered(&mut self, status: StatusCode) {
        self.status = status.as_u16();
    }

    /// `bytes` more of its body have been sent.
    pub fn sent(&mut self, bytes: u64) {
        self.bytes += bytes;
    }

    /// The answer broke off before its end.
    pub fn broke_off(&mut self, reason: &'static str) {
        self.admission.iter_mut().for_each(|admission| admission.broke_off(reason));
    }

    /// It is to be admitted by a stage.
    pub fn set_admission(&mut self, admission: Admission) -> &mut Admission {
        self.admission.insert(admission)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let line = std::mem::take(&mut self.line);
        let end = (self.status, self.bytes, self.started.elapsed());
        self.writer.write(&line.end(end.0, end.1, end.2, self.admission.as_ref()));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::ErrorKind;
    use std::sync::mpsc::channel;

    use super::*;
    use crate::access_log::LogTarget;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn whether_the_file_could_be_opened_again_is_told_and_if_not_the_old_one_goes_on() {
        let folder = std::env::temp_dir().join(format!("tamarisk-reopen-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let (path, moved) = (folder.join("access.log"), folder.join("access.log.1"));
        let to = LogTarget::File(path.clone());
        let log = Log::start(&LogOptions { to, format: LogFormat::Json }).unwrap();
        let reopened = || {
            let (tell, told) = channel();
            log.reopen_then(move |reopened| {
                tell.send(reopened.map_err(|error| error.source.kind())).unwrap();
            });
            told.recv_timeout(PATIENCE).unwrap()
        };
        let write = || {
            log.rejected([192, 0, 2, 1].into(), Violation::NotHttp, 12);
            log.close(PATIENCE);
        };
        fs::rename(&path, &moved).unwrap();
        fs::create_dir(&path).unwrap();
        assert_eq!(reopened(), Err(ErrorKind::IsADirectory));
        write();
        fs::remove_dir(&path).unwrap();
        assert_eq!(reopened(), Ok(()));
        write();
        let lines = [moved, path].map(|file| fs::read_to_string(file).unwrap().lines().count());
        fs::remove_dir_all(folder).unwrap();
        assert_eq!(lines, [1, 1]);
    }
}
