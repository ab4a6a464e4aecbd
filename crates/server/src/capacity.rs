//! The memory and the descriptors of this process, and what of them connections may take.

use tamarisk_http_gate::open_files_max;
use tamarisk_stage::pressure;

/// Where neither a control group nor the machine tells how much memory there is: what small virtual
/// machines have.
const MEMORY_UNKNOWN: u64 = 1 << 30;

/// Descriptors for what is neither a connection nor a body: listeners, logs, event queues.
const OTHER_FILES: u64 = 64;

/// Bytes that a connection takes while its request waits for its client, measured with HTTP/1
/// and a body of some bytes: its tasks, its head, and what the kernel counts for its socket.
const CONNECTION_BYTES: u64 = 16 * 1024;

/// What a process may use, by the limits that it was started under. Every bound of what clients may
/// take up follows from this.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Bytes of memory: the least limit of the control groups around the process, or what the
    /// machine has.
    pub memory: u64,
    /// Open files.
    pub files: u64,
}

impl Capacity {
    /// Of this process.
    pub fn of_process() -> Self {
        let memory = pressure::memory_limit().unwrap_or(MEMORY_UNKNOWN);
        Self { memory, files: open_files_max() as u64 }
    }

    /// The memory divided by `parts`, in bytes; `most` at most.
    pub fn memory_share(self, parts: u64, most: u64) -> u64 {
        (self.memory / parts).min(most)
    }

    /// Files for request bodies: an eighth of all, because a request in a file has no connection to
    /// its upstream yet.
    pub fn body_files(self) -> u64 {
        self.files / 8
    }

    /// Connections of clients: each may need another one to an upstream, and all together a quarter
    /// of the memory.
    pub(crate) fn connections(self) -> usize {
        let by_files = self.files.saturating_sub(OTHER_FILES + self.body_files()) / 2;
        let by_memory = self.memory_share(4, u64::MAX) / CONNECTION_BYTES;
        usize::try_from(by_files.min(by_memory)).unwrap_or(usize::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_have_a_quarter_of_the_memory_and_half_of_the_descriptors() {
        let connections = |memory, files| Capacity { memory, files }.connections();
        // 8 GiB are enough for any of these: (1024 - 64 - 128) / 2, (65536 - 64 - 8192) / 2.
        assert_eq!([1024, 65536].map(|files| connections(8 << 30, files)), [416, 28640]);
        // A quarter of 64 MiB by 16 KiB.
        assert_eq!(connections(64 << 20, 1 << 20), 1024);
        assert_eq!(connections(0, 0), 0);
    }
}
