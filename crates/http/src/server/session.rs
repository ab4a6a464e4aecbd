//! HTTP/1 on one connection, request after request.
//!
//! A request that the service has the answer to [at hand](super::at_hand) is answered here; for any
//! other the connection goes to hyper, and comes back when hyper has nothing to do with it.
//! hyper keeps 16 KiB of buffers for as long as it has a connection, and most connections have
//! nothing to say most of the time.

use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1::{Builder, Parts, UpgradeableConnection};
use hyper::service::HttpService;
use hyper_util::rt::TokioIo;
use tokio::io::AsyncRead;

use super::at_hand::{AtHand, Further};
use super::direct::{Direct, Next};
use crate::deadline::Deadline;
use crate::guard::{Guarded, Sideband};
use crate::outlet::Outlet;

/// hyper's buffer for each direction: a head and one read beside it. By default
/// it would gather 400 KiB for a client that reads slowly.
pub(super) const BUFFER_MAX: usize = 64 * 1024;

/// How long hyper holds an idle connection if it is to answer the next request too: longer than
/// most clients take to ask again, for whom it would have to be set up anew, and short
/// against how long browsers keep theirs.
const HELD_TIME: Duration = Duration::from_secs(1);

/// The requests of one connection, until it closes or stops speaking HTTP.
pub(super) struct Session<T, S>
where
    S: HttpService<Incoming>,
{
    state: State<T, S>,
    sideband: Arc<Sideband>,
    /// How long hyper holds what it does nothing with.
    held_time: Duration,
    idle_time: Duration,
    idle: Deadline,
}

enum State<T, S>
where
    S: HttpService<Incoming>,
{
    Direct(Direct<T, S>),
    Hyper(Box<Hyper<T, S>>),
    Over,
}

type Hyper<T, S> = UpgradeableConnection<TokioIo<Box<Guarded<T>>>, S>;

impl<T, S, B> Session<T, S>
where
    T: AsyncRead + Outlet + Send + 'static,
    S: HttpService<Incoming, ResBody = B> + AtHand + Unpin,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Speaks with the client of `stream`, which closes when there has been no request for
    /// `idle_time`, for which it has a `clock`.
    pub(super) fn new(
        stream: Box<Guarded<T>>,
        service: S,
        idle_time: Duration,
        mut clock: Deadline,
    ) -> Self {
        clock.stop();
        let sideband = stream.sideband();
        let state = State::Direct(Direct::new(stream, service));
        let held_time = Duration::ZERO;
        Self { state, sideband, held_time, idle_time, idle: clock }
    }

    /// Whether hyper, which has been polled, has had nothing to do for a while.
    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.sideband.is_idle() {
            self.idle.stop();
            return Poll::Pending;
        }
        if self.held_time.is_zero() {
            return Poll::Ready(());
        }
        self.idle.poll_over(self.held_time.min(self.idle_time), cx)
    }

    /// Closes after what is being answered.
    pub(super) fn graceful_shutdown(&mut self) {
        match &mut self.state {
            State::Hyper(connection) => Pin::new(connection.as_mut()).graceful_shutdown(),
            State::Direct(direct) => {
                if !direct.closes_later() {
                    self.state = State::Over;
                }
            }
            State::Over => {}
        }
    }
}

impl<T, S, B> State<T, S>
where
    T: AsyncRead + Outlet + Send + 'static,
    S: HttpService<Incoming, ResBody = B> + Unpin,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    /// Gives hyper the request that is there, and those that follow.
    fn hyper(Direct { stream, service, .. }: Direct<T, S>) -> Self {
        let mut builder = Builder::new();
        // How long a head may take is the guard's business, and the pause before it ours.
        builder.header_read_timeout(None).max_buf_size(BUFFER_MAX);
        let connection = builder.serve_connection(TokioIo::new(stream), service).with_upgrades();
        Self::Hyper(Box::new(connection))
    }

    /// Takes back what hyper does nothing with.
    fn direct(connection: Hyper<T, S>) -> Self {
        match connection.into_parts() {
            Some(Parts { io, read_buf, service, .. }) if read_buf.is_empty() => {
                Self::Direct(Direct::new(io.into_inner(), service))
            }
            // The protocol has changed; or hyper has left something unread, which must not be
            // taken for a request.
            Some(_) | None => Self::Over,
        }
    }
}

