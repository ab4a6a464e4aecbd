//! A prepared response on its way: its pieces, written as the client takes them.

use std::cell::{Cell, RefCell};
use std::io;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, SystemTime};

use bytes::{Buf, Bytes};

use crate::prepared::sent_file::FileBody;
use crate::prepared::{OnWritten, PreparedBody, PreparedResponse};
use crate::responses::Responses;
use crate::transport::outlet::Outlet;
use crate::transport::stream::poll_write_pieces;

/// What is not longer is copied behind what is to be written before it: the kernel takes one piece
/// with less ado than several, and copying so little costs less than that.
pub(crate) const COPIED_MAX: usize = 4 * 1024;

/// Where a prepared response to a request is sent.
pub struct Reply<'r, 'cx> {
    stream: &'r mut dyn Outlet,
    cx: &'r mut Context<'cx>,
    responses: &'r Responses,
    is_last: bool,
}

/// A prepared response that has been sent, or is on its way.
pub struct Sent {
    pub(crate) outgoing: Outgoing,
    /// Whether all of it has been written.
    pub(crate) written: Poll<io::Result<()>>,
    /// Whether it says no.
    pub(crate) is_rejection: bool,
}

impl<'r, 'cx> Reply<'r, 'cx> {
    /// On `stream`, to a client who wants no other response if it `is_last`; it is counted among
    /// `responses`.
    pub(crate) fn new(
        stream: &'r mut dyn Outlet,
        cx: &'r mut Context<'cx>,
        responses: &'r Responses,
        is_last: bool,
    ) -> Self {
        Self { stream, cx, responses, is_last }
    }

    /// Sends `prepared`, as far as the client takes it at once.
    pub fn send(self, prepared: PreparedResponse<'_>) -> Sent {
        self.responses.count_line(prepared.head);
        let is_rejection = prepared.is_rejection;
        let mut outgoing = Outgoing::new(prepared, self.is_last);
        let written = outgoing.poll_write(self.stream, self.cx);
        Sent { outgoing, written, is_rejection }
    }
}

/// An answer on its way to the client.
pub(crate) struct Outgoing {
    /// The head, with the body behind it if that is short; what of it has been written.
    head: Vec<u8>,
    written: usize,
    /// The body, or what is left of it, if it is long.
    body: Bytes,
    /// The body, if it is a file.
    file: Option<FileBody>,
    body_length: u64,
    account: Option<OnWritten>,
    /// The client wants no other, so the connection closes behind it.
    pub(crate) is_last: bool,
}

/// More than this is not kept for the next head.
const SPARE_MAX: usize = 16 * 1024;

