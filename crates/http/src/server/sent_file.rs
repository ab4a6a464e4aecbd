//! A body that the kernel sends out of a file.

use std::io;
use std::ops::Range;
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use crate::outlet::Outlet;

/// What of a file is seen to, and given to the kernel, at once: what it is given in smaller pieces
/// it sends so, and wakes the client for each.
const PART_BYTES: u64 = 1024 * 1024;

/// A file as whoever sends it knows it: the kernel may have its bytes in memory, or have to read
/// them from a disk, for which no core waits.
pub trait SentFile: AsFd + Send + Sync {
    /// Sees to it that the kernel has these bytes in memory; `None` if it has.
    ///
    /// # Errors
    /// The file is not the one any more that the head of the answer speaks of.
    fn bring(&self, part: Range<u64>) -> io::Result<Option<Bringing>>;
}

/// Bytes of a file on their way from the disk.
pub type Bringing = Pin<Box<dyn Future<Output = io::Result<()>> + Send>>;

/// What is left to be sent of a file.
pub(super) struct FileBody {
    file: Arc<dyn SentFile>,
    left: Range<u64>,
    /// The bytes before this one are in memory, once nothing is being brought.
    known_to: u64,
    bringing: Option<Bringing>,
}

impl FileBody {
    pub(super) fn new(file: Arc<dyn SentFile>, length: u64) -> Self {
        Self { file, left: 0..length, known_to: 0, bringing: None }
    }

    /// Bytes that have not been sent.
    pub(super) fn left(&self) -> u64 {
        self.left.end - self.left.start
    }

    /// Sends what `stream` takes; ready when that is all.
    pub(super) fn poll_send(
        &mut self,
        stream: &mut impl Outlet,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        while !self.left.is_empty() {
            ready!(self.poll_known(cx))?;
            let length = self.known_to - self.left.start;
            let length = usize::try_from(length).expect("a part is short");
            match stream.poll_send_file(cx, self.file.as_fd(), self.left.start, length)? {
                Poll::Ready(0) => return Poll::Ready(Err(io::ErrorKind::UnexpectedEof.into())),
                Poll::Ready(sent) => self.left.start += sent as u64,
                Poll::Pending => {
                    // Nobody knows for how long, and the kernel may need its memory meanwhile.
                    self.known_to = self.left.start;
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Ready when the next bytes are in memory.
    fn poll_known(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.known_to == self.left.start {
            self.known_to = self.left.end.min(self.left.start + PART_BYTES);
            self.bringing = self.file.bring(self.left.start..self.known_to)?;
        }
        if let Some(bringing) = &mut self.bringing {
            ready!(bringing.as_mut().poll(cx))?;
            self.bringing = None;
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::os::fd::{BorrowedFd, OwnedFd};
    use std::time::Duration;

    use parking_lot::Mutex;
    use rustix::fs::{MemfdFlags, memfd_create};
    use tokio::io::{AsyncReadExt, duplex};
    use tokio::time::{Instant, sleep};

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    /// A file of which each part comes from the disk within a second, up to one that is broken.
    struct OnDisk {
        file: OwnedFd,
        broken_from: u64,
        asked: Mutex<Vec<Range<u64>>>,
    }

    impl OnDisk {
        fn of(length: usize, broken_from: u64) -> Arc<Self> {
            let file = memfd_create("test", MemfdFlags::empty()).unwrap();
            let bytes: Vec<_> = (0..length).map(|at| (at % 251) as u8).collect();
            rustix::io::write(&file, &bytes).unwrap();
            Arc::new(Self { file, broken_from, asked: Mutex::default() })
        }
    }

    impl AsFd for OnDisk {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.file.as_fd()
        }
    }

    impl SentFile for OnDisk {
        fn bring(&self, part: Range<u64>) -> io::Result<Option<Bringing>> {
            self.asked.lock().push(part.clone());
            if part.end > self.broken_from {
                return Err(io::Error::other("broken"));
            }
            Ok(Some(Box::pin(async {
                sleep(SECOND).await;
                Ok(())
            })))
        }
    }

    /// What a client gets of 2,500,000 bytes over a stream that holds so many, and when.
    async fn sent(file: &Arc<OnDisk>, buffer: usize) -> (io::Result<()>, usize, Duration) {
        let (mut client, mut stream) = duplex(buffer);
        let mut body = FileBody::new(Arc::<OnDisk>::clone(file), 2_500_000);
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
        assert_eq!((result.is_ok(), length, time), (true, 2_500_000, SECOND * 3));
        assert_eq!(*file.asked.lock(), [0..1_048_576, 1_048_576..2_097_152, 2_097_152..2_500_000]);
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_has_waited_for_the_client_asks_again() {
        let file = OnDisk::of(2_500_000, u64::MAX);
        let (result, length, time) = sent(&file, 400_000).await;
        assert_eq!((result.is_ok(), length), (true, 2_500_000));
        let asked = file.asked.lock();
        assert_eq!(time, SECOND * u32::try_from(asked.len()).unwrap());
        assert!(asked.len() > 5 && asked.is_sorted_by_key(|part| part.start), "{asked:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_that_is_another_one_now_is_not_sent_on() {
        let file = OnDisk::of(2_500_000, 1_200_000);
        let (result, length, _) = sent(&file, 4 << 20).await;
        assert_eq!((result.is_err(), length), (true, 1_048_576));
        let short = OnDisk::of(1_200_000, u64::MAX);
        let (result, length, _) = sent(&short, 4 << 20).await;
        assert_eq!(result.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(length, 1_200_000);
    }
}
