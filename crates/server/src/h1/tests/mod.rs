mod bodies;
mod fast_path;

use std::convert::Infallible;
use std::future::poll_fn;

use http::Response;
use http_body_util::{BodyExt, Full};
use hyper::service::Service;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::time::{Instant, sleep, timeout};

use super::*;
use crate::guard::Limits;
use crate::prepared::WithoutFastPath;
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

#[tokio::test(start_paused = true)]
async fn who_sends_more_behind_its_last_request_is_listened_to_for_a_while() {
    let last = hyper::service::service_fn(|_: Request<ClientBody>| async {
        let mut response = Response::new(Full::from("x"));
        response.headers_mut().insert("connection", "close".parse().unwrap());
        Ok::<_, Infallible>(response)
    });
    let said = b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
    for (bytes, is_listened_to) in
        [(REQUEST.to_vec(), false), (REQUEST.repeat(2), true), (said.repeat(2), false)]
    {
        let (mut client, connection) = connect(WithoutFastPath(last), IDLE_TIME, 4096);
        let serving = tokio::spawn(connection);
        client.write_all(&bytes).await.unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).await.unwrap();
        assert!(answer.ends_with(b"x"));
        sleep(SECOND).await;
        assert_eq!(serving.is_finished(), !is_listened_to);
        drop(client);
        assert_eq!(serving.await.unwrap(), Left::Over);
    }
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
