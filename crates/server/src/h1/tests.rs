use std::convert::Infallible;
use std::future::poll_fn;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::task::Waker;

use futures_util::Stream;
use http::Response;
use http::{HeaderMap, StatusCode};
use http_body::Frame;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::service::Service;
use parking_lot::Mutex;
use rustix::fs::{MemfdFlags, memfd_create};
use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf, duplex};
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::guard::Limits;
use crate::prepared::sent_file::{FileBody, FileLoad, SentFile};
use crate::prepared::{FastPath, WithoutFastPath};
use crate::transport::stream::Protocol;

const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";
const IDLE_TIME: Duration = Duration::from_secs(75);
const SECOND: Duration = Duration::from_secs(1);

/// Answers with a body of so many bytes, and keeps the bodies of requests as they are.
#[derive(Clone)]
struct Long(usize, Arc<Mutex<Vec<Option<Request<ClientBody>>>>>);

impl Long {
    fn new(length: usize) -> Self {
        Self(length, Arc::default())
    }

    fn asked(&self) -> usize {
        self.1.lock().len()
    }
}

impl Service<Request<ClientBody>> for Long {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = std::future::Ready<Result<Self::Response, Infallible>>;

    fn call(&self, request: Request<ClientBody>) -> Self::Future {
        self.1.lock().push(Some(request));
        std::future::ready(Ok(Response::new(Full::from(vec![b'x'; self.0]))))
    }
}

type Tested = Connection<DuplexStream, WithoutFastPath<Long>>;

fn session(service: Long, idle_time: Duration) -> (DuplexStream, Tested) {
    connect(WithoutFastPath(service), idle_time, 4096)
}

fn connect<S: ClientService>(
    service: S,
    idle_time: Duration,
    buffer: usize,
) -> (DuplexStream, Connection<DuplexStream, S>) {
    let (client, socket) = duplex(buffer);
    (client, speak(socket, service, idle_time))
}

fn speak<T, S>(stream: T, service: S, idle_time: Duration) -> Connection<T, S>
where
    T: AsyncRead + Outlet + Send + 'static,
    S: ClientService,
{
    speak_at(RejectionBackoff::default(), stream, service, idle_time)
}

fn speak_at<T, S>(
    backoff: RejectionBackoff,
    stream: T,
    service: S,
    idle_time: Duration,
) -> Connection<T, S>
where
    T: AsyncRead + Outlet + Send + 'static,
    S: ClientService,
{
    let (rejected, pending_body) = (Arc::default(), PendingBody::default());
    let settings = RequestSettings { backoff, rejected, pending_body, idle_time, idle_queue: None };
    Connection::new(Wire::new(stream, Limits::default()), service, settings, Deadline::default())
}

async fn is_idle_after(session: &mut Tested, time: Duration) -> bool {
    let _ = timeout(time, &mut *session).await;
    session.is_waiting() && session.is_released
}

