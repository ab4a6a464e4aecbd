//! Prepared responses, and those that come between them.

use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::Waker;

use rustix::fs::{MemfdFlags, memfd_create};
use tokio::io::{AsyncWrite, ReadBuf};

use super::*;
use crate::prepared::FastPath;
use crate::prepared::sent_file::{FileBody, FileLoad, SentFile};

/// Has prepared responses to requests whose target begins with `/now`: a body of so many
/// bytes, all of them the last one of the target. Rejects what is `/now/rejected`.
#[derive(Clone)]
struct Quick(usize, Long, Arc<Mutex<Vec<u64>>>);

impl Quick {
    fn new(length: usize) -> Self {
        Self(length, Long::new(1), Arc::default())
    }

    fn session(&self, buffer: usize) -> (DuplexStream, Connection<DuplexStream, Self>) {
        connect(self.clone(), IDLE_TIME, buffer)
    }

    /// How many bytes were written of each body.
    fn written(&self) -> Vec<u64> {
        self.2.lock().clone()
    }
}

struct InMemory(OwnedFd);

impl AsFd for InMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl SentFile for InMemory {
    fn is_in_memory(&self, _: Range<u64>) -> bool {
        true
    }

    fn load(self: Arc<Self>, _: Range<u64>) -> FileLoad {
        unreachable!("all of it is in memory")
    }

    fn unchanged(&self) -> io::Result<()> {
        Ok(())
    }
}

impl FastPath for Quick {
    fn fast_response(&self, asked: &PlainRequest<'_>, reply: Reply<'_, '_>) -> FastResponse {
        let Some(kind) = asked.target().strip_prefix("/now") else {
            return FastResponse::Unavailable;
        };
        let body = Bytes::from(vec![*kind.as_bytes().last().unwrap(); self.0]);
        let written = Arc::clone(&self.2);
        FastResponse::Answered(reply.send(PreparedResponse {
            head: format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n", self.0).as_bytes(),
            fields: b"a: b\r\n",
            body: match kind.strip_prefix("/file") {
                None => PreparedBody::Bytes(&body),
                Some(kind) => {
                    let file = memfd_create("test", MemfdFlags::empty()).unwrap();
                    let is_cut = kind.starts_with("/cut");
                    let there = &body[..self.0 / if is_cut { 2 } else { 1 }];
                    rustix::io::write(&file, there).unwrap();
                    let file = Arc::new(InMemory(file));
                    PreparedBody::File(FileBody::in_memory(file, self.0 as u64).unwrap())
                }
            },
            is_rejection: kind.starts_with("/rejected"),
            account: Some(Box::new(move |bytes| written.lock().push(bytes))),
        }))
    }
}

impl Service<Request<ClientBody>> for Quick {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn call(&self, request: Request<ClientBody>) -> Self::Future {
        self.1.call(request)
    }
}

fn requests(targets: &[&str]) -> Vec<u8> {
    let request = |target| format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n").into_bytes();
    targets.iter().flat_map(request).collect()
}

/// The last bytes of the bodies in `answers`, in which each is followed by a status line.
fn last_bytes(answers: &[u8]) -> String {
    let text = std::str::from_utf8(answers).unwrap();
    let bodies = text.split("HTTP/1.1 200 OK\r\n").skip(1);
    bodies.map(|answer| answer.chars().last().unwrap()).collect()
}

#[tokio::test(start_paused = true)]
async fn answers_at_hand_and_others_come_in_the_order_of_their_requests() {
    let quick = Quick::new(3);
    let (mut client, session) = quick.session(64 * 1024);
    let speaking = tokio::spawn(session);
    let mut answers = Vec::new();
    for _ in 0..2 {
        client.write_all(&requests(&["/now1", "/later", "/now2", "/now3", "/l"])).await.unwrap();
        client.write_all(&requests(&["/now4"])[..9]).await.unwrap();
        sleep(Duration::from_secs(2)).await;
        client.write_all(&requests(&["/now4"])[9..]).await.unwrap();
        sleep(Duration::from_secs(2)).await;
    }
    client.shutdown().await.unwrap();
    client.read_to_end(&mut answers).await.unwrap();
    speaking.await.unwrap();
    assert_eq!(last_bytes(&answers), "1x23x41x23x4");
    assert_eq!(quick.written(), [3; 8]);
}

