//! Log lines when request bodies cannot be written to files or read from them, and when they can
//! again.

use std::fmt;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tamarisk_observe::incident::{CALM, Change, Incident};
use tokio::time::Instant;

use crate::blocking;
use crate::budget::spool;

/// What has failed of late; all cores share it.
#[derive(Debug, Default)]
pub(crate) struct DiskFailures {
    writing: Failures,
    reading: Failures,
}

#[derive(Debug)]
struct Failures {
    is_failing: AtomicBool,
    incident: Mutex<Incident>,
}

impl Default for Failures {
    fn default() -> Self {
        // On a disk that is nearly full, short bodies find room and long ones do not.
        let incident = Mutex::new(Incident::ending_after(CALM));
        Self { is_failing: AtomicBool::new(false), incident }
    }
}

#[derive(Clone, Copy, Debug)]
enum Work {
    Write,
    Read,
}

impl DiskFailures {
    /// Part of a body was to be written.
    pub(crate) fn wrote<T>(&self, result: &io::Result<T>) {
        self.writing.tell(Work::Write, result.as_ref().err());
    }

    /// Part of a body was to be read.
    pub(crate) fn read<T>(&self, result: &io::Result<T>) {
        self.reading.tell(Work::Read, result.as_ref().err());
    }
}

impl Failures {
    fn tell(&self, work: Work, error: Option<&io::Error>) {
        // So it is nearly always.
        if error.is_none() && !self.is_failing.load(Ordering::Relaxed) {
            return;
        }
        let change = {
            let mut incident = self.incident.lock();
            let change = incident.look(Instant::now(), u64::from(error.is_some()));
            self.is_failing.store(incident.holds(), Ordering::Relaxed);
            change
        };
        let Some(change) = change else { return };
        let message = Message { work, folder: spool::folder(), change, error };
        match message.change {
            Change::Ends { .. } => tracing::info!("{message}"),
            _ => tracing::warn!("{message}"),
        }
    }
}

/// A line of the log.
struct Message<'a> {
    work: Work,
    folder: &'a Path,
    change: Change,
    error: Option<&'a io::Error>,
}

impl fmt::Display for Message<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { work, folder, change, error } = self;
        let done = match work {
            Work::Write => "written to",
            Work::Read => "read from",
        };
        match change {
            Change::Holds { count, after } => {
                let seconds = after.as_secs_f64();
                write!(f, "Request bodies still cannot be {done} {folder:?}")?;
                write!(f, " ({count} failed in {seconds:.0} s)")?;
            }
            Change::Ends { count, after, .. } => {
                let seconds = after.as_secs_f64();
                write!(f, "Request bodies can be {done} {folder:?} again")?;
                write!(f, " after {seconds:.1} s; {count} failed.")?;
            }
            _ => write!(f, "Request bodies cannot be {done} {folder:?}")?,
        }
        match error {
            Some(error) => write!(f, ": {error}. {}", cure(*work, error)),
            None => Ok(()),
        }
    }
}

/// `EMFILE` and `ENFILE`: the process, or the machine, has too many open files.
const TOO_MANY_OPEN_FILES: [i32; 2] = [24, 23];

fn cure(work: Work, error: &io::Error) -> &'static str {
    use io::ErrorKind::{
        NotFound, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, StorageFull,
    };
    if error.raw_os_error().is_some_and(|number| TOO_MANY_OPEN_FILES.contains(&number)) {
        return "Raise the limit on open files (ulimit -n).";
    }
    if blocking::is_no_thread(error) {
        return "Raise the limit on threads (ulimit -u, TasksMax of systemd, or that of the container).";
    }
    match (work, error.kind()) {
        (Work::Write, StorageFull | QuotaExceeded) => {
            "Free space there, or set TMPDIR to another folder."
        }
        (Work::Write, NotFound | PermissionDenied | ReadOnlyFilesystem) => {
            "Make that folder writable, or set TMPDIR to another one."
        }
        _ => "Check its disk, or set TMPDIR to another folder.",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn messages_say_what_cannot_be_done_why_and_what_helps() {
        let message = |work, change, error| {
            let error = Option::map(error, io::Error::from_raw_os_error);
            let folder = Path::new("/var/tmp");
            Message { work, folder, change, error: error.as_ref() }.to_string()
        };
        let (full, denied, broken) = (Some(28), Some(13), Some(5));
        let (after, lasted) = (Duration::from_millis(60_200), Duration::from_secs(50));
        assert_eq!(
            message(Work::Write, Change::Begins { count: 1 }, full),
            "Request bodies cannot be written to \"/var/tmp\": No space left on device (os error \
             28). Free space there, or set TMPDIR to another folder."
        );
        assert_eq!(
            message(Work::Write, Change::Holds { count: 7, after }, denied),
            "Request bodies still cannot be written to \"/var/tmp\" (7 failed in 60 s): Permission \
             denied (os error 13). Make that folder writable, or set TMPDIR to another one."
        );
        assert_eq!(
            message(Work::Write, Change::Ends { count: 7, after, lasted }, None),
            "Request bodies can be written to \"/var/tmp\" again after 60.2 s; 7 failed."
        );
        assert_eq!(
            message(Work::Read, Change::Begins { count: 1 }, broken),
            "Request bodies cannot be read from \"/var/tmp\": Input/output error (os error 5). \
             Check its disk, or set TMPDIR to another folder."
        );
    }

    #[test]
    fn each_error_has_its_cure() {
        let check = |work, numbers: &[i32], expected| {
            for number in numbers {
                let cure = cure(work, &io::Error::from_raw_os_error(*number));
                assert_eq!(cure, expected, "error {number}");
            }
        };
        // ENOSPC; ENOENT, EACCES and EROFS; EMFILE and ENFILE; EIO and ENOTDIR.
        let free = "Free space there, or set TMPDIR to another folder.";
        check(Work::Write, &[28], free);
        let make_writable = "Make that folder writable, or set TMPDIR to another one.";
        check(Work::Write, &[2, 13, 30], make_writable);
        check(Work::Write, &[24, 23], "Raise the limit on open files (ulimit -n).");
        let check_disk = "Check its disk, or set TMPDIR to another folder.";
        check(Work::Write, &[5, 20], check_disk);
        check(Work::Read, &[5, 2], check_disk);
        // Not one of the system: a body that is shorter than was written, for example.
        let none = io::Error::from(io::ErrorKind::UnexpectedEof);
        assert_eq!(super::cure(Work::Read, &none), check_disk);
    }
}
