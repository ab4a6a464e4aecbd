//! Response bodies sent by `sendfile`.

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::transport::outlet::Outlet;

/// A file as whoever sends it knows it: the kernel may have its bytes in memory, or have to read
/// them from a disk, for which no core waits.
pub trait SentFile: AsFd + Send + Sync {
    /// Whether the kernel has these bytes in memory.
    fn is_in_memory(&self, part: Range<u64>) -> bool;

    /// Has these bytes brought there.
    fn load(self: Arc<Self>, part: Range<u64>) -> FileLoad;

    /// Whether the file is still the one that the head of the answer speaks of.
    ///
    /// # Errors
    /// It is not.
    fn unchanged(&self) -> io::Result<()>;
}

/// Bytes of a file on their way from the disk.
pub type FileLoad = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// What is left to be sent of a file.
pub struct FileBody {
    file: Arc<dyn SentFile>,
    left: Range<u64>,
    /// The bytes before this one are in memory.
    known_to: u64,
    loading: Option<FileLoad>,
}

impl FileBody {
    /// What of a file is seen to, and given to the kernel, at once: what it is given in smaller
    /// pieces it sends so, and wakes the client for each.
    pub const PART_BYTES: u64 = 1024 * 1024;

    /// What a client may be sent before others have their turn, however fast it is.
    const TURN_BYTES: u64 = 4 * Self::PART_BYTES;

    /// The first `length` bytes of a file, which is the right one now; `None` if those that are sent
    /// first would have to come from a disk.
    pub fn in_memory(file: Arc<dyn SentFile>, length: u64) -> Option<Self> {
        let known_to = length.min(Self::PART_BYTES);
        file.is_in_memory(0..known_to).then_some(Self {
            file,
            left: 0..length,
            known_to,
            loading: None,
        })
    }

    /// Bytes that have not been sent.
    pub(crate) fn left(&self) -> u64 {
        self.left.end - self.left.start
    }

    /// The client has been waited for. Nobody knows for how long, and the kernel may have needed
    /// its memory meanwhile.
    pub(crate) fn doubt(&mut self) {
        self.known_to = self.left.start;
    }