/// Asks without end, and takes all answers.
struct Greedy {
    requests: u64,
}

impl AsyncRead for Greedy {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let request = requests(&["/now1"]);
        while buf.remaining() >= request.len() {
            buf.put_slice(&request);
            self.requests += 1;
        }
        assert!(self.requests < 10_000, "others have no turn");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Greedy {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

impl Outlet for Greedy {}

#[tokio::test]
async fn who_asks_without_end_lets_others_have_their_turn() {
    let quick = Quick::new(1);
    let mut session = speak(Greedy { requests: 0 }, quick.clone(), IDLE_TIME);
    session.may_idle = true;
    let mut cx = Context::from_waker(Waker::noop());
    for turns in 1..20 {
        // Between its requests as well, when nothing is left of what has been read.
        assert!(Pin::new(&mut session).poll(&mut cx).is_pending());
        assert_eq!(session.answer(), ConnectionState::More);
        assert_eq!(quick.written().len(), turns * 2);
    }
}

#[tokio::test]
async fn requests_that_come_together_are_answered_one_in_each_turn() {
    let quick = Quick::new(1);
    let (mut client, mut session) = quick.session(64 * 1024);
    let targets = ["/now1"; 5];
    client.write_all(&requests(&targets)).await.unwrap();
    for answered in 1..targets.len() {
        assert_eq!(session.answer(), ConnectionState::More);
        assert_eq!(quick.written().len(), answered);
    }
    assert_eq!(session.answer(), ConnectionState::Idle { is_asked: true });
    assert_eq!(quick.written().len(), targets.len());

    // The same of a connection that has a task.
    client.write_all(&requests(&targets)).await.unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    for answered in 1..=targets.len() {
        assert!(Pin::new(&mut session).poll(&mut cx).is_pending());
        assert_eq!(quick.written().len(), targets.len() + answered);
    }
}

#[tokio::test]
async fn a_connection_whose_next_request_has_come_is_not_idle() {
    let (mut client, mut session) = Quick::new(1).session(64 * 1024);
    session.settings.idle_queue = Some(IdleQueue::default());
    client.write_all(&requests(&["/now1"; 3])).await.unwrap();
    let mut cx = Context::from_waker(Waker::noop());
    for is_last in [false, false, true] {
        assert!(Pin::new(&mut session).poll(&mut cx).is_pending());
        assert_eq!(session.queued.is_some(), is_last);
        assert_eq!(session.idle.is_started(), is_last);
    }
}

#[tokio::test]
async fn a_request_that_has_come_before_a_shutdown_is_answered_last() {
    let quick = Quick::new(1);
    let (mut client, mut session) = quick.session(64 * 1024);
    client.write_all(&requests(&["/now1", "/now2", "/now3"])).await.unwrap();
    assert!(Pin::new(&mut session).poll(&mut Context::from_waker(Waker::noop())).is_pending());
    session.graceful_shutdown();
    let speaking = tokio::spawn(session);
    let mut answers = Vec::new();
    client.read_to_end(&mut answers).await.unwrap();
    speaking.await.unwrap();
    assert_eq!(last_bytes(&answers), "12");
    assert_eq!(quick.written().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn one_that_is_not_left_idle_lets_go_of_its_memory_after_a_while() {
    let (mut client, mut session) = Quick::new(1).session(4096);
    for _ in 0..2 {
        client.write_all(&requests(&["/later"])).await.unwrap();
        for is_released in [false, true] {
            assert!(timeout(HELD_TIME * 3 / 4, &mut session).await.is_err());
            assert_eq!((session.is_waiting(), session.is_released), (true, is_released));
        }
        assert_ne!(client.read(&mut [0; 256]).await.unwrap(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn who_is_rejected_at_hand_is_read_after_a_pause() {
    let (mut client, socket) = duplex(4096);
    let backoff = RejectionBackoff::with_pause(SECOND);
    tokio::spawn(speak_at(backoff, socket, Quick::new(1), IDLE_TIME));
    let mut waits = Vec::new();
    for targets in [&["/now1"][..], &["/now/rejected2"], &["/now3"], &["/now/rejected4", "/now5"]] {
        client.write_all(&requests(targets)).await.unwrap();
        for target in targets {
            let start = Instant::now();
            let mut answer = [0; 256];
            let length = client.read(&mut answer).await.unwrap();
            assert!(target.as_bytes().ends_with(&answer[length - 1..length]), "{target}");
            waits.push(start.elapsed().as_secs());
        }
    }
    assert_eq!(waits, [0, 0, 1, 0, 1]);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_proper_request_is_rejected_behind_answers_at_hand() {
    let (mut client, session) = Quick::new(1).session(64 * 1024);
    let speaking = tokio::spawn(session);
    client.write_all(&requests(&["/now1", "/now2", "/no w"])).await.unwrap();
    let mut answers = Vec::new();
    client.read_to_end(&mut answers).await.unwrap();
    speaking.await.unwrap();
    let answers = String::from_utf8(answers).unwrap();
    assert_eq!(answers.matches("HTTP/1.1 200 OK\r\n").count(), 2, "{answers}");
    assert!(answers.contains("\r\n\r\n2HTTP/1.1 400 Bad Request\r\n"), "{answers}");
}

#[tokio::test(start_paused = true)]
async fn the_last_request_closes_behind_its_answer() {
    let (mut client, session) = Quick::new(1).session(64 * 1024);
    let speaking = tokio::spawn(session);
    let last = b"GET /now2 HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    client.write_all(&[&requests(&["/now1"])[..], last, REQUEST].concat()).await.unwrap();
    let mut answers = Vec::new();
    client.read_to_end(&mut answers).await.unwrap();
    speaking.await.unwrap();
    assert_eq!(last_bytes(&answers), "12");
    assert_eq!(std::str::from_utf8(&answers).unwrap().matches("connection: close").count(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_answer_at_hand_waits_for_its_client_and_outlives_a_shutdown() {
    const LENGTH: usize = 20_000;
    let quick = Quick::new(LENGTH);
    let (mut client, mut session) = quick.session(4096);
    client.write_all(&requests(&["/now1"])).await.unwrap();
    assert!(timeout(SECOND, &mut session).await.is_err());
    session.graceful_shutdown();
    let speaking = tokio::spawn(session);
    let mut answers = Vec::new();
    client.read_to_end(&mut answers).await.unwrap();
    speaking.await.unwrap();
    assert!(answers.ends_with(&[b'1'; LENGTH]));
    assert_eq!(quick.written(), [LENGTH as u64]);
}

#[tokio::test(start_paused = true)]
async fn a_file_is_sent_as_bytes_are_and_a_short_one_cut_off() {
    const LENGTH: usize = 100_000;
    let quick = Quick::new(LENGTH);
    let (mut client, session) = quick.session(4096);
    let speaking = tokio::spawn(session);
    client.write_all(&requests(&["/now/file/1", "/now2", "/now/file/cut3"])).await.unwrap();
    let mut answers = Vec::new();
    client.read_to_end(&mut answers).await.unwrap();
    speaking.await.unwrap();
    assert_eq!(last_bytes(&answers), "123");
    assert_eq!(quick.written(), [LENGTH as u64, LENGTH as u64, LENGTH as u64 / 2]);
    let answers = std::str::from_utf8(&answers).unwrap();
    assert!(answers.ends_with(&format!("\r\n\r\n{}", "3".repeat(LENGTH / 2))));
    assert!(answers.contains(&format!("\r\n\r\n{}HTTP/1.1", "1".repeat(LENGTH))));
}

#[tokio::test(start_paused = true)]
async fn a_client_that_takes_nothing_of_an_answer_at_hand_is_given_up() {
    let quick = Quick::new(20_000);
    let (mut client, session) = quick.session(4096);
    client.write_all(&requests(&["/now1"])).await.unwrap();
    let start = Instant::now();
    session.await;
    assert_eq!(start.elapsed(), Duration::from_secs(60));
    let [written] = quick.written()[..] else { panic!("{:?}", quick.written()) };
    assert!((3900..4096).contains(&written), "{written}");
}
