//! How bodies are framed, and what is wrong with those of clients.

use futures_util::Stream;
use http::{HeaderMap, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;

use super::*;

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