async fn answered(client: &mut DuplexStream, session: &mut Tested) {
    let mut answer = Vec::new();
    let reading = async {
        while !answer.ends_with(b"x") {
            client.read_buf(&mut answer).await.unwrap();
        }
    };
    tokio::select! {
        () = reading => {}
        _ = session => panic!("closed"),
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_is_let_go_and_wakes_with_the_next_request() {
    let (mut client, mut session) = session(Long::new(1), IDLE_TIME);
    for _ in 0..3 {
        client.write_all(REQUEST).await.unwrap();
        answered(&mut client, &mut session).await;
        assert!(!is_idle_after(&mut session, HELD_TIME / 2).await);
        assert!(is_idle_after(&mut session, HELD_TIME).await);
        sleep(IDLE_TIME / 2).await;
    }
    // Two at once, and a third whose head comes in pieces while the connection is idle.
    client.write_all(&REQUEST.repeat(2)).await.unwrap();
    answered(&mut client, &mut session).await;
    client.write_all(&REQUEST[..7]).await.unwrap();
    assert!(is_idle_after(&mut session, 3 * HELD_TIME).await);
    client.write_all(&REQUEST[7..]).await.unwrap();
    answered(&mut client, &mut session).await;
}

#[tokio::test(start_paused = true)]
async fn it_closes_when_it_has_been_idle_for_too_long() {
    for idle_time in [IDLE_TIME, HELD_TIME / 4] {
        let (mut client, mut session) = session(Long::new(1), idle_time);
        client.write_all(REQUEST).await.unwrap();
        answered(&mut client, &mut session).await;
        let start = Instant::now();
        session.await;
        assert_eq!(start.elapsed(), idle_time);
        assert_eq!(client.read(&mut [0; 64]).await.unwrap(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_rests_tells_for_how_long_it_has_been_idle() {
    let (mut client, mut session) = session(Long::new(1), IDLE_TIME);
    session.may_idle = true;
    assert_eq!((&mut session).await, Left::Idle);
    for _ in 0..2 {
        client.write_all(REQUEST).await.unwrap();
        assert_eq!((&mut session).await, Left::Idle);
        assert_eq!(session.become_idle(), HELD_TIME);
    }
    client.shutdown().await.unwrap();
    assert_eq!(session.await, Left::Over);
}

#[tokio::test(start_paused = true)]
async fn what_the_client_has_yet_to_take_is_not_lost() {
    const LENGTH: usize = 20_000;
    let (mut client, mut session) = session(Long::new(LENGTH), IDLE_TIME);
    client.write_all(REQUEST).await.unwrap();
    assert!(!is_idle_after(&mut session, 5 * HELD_TIME).await);
    let mut taken = 0;
    while taken < LENGTH {
        let mut piece = [0; 1024];
        let read = timeout(HELD_TIME, client.read(&mut piece));
        if let Ok(read) = read.await {
            taken += read.unwrap();
        }
        poll_fn(|cx| Poll::Ready(Pin::new(&mut session).poll(cx).is_pending())).await;
    }
    assert!(is_idle_after(&mut session, 2 * HELD_TIME).await);
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_body_is_never_taken_for_a_request() {
    for is_kept in [false, true] {
        for early in [0, 10] {
            let service = Long::new(1);
            let (mut client, mut session) = session(service.clone(), IDLE_TIME);
            let head = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10000\r\n\r\n";
            client.write_all(head.as_bytes()).await.unwrap();
            client.write_all(&vec![b'x'; early]).await.unwrap();
            answered(&mut client, &mut session).await;
            if !is_kept {
                service.1.lock().fill_with(|| None);
            }
            assert!(!is_idle_after(&mut session, 2 * HELD_TIME).await);
            let _ = client.write_all(REQUEST).await;
            assert!(!is_idle_after(&mut session, 2 * HELD_TIME).await);
            assert_eq!(service.asked(), 1, "{is_kept} {early}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_body_that_nobody_reads_yet_keeps_the_connection() {
    let service = Long::new(1);
    let (mut client, mut session) = session(service.clone(), IDLE_TIME);
    let body = REQUEST.repeat(4);
    let head = format!("POST / HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n", body.len());
    client.write_all(&[head.as_bytes(), &body].concat()).await.unwrap();
    answered(&mut client, &mut session).await;
    let _ = is_idle_after(&mut session, 3 * HELD_TIME).await;
    assert_eq!(service.asked(), 1);
    let kept = service.1.lock()[0].take().unwrap().into_body();
    let read = tokio::select! {
        read = kept.collect() => read.unwrap().to_bytes(),
        _ = &mut session => panic!("closed"),
    };
    assert_eq!(read, body);
    assert!(is_idle_after(&mut session, 2 * HELD_TIME).await);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_closes_when_it_is_told_to() {
    let (mut client, mut session) = session(Long::new(1), IDLE_TIME);
    client.write_all(REQUEST).await.unwrap();
    answered(&mut client, &mut session).await;
    assert!(is_idle_after(&mut session, 2 * HELD_TIME).await);
    session.graceful_shutdown();
    let start = Instant::now();
    session.await;
    assert_eq!(start.elapsed(), Duration::ZERO);
}

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

/// What the client gets for these bytes from a service that answers as `answer` says, up to the end
/// of the connection or until nothing more comes.
async fn told<B>(
    bytes: &str,
    answer: impl Fn(Request<ClientBody>) -> Response<B> + Send + 'static,
) -> String
where
    B: http_body::Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    let service = WithoutFastPath(hyper::service::service_fn(move |request| {
        std::future::ready(Ok::<_, Infallible>(answer(request)))
    }));
    let (mut client, connection) = connect(service, IDLE_TIME, 64 * 1024);
    let serving = tokio::spawn(connection);
    client.write_all(bytes.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while let Ok(Ok(1..)) = timeout(SECOND, client.read_buf(&mut answer)).await {}
    serving.abort();
    let answer = String::from_utf8(answer).unwrap();
    let lines = answer.split_inclusive("\r\n");
    lines.filter(|line| !line.starts_with("date: ")).collect()
}

/// A body of these frames, whose length nobody knows.
fn frames(
    frames: Vec<Frame<Bytes>>,
) -> StreamBody<impl Stream<Item = Result<Frame<Bytes>, Infallible>>> {
    StreamBody::new(futures_util::stream::iter(frames.into_iter().map(Ok)))
}

#[tokio::test(start_paused = true)]
async fn a_body_is_framed_as_its_client_can_read_it() {
    let parts = || {
        let mut trailers = HeaderMap::new();
        trailers.insert("digest", "d".parse().unwrap());
        trailers.insert("secret", "s".parse().unwrap());
        let data = ["one", "", "three"].map(|text| Frame::data(Bytes::from(text)));
        let mut response =
            Response::new(frames(data.into_iter().chain([Frame::trailers(trailers)]).collect()));
        response.headers_mut().insert("trailer", "Digest".parse().unwrap());
        response
    };
    let get = |version, fields: &str| format!("GET / HTTP/{version}\r\nhost: a\r\n{fields}\r\n");
    assert_eq!(
        told(&get("1.1", ""), move |_| parts()).await,
        "HTTP/1.1 200 OK\r\ntrailer: Digest\r\ntransfer-encoding: chunked\r\n\r\n\
         3\r\none\r\n5\r\nthree\r\n0\r\n\r\n"
    );
    assert_eq!(
        told(&get("1.1", "te: trailers\r\n"), move |_| parts()).await,
        "HTTP/1.1 200 OK\r\ntrailer: Digest\r\ntransfer-encoding: chunked\r\n\r\n\
         3\r\none\r\n5\r\nthree\r\n0\r\ndigest: d\r\n\r\n"
    );
    assert_eq!(
        told(&get("1.0", "connection: keep-alive\r\n"), move |_| parts()).await,
        "HTTP/1.0 200 OK\r\nconnection: close\r\n\r\nonethree"
    );
    let whole = || Response::new(Full::from("whole"));
    assert_eq!(
        told(&get("1.0", "connection: keep-alive\r\n"), move |_| whole()).await,
        "HTTP/1.0 200 OK\r\ncontent-length: 5\r\nconnection: keep-alive\r\n\r\nwhole"
    );
    assert_eq!(
        told(&get("1.0", ""), move |_| whole()).await,
        "HTTP/1.0 200 OK\r\ncontent-length: 5\r\nconnection: close\r\n\r\nwhole"
    );
    assert_eq!(
        told("HEAD / HTTP/1.1\r\nhost: a\r\n\r\n", move |_| whole()).await,
        "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n"
    );
    for status in [StatusCode::NO_CONTENT, StatusCode::NOT_MODIFIED] {
        let none = move || {
            let mut response = Response::new(Full::from("never"));
            *response.status_mut() = status;
            response
        };
        let expected = format!("HTTP/1.1 {status}\r\n\r\n");
        assert_eq!(told(&get("1.1", ""), move |_| none()).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_service_says_of_a_length_is_held_to() {
    let said = |data: &'static str| {
        let mut response = Response::new(frames(vec![Frame::data(Bytes::from(data))]));
        response.headers_mut().insert("content-length", "5".parse().unwrap());
        response
    };
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n";
    let two = String::from_utf8(REQUEST.repeat(2)).unwrap();
    // More is cut off, and after less the connection ends.
    assert_eq!(told(&two, move |_| said("right")).await, format!("{head}right{head}right"));
    assert_eq!(told(&two, move |_| said("longer")).await, format!("{head}longe{head}longe"));
    assert_eq!(told(&two, move |_| said("less")).await, format!("{head}less"));
}

#[tokio::test(start_paused = true)]
async fn a_status_that_is_no_answer_is_not_sent() {
    let two = String::from_utf8(REQUEST.repeat(2)).unwrap();
    let answers = told(&two, |_| {
        let mut response = Response::new(Full::from(""));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        response
    });
    let expected =
        "HTTP/1.1 500 Internal Server Error\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    assert_eq!(answers.await, expected);
}

/// Reads all of a request's body before it answers with it.
#[derive(Clone)]
struct Echo;

impl Service<Request<ClientBody>> for Echo {
    type Response = Response<Full<Bytes>>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn call(&self, request: Request<ClientBody>) -> Self::Future {
        Box::pin(async {
            let text = match request.into_body().collect().await {
                Ok(body) => body.to_bytes(),
                Err(error) => Bytes::from(format!("{:?}", error.violation())),
            };
            Ok(Response::new(Full::from(text)))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_waits_is_told_to_continue_once_its_body_is_wanted() {
    let head = b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 4\r\n\r\n";
    let (mut client, connection) = connect(WithoutFastPath(Echo), IDLE_TIME, 4096);
    tokio::spawn(connection);
    for _ in 0..2 {
        client.write_all(head).await.unwrap();
        let mut told = [0; 25];
        client.read_exact(&mut told).await.unwrap();
        assert_eq!(&told, b"HTTP/1.1 100 Continue\r\n\r\n");
        client.write_all(b"body").await.unwrap();
        let mut answer = Vec::new();
        while !answer.ends_with(b"body") {
            client.read_buf(&mut answer).await.unwrap();
        }
        assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
    }
    // Whose body nobody wants is told so in its place, and does not know whether to send it.
    let (mut client, connection) = connect(WithoutFastPath(Long::new(1)), IDLE_TIME, 4096);
    let serving = async {
        client.write_all(head).await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        String::from_utf8(answer).unwrap()
    };
    let service_lets_go = connection.service.0.clone();
    tokio::spawn(connection);
    let letting_go = async {
        sleep(SECOND).await;
        service_lets_go.1.lock().fill_with(|| None);
        std::future::pending::<()>().await
    };
    let answer = tokio::select! {
        answer = serving => answer,
        () = letting_go => unreachable!(),
    };
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.ends_with('x'), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_body_that_comes_too_slowly_or_malformed_is_an_error_to_its_service() {
    let head = "POST / HTTP/1.1\r\nhost: a\r\n";
    let (mut client, connection) = connect(WithoutFastPath(Echo), IDLE_TIME, 4096);
    let start = Instant::now();
    tokio::spawn(connection);
    client.write_all(format!("{head}content-length: 99\r\n\r\nx").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    let text = String::from_utf8_lossy(&answer);
    assert!(
        text.contains("connection: close\r\n") && text.ends_with("Some(BodyTooSlow)"),
        "{text}"
    );
    assert_eq!(start.elapsed().as_secs(), 60);

    let (mut client, connection) = connect(WithoutFastPath(Echo), IDLE_TIME, 4096);
    tokio::spawn(connection);
    let chunked = format!("{head}transfer-encoding: chunked\r\n\r\n2\r\nok\r\n+1\r\n");
    client.write_all(chunked.as_bytes()).await.unwrap();
    answer.clear();
    client.read_to_end(&mut answer).await.unwrap();
    assert!(answer.ends_with(b"Some(Chunk)"), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn a_slow_head_is_rejected_in_its_turn() {
    let (mut client, connection) = connect(WithoutFastPath(Long::new(1)), IDLE_TIME, 4096);
    let start = Instant::now();
    tokio::spawn(connection);
    client.write_all(&REQUEST[..10]).await.unwrap();
    let mut answer = Vec::new();
    client.read_to_end(&mut answer).await.unwrap();
    assert!(answer.starts_with(b"HTTP/1.1 408 Request Timeout\r\n"));
    assert_eq!(start.elapsed(), Duration::from_secs(10));
}

#[tokio::test(start_paused = true)]
async fn who_leaves_while_the_service_works_is_waited_for_no_longer() {
    let working = hyper::service::service_fn(|_: Request<ClientBody>| {
        std::future::pending::<Result<Response<Full<Bytes>>, Infallible>>()
    });
    let (mut client, connection) = connect(WithoutFastPath(working), IDLE_TIME, 4096);
    let serving = tokio::spawn(connection);
    client.write_all(REQUEST).await.unwrap();
    sleep(SECOND).await;
    assert!(!serving.is_finished());
    drop(client);
    assert_eq!(serving.await.unwrap(), Left::Over);
}

#[tokio::test]
async fn the_protocol_is_told_by_the_first_bytes() {
    for (bytes, protocol) in [
        (&b"GET"[..], Some(Protocol::Http1)),
        (b"PRI * HTTP/1.1\r\n", Some(Protocol::Http1)),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Some(Protocol::Http2)),
        (b"PRI * HTTP/2.0", None),
        (b"", None),
    ] {
        let (mut client, socket) = duplex(4096);
        client.write_all(bytes).await.unwrap();
        drop(client);
        let mut wire = Wire::new(socket, Limits::default());
        let told = poll_fn(|cx| wire.poll_protocol(cx)).await.unwrap();
        assert_eq!(told, protocol, "{bytes:?}");
    }
}