    /// Sends what `stream` takes, some of it in one turn; ready when that is all.
    pub(crate) fn poll_send(
        &mut self,
        stream: &mut (impl Outlet + ?Sized),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let turn_end = self.left.start + Self::TURN_BYTES;
        while !self.left.is_empty() {
            if self.left.start >= turn_end {
                cx.waker().wake_by_ref();
                return Poll::Pending;
            }
            ready!(self.poll_known(cx))?;
            let length = self.known_to - self.left.start;
            let length = usize::try_from(length).expect("a part is short");
            match stream.poll_send_file(cx, self.file.as_fd(), self.left.start, length)? {
                Poll::Ready(0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Poll::Ready(sent) => self.left.start += sent as u64,
                Poll::Pending => {
                    self.doubt();
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Ready when the next bytes are in memory.
    fn poll_known(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.known_to > self.left.start {
            return Poll::Ready(Ok(()));
        }
        let part = self.left.start..self.left.end.min(self.left.start + Self::PART_BYTES);
        if self.loading.is_none() {
            self.file.unchanged()?;
            if !self.file.is_in_memory(part.clone()) {
                self.loading = Some(Arc::clone(&self.file).load(part.clone()));
            }
        }
        if let Some(loading) = &mut self.loading {
            ready!(loading.as_mut().poll(cx))?;
            self.loading = None;
            self.file.unchanged()?;
        }
        self.known_to = part.end;
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::future::poll_fn;
    use std::os::fd::{BorrowedFd, OwnedFd};
    use std::task::Waker;
    use std::time::Duration;

    use parking_lot::Mutex;
    use rustix::fs::{MemfdFlags, memfd_create};
    use tokio::io::{AsyncReadExt, duplex};
    use tokio::time::{Instant, sleep};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A file whose first part is in memory; each other one comes from the disk within a second.
    /// From the beginning of one of those on it is another file.
    pub(in super::super) struct OnDisk {
        file: OwnedFd,
        changes_at: Mutex<u64>,
        brought: Mutex<Vec<Range<u64>>>,
    }

    impl OnDisk {
        pub(in super::super) fn of(length: usize, changes_at: u64) -> Arc<Self> {
            let file = memfd_create("test", MemfdFlags::empty()).unwrap();
            let bytes: Vec<_> = (0..length).map(|at| (at % 251) as u8).collect();
            rustix::io::write(&file, &bytes).unwrap();
            Arc::new(Self { file, changes_at: Mutex::new(changes_at), brought: Mutex::default() })
        }

        pub(in super::super) fn change(&self) {
            *self.changes_at.lock() = 0;
        }
    }

    impl AsFd for OnDisk {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.file.as_fd()
        }
    }

    impl SentFile for OnDisk {
        fn is_in_memory(&self, part: Range<u64>) -> bool {
            part.start == 0
        }

        fn load(self: Arc<Self>, part: Range<u64>) -> FileLoad {
            self.brought.lock().push(part);
            Box::pin(async {
                sleep(SECOND).await;
                Ok(())
            })
        }

        fn unchanged(&self) -> io::Result<()> {
            let from = *self.changes_at.lock();
            let is_so = |part: &Range<u64>| part.start >= from;
            match from == 0 || self.brought.lock().iter().any(is_so) {
                true => Err(io::Error::other("changed")),
                false => Ok(()),
            }
        }
    }

    fn all_of(file: &Arc<OnDisk>, length: u64) -> FileBody {
        FileBody::in_memory(Arc::<OnDisk>::clone(file), length).unwrap()
    }

    /// What a client gets of 2,500,000 bytes over a stream that holds so many, and when.
    async fn sent(file: &Arc<OnDisk>, buffer: usize) -> (io::Result<()>, usize, Duration) {
        let (mut client, mut stream) = duplex(buffer);
        let mut body = all_of(file, 2_500_000);
        let sending = tokio::spawn(async move {
            let result = poll_fn(|cx| body.poll_send(&mut stream, cx)).await;
            (result, Instant::now(), body.left())
        });
        let (start, mut read) = (Instant::now(), Vec::new());
        client.read_to_end(&mut read).await.unwrap();
        assert!(read.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 251));
        let (result, end, left) = sending.await.unwrap();
        assert_eq!(left, 2_500_000 - read.len() as u64);
        (result, read.len(), end - start)
    }

    #[tokio::test(start_paused = true)]
    async fn a_part_is_sent_when_it_is_in_memory() {
        let file = OnDisk::of(2_500_000, u64::MAX);
        let (result, length, time) = sent(&file, 4 << 20).await;
        assert_eq!((result.is_ok(), length, time), (true, 2_500_000, SECOND * 2));
        assert_eq!(*file.brought.lock(), [1_048_576..2_097_152, 2_097_152..2_500_000]);
    }

    #[test]
    fn a_fast_client_lets_others_have_their_turn() {
        let file = OnDisk::of(0, u64::MAX);
        rustix::fs::ftruncate(&file.file, 10 << 20).unwrap();
        let mut body = FileBody { known_to: 10 << 20, ..all_of(&file, 10 << 20) };
        let (_client, mut stream) = duplex(10 << 20);
        let mut cx = Context::from_waker(Waker::noop());
        let mut turns = Vec::new();
        while body.poll_send(&mut stream, &mut cx).is_pending() {
            turns.push(body.left() >> 20);
        }
        assert_eq!(turns, [6, 2]);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_waited_for_the_client_asks_again() {
        let file = OnDisk::of(2_500_000, u64::MAX);
        let (result, length, time) = sent(&file, 400_000).await;
        assert_eq!((result.is_ok(), length), (true, 2_500_000));
        let brought = file.brought.lock();
        assert_eq!(time, SECOND * u32::try_from(brought.len()).unwrap());
        assert!(brought.len() > 4 && brought.is_sorted_by_key(|part| part.start), "{brought:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_another_one_now_is_not_sent_on() {
        let file = OnDisk::of(2_500_000, 2_000_000);
        let (result, length, _) = sent(&file, 4 << 20).await;
        assert_eq!((result.is_err(), length), (true, 2_097_152));
        let short = OnDisk::of(1_200_000, u64::MAX);
        let (result, length, _) = sent(&short, 4 << 20).await;
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(length, 1_200_000);
    }

    #[test]
    fn what_would_come_from_a_disk_is_not_in_memory() {
        struct Cold(Arc<OnDisk>);

        impl AsFd for Cold {
            fn as_fd(&self) -> BorrowedFd<'_> {
                self.0.as_fd()
            }
        }

        impl SentFile for Cold {
            fn is_in_memory(&self, part: Range<u64>) -> bool {
                assert_eq!(part, 0..1_048_576);
                false
            }

            fn load(self: Arc<Self>, part: Range<u64>) -> FileLoad {
                Arc::clone(&self.0).load(part)
            }

            fn unchanged(&self) -> io::Result<()> {
                Ok(())
            }
        }

        assert!(FileBody::in_memory(Arc::new(Cold(OnDisk::of(10, 0))), 2_500_000).is_none());
    }
}