impl<T, S, B> Future for Session<T, S>
where
    T: AsyncRead + Outlet + Send + 'static,
    S: HttpService<Incoming, ResBody = B> + AtHand + Unpin,
    S::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    B: Body + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        loop {
            match &mut this.state {
                State::Direct(direct) => {
                    match ready!(direct.poll(&mut this.idle, this.idle_time, cx)) {
                        Next::Hyper(Further::Same) => this.held_time = HELD_TIME,
                        Next::Hyper(Further::AtHand) => this.held_time = Duration::ZERO,
                        Next::Hyper(Further::Unknown) => {}
                        Next::End => return Poll::Ready(()),
                    }
                }
                // Errors end it too; they are the client's business (gone, silent,
                // malformed), and the requests inside have had their own outcomes.
                State::Hyper(connection) => match Pin::new(connection.as_mut()).poll(cx) {
                    Poll::Ready(_) => return Poll::Ready(()),
                    Poll::Pending => {
                        ready!(this.poll_idle(cx));
                        this.idle.start(this.idle_time.saturating_sub(this.held_time));
                    }
                },
                State::Over => return Poll::Ready(()),
            }
            this.state = match mem::replace(&mut this.state, State::Over) {
                State::Direct(direct) => State::hyper(direct),
                State::Hyper(connection) => State::direct(*connection),
                State::Over => return Poll::Ready(()),
            };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::poll_fn;
    use std::io;
    use std::ops::Range;
    use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::{BodyExt, Full};
    use hyper::service::Service;
    use parking_lot::Mutex;
    use rustix::fs::{MemfdFlags, memfd_create};
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
    use tokio::time::{Instant, sleep, timeout};

    use super::super::at_hand::{Asked, Hand, Ordinary, Prepared, PreparedBody};
    use super::super::client_body::ClientBody;
    use super::super::departure::Debt;
    use super::super::pace::Pace;
    use super::super::screen::Screen;
    use super::super::sent_file::{Bringing, FileBody, SentFile};
    use super::super::tunnel::Slot;
    use super::*;
    use crate::guard::Limits;

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

    type Tested = Session<DuplexStream, Screen<Ordinary<Long>>>;

    fn session(service: Long, idle_time: Duration) -> (DuplexStream, Tested) {
        connect(Ordinary(service), idle_time, 4096)
    }

    fn connect<S>(
        service: S,
        idle_time: Duration,
        buffer: usize,
    ) -> (DuplexStream, Session<DuplexStream, Screen<S>>)
    where
        S: Service<Request<ClientBody>, Response = Response<Full<Bytes>>, Error = Infallible>
            + AtHand,
    {
        let (client, socket) = duplex(buffer);
        let stream = Box::new(Guarded::new(socket, Limits::default()));
        let (pace, debt) = (Pace::default(), Debt::default());
        let screen =
            Screen::new(service, stream.sideband(), Slot::default(), pace, Arc::default(), debt);
        (client, Session::new(stream, screen, idle_time, Deadline::default()))
    }

    async fn is_idle_after(session: &mut Tested, time: Duration) -> bool {
        let _ = timeout(time, &mut *session).await;
        matches!(session.state, State::Direct(_))
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
            () = session => panic!("closed"),
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
            () = &mut session => panic!("closed"),
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

    /// Has the answers at hand to requests whose target begins with `/now`: a body of so many
    /// bytes, all of them the last one of the target.
    #[derive(Clone)]
    struct Quick(usize, Long, Arc<Mutex<Vec<u64>>>);

    impl Quick {
        fn new(length: usize) -> Self {
            Self(length, Long::new(1), Arc::default())
        }

        fn session(&self, buffer: usize) -> (DuplexStream, Session<DuplexStream, Screen<Self>>) {
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

        fn bring(self: Arc<Self>, _: Range<u64>) -> Bringing {
            unreachable!("all of it is in memory")
        }

        fn unchanged(&self) -> io::Result<()> {
            Ok(())
        }
    }

    impl AtHand for Quick {
        fn at_hand<A>(&self, asked: &Asked<'_>, answer: impl FnOnce(Prepared<'_>) -> A) -> Hand<A> {
            let Some(kind) = asked.target().strip_prefix("/now") else { return Hand::Nothing };
            let body = Bytes::from(vec![*kind.as_bytes().last().unwrap(); self.0]);
            let written = Arc::clone(&self.2);
            Hand::Answer(answer(Prepared {
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
                        PreparedBody::File(FileBody::at_hand(file, self.0 as u64).unwrap())
                    }
                },
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
            client
                .write_all(&requests(&["/now1", "/later", "/now2", "/now3", "/l"]))
                .await
                .unwrap();
            client.write_all(&requests(&["/now4"])[..9]).await.unwrap();
            sleep(Duration::from_secs(2)).await;
            client.write_all(&requests(&["/now4"])[9..]).await.unwrap();
            sleep(Duration::from_secs(2)).await;
        }
        client.shutdown().await.unwrap();
        client.read_to_end(&mut answers).await.unwrap();
        speaking.await.unwrap();
        // What has come with a request for hyper is hyper's too.
        assert_eq!(last_bytes(&answers), "1xxxx41xxxx4");
        assert_eq!(quick.written(), [3; 4]);
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_no_proper_request_is_refused_behind_answers_at_hand() {
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
}