thread_local! {
    static SPARE_HEAD: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// The memory of the last head, for the next one.
pub(crate) fn spare_head() -> Vec<u8> {
    SPARE_HEAD.take()
}

/// Keeps the memory of a head that is written.
pub(crate) fn keep_spare(mut head: Vec<u8>) {
    if (1..=SPARE_MAX).contains(&head.capacity()) {
        head.clear();
        // When the thread ends, nobody needs it.
        let _ = SPARE_HEAD.try_with(|spare| spare.set(head));
    }
}

impl Outgoing {
    pub(crate) fn new(prepared: PreparedResponse<'_>, is_last: bool) -> Self {
        let mut head = spare_head();
        head.extend_from_slice(prepared.head);
        head.extend_from_slice(prepared.fields);
        end_head(&mut head, is_last, SystemTime::now());
        let (mut body, mut file, mut body_length) = (Bytes::new(), None, 0);
        match prepared.body {
            PreparedBody::Nothing => {}
            PreparedBody::Bytes(bytes) => {
                body_length = bytes.len() as u64;
                if bytes.len() <= COPIED_MAX {
                    head.extend_from_slice(bytes);
                } else {
                    body = bytes.clone();
                }
            }
            PreparedBody::File(sent) => {
                body_length = sent.left();
                file = Some(sent);
            }
        }
        Self { head, written: 0, body, file, body_length, account: prepared.account, is_last }
    }

    /// Writes what `stream` takes; ready when that is all.
    pub(crate) fn poll_write(
        &mut self,
        stream: &mut (impl Outlet + ?Sized),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let is_file_left = self.file.as_ref().is_some_and(|file| file.left() > 0);
        stream.set_followed(is_file_left || self.is_last);
        while self.bytes_left() > 0 {
            match self.poll_write_bytes(stream, cx)? {
                Poll::Ready(()) => {}
                Poll::Pending => {
                    self.file.iter_mut().for_each(FileBody::doubt);
                    return Poll::Pending;
                }
            }
        }
        if let Some(file) = &mut self.file {
            ready!(file.poll_send(stream, cx))?;
        }
        stream.set_followed(false);
        Pin::new(stream).poll_flush(cx)
    }

    fn poll_write_bytes(
        &mut self,
        stream: &mut (impl Outlet + ?Sized),
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<()>> {
        let head = &self.head[self.written..];
        let written = ready!(poll_write_pieces(stream, cx, [head, &self.body, &[]]))?;
        let of_head = written.min(head.len());
        self.written += of_head;
        self.body.advance(written - of_head);
        Poll::Ready(Ok(()))
    }

    /// Bytes that have not been written, without those of a file.
    fn bytes_left(&self) -> usize {
        self.head.len() - self.written + self.body.len()
    }

    /// Bytes of the body that have not been written.
    fn left(&self) -> u64 {
        match &self.file {
            Some(file) => file.left(),
            None => self.body_length.min(self.bytes_left() as u64),
        }
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        if let Some(account) = self.account.take() {
            account(self.body_length - self.left());
        }
        keep_spare(mem::take(&mut self.head));
    }
}

/// Puts the fields that are made for each answer behind `head`, and the empty line; it is `now`.
pub(crate) fn end_head(head: &mut Vec<u8>, is_last: bool, now: SystemTime) {
    /// What was made last, and when: in which second.
    struct Made {
        second: u64,
        ends: [String; 2],
    }

    impl Made {
        fn at(second: u64) -> Self {
            let time = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
            let date = httpdate::fmt_http_date(time);
            let end = |connection| format!("{connection}date: {date}\r\n\r\n");
            Self { second, ends: [end(""), end("connection: close\r\n")] }
        }
    }

    thread_local! {
        static MADE: RefCell<Made> = RefCell::new(Made::at(0));
    }
    MADE.with_borrow_mut(|made| {
        let past = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        if made.second != past.as_secs() {
            *made = Made::at(past.as_secs());
        }
        head.extend_from_slice(made.ends[usize::from(is_last)].as_bytes());
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::task::Waker;

    use tokio::io::AsyncWrite;

    use super::super::sent_file::tests::OnDisk;
    use super::*;

    /// Takes all it is given, once it has had it wait so often; how much at once, and whether
    /// something was to follow.
    #[derive(Default)]
    struct Taker {
        waits: usize,
        is_followed: bool,
        taken: Vec<(usize, bool)>,
    }

    impl AsyncWrite for Taker {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            if self.waits > 0 {
                self.waits -= 1;
                return Poll::Pending;
            }
            let taken = (bytes.len(), self.is_followed);
            self.taken.push(taken);
            Poll::Ready(Ok(bytes.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    impl Outlet for Taker {
        fn set_followed(&mut self, is_followed: bool) {
            self.is_followed = is_followed;
        }
    }

    fn of_file(file: &Arc<OnDisk>, length: u64) -> Outgoing {
        let body = FileBody::in_memory(Arc::<OnDisk>::clone(file), length).unwrap();
        let (head, body) = (b"HTTP/1.1 200 OK\r\n", PreparedBody::File(body));
        let is_rejection = false;
        Outgoing::new(
            PreparedResponse { head, fields: b"", body, is_rejection, account: None },
            false,
        )
    }

    #[test]
    fn a_head_waits_for_its_file_and_for_nothing_else() {
        let file = OnDisk::of(10, u64::MAX);
        for (length, taken) in [(10, &[true, true][..]), (0, &[false])] {
            let mut taker = Taker::default();
            let mut cx = Context::from_waker(Waker::noop());
            assert!(of_file(&file, length).poll_write(&mut taker, &mut cx).is_ready());
            assert_eq!(taker.taken.iter().map(|(_, is)| *is).collect::<Vec<_>>(), taken);
            assert!(!taker.is_followed);
        }
    }

    #[test]
    fn a_file_that_changes_while_its_head_waits_is_not_sent() {
        let file = OnDisk::of(10, u64::MAX);
        let (mut taker, mut outgoing) =
            (Taker { waits: 1, ..Taker::default() }, of_file(&file, 10));
        let mut cx = Context::from_waker(Waker::noop());
        assert!(outgoing.poll_write(&mut taker, &mut cx).is_pending());
        file.change();
        assert!(matches!(outgoing.poll_write(&mut taker, &mut cx), Poll::Ready(Err(_))));
        assert_eq!(taker.taken.len(), 1, "the head");
    }

    #[test]
    fn a_head_ends_with_the_time() {
        let end = |is_last, millis| {
            let mut end = Vec::new();
            let now = SystemTime::UNIX_EPOCH + Duration::from_millis(millis);
            end_head(&mut end, is_last, now);
            String::from_utf8(end).unwrap()
        };
        let (first, next) = ("Sun, 09 Sep 2001 01:46:40 GMT", "Sun, 09 Sep 2001 01:46:41 GMT");
        // Before the last one the clock has been put back.
        let times =
            [(0, first), (999, first), (1000, next), (1001, next), (999, first), (1500, next)];
        for (after, date) in times {
            let millis = 1_000_000_000_000 + after;
            assert_eq!(end(false, millis), format!("date: {date}\r\n\r\n"));
            assert_eq!(end(true, millis), format!("connection: close\r\ndate: {date}\r\n\r\n"));
        }
    }
}
