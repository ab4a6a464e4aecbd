//! What the upstream and the client get to see of each other through the proxy.

use crate::support;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::support::{
    Recorder, axum, exchange, front, options, read_until, streaming_front, within,
};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get};
use http_body_util::Empty;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tamarisk_proxy::HostHeader;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// A service that answers with what it was asked.
fn mirror() -> Router {
    async fn show(method: Method, uri: Uri, headers: HeaderMap, body: String) -> Response {
        let mut shown = BTreeMap::new();
        for name in headers.keys() {
            let lines = headers.get_all(name).iter().map(|line| line.to_str().unwrap());
            shown.insert(name.to_string(), lines.collect::<Vec<_>>().join(" | "));
        }
        shown.insert(":method".into(), method.to_string());
        shown.insert(":uri".into(), uri.to_string());
        shown.insert(":body".into(), body);
        serde_json::to_string(&shown).unwrap().into_response()
    }
    Router::new().fallback(any(show))
}

type Shown = BTreeMap<String, String>;

fn parse(answer: &str) -> Shown {
    let body = answer.rsplit("\r\n\r\n").next().unwrap();
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {answer:?}"))
}

#[tokio::test]
async fn an_upstream_learns_who_asked_and_through_whom() {
    let front = front(axum(mirror()).await).await;
    let request = "GET /a?b=c HTTP/1.1\r\nHost: site.example:80\r\nX-Forwarded-For: 10.9.9.9\r\n\
        Forwarded: for=10.9.9.9\r\nX-Forwarded-Proto: https\r\nVia: 1.0 before\r\n\
        X-Real-IP: 127.0.0.1\r\nX-Forwarded-Port: 1\r\nX-Forwarded-User: root\r\n\
        Connection: close\r\n\r\n";
    let shown = parse(&exchange(front.local_addr(), request).await);
    for name in ["x-real-ip", "x-forwarded-port", "x-forwarded-user"] {
        assert!(!shown.contains_key(name), "{name} in {shown:?}");
    }
    let expected = [
        (":method", "GET"),
        (":uri", "/a?b=c"),
        ("host", "site.example:80"),
        ("x-forwarded-for", "127.0.0.1"),
        ("x-forwarded-host", "site.example:80"),
        ("x-forwarded-proto", "http"),
        ("forwarded", "for=127.0.0.1;host=\"site.example:80\";proto=http"),
    ];
    for (name, value) in expected {
        assert_eq!(shown[name], value, "{name}");
    }
    assert!(shown["via"].starts_with("1.0 before | 1.1 tamarisk-"), "{shown:?}");
    assert_eq!(shown["x-request-id"].len(), 32);
}

#[tokio::test]
async fn fields_of_one_connection_do_not_reach_the_other() {
    let front = front(axum(mirror()).await).await;
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close, X-Secret, Upgrade, HTTP2-Settings\r\n\
        X-Secret: 1\r\n\
        Keep-Alive: timeout=5\r\nProxy-Connection: keep-alive\r\nTE: trailers, deflate\r\n\
        Upgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\nX-Kept: 1\r\n\r\n";
    let shown = parse(&exchange(front.local_addr(), request).await);
    for name in ["x-secret", "keep-alive", "proxy-connection", "upgrade", "http2-settings"] {
        assert!(!shown.contains_key(name), "{name} in {shown:?}");
    }
    assert_eq!((&*shown["connection"], &*shown["te"]), ("te", "trailers"));
    assert_eq!(shown["x-kept"], "1");
}

#[tokio::test]
async fn an_answers_connection_fields_are_replaced_by_ours() {
    let upstream = Recorder::start(
        "\r\n\r\n",
        "HTTP/1.1 200 Fine\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=1\r\n\
         Date: Thu, 01 Jan 1970 00:00:00 GMT\r\nServer: theirs\r\nX-End: 1\r\nContent-Length: 2\r\n\r\nok",
    )
    .await;
    let front = front(upstream.address).await;
    let answer =
        exchange(front.local_addr(), "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            .await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let lines: Vec<_> = head.split("\r\n").collect();
    assert_eq!(lines[0], "HTTP/1.1 200 Fine");
    assert_eq!(body, "ok");
    for kept in [
        "date: Thu, 01 Jan 1970 00:00:00 GMT",
        "server: theirs",
        "x-end: 1",
        "content-length: 2",
        "via: 1.1 tamarisk",
        "connection: close",
    ] {
        assert!(lines.contains(&kept), "{kept} in {lines:?}");
    }
    assert!(!head.contains("x-hop") && !head.contains("keep-alive"), "{head}");
}

#[tokio::test]
async fn a_request_id_is_kept_if_it_can_be_logged() {
    let front = front(axum(mirror()).await).await;
    let ask = async |id: &str| {
        let request =
            format!("GET / HTTP/1.1\r\nHost: a\r\nX-Request-Id: {id}\r\nConnection: close\r\n\r\n");
        parse(&exchange(front.local_addr(), request).await)["x-request-id"].clone()
    };
    assert_eq!(ask("abc-123").await, "abc-123");
    assert_ne!(ask("abc 123").await, "abc 123");
    assert_ne!(ask("").await, "");
}

#[tokio::test]
async fn the_host_is_the_clients_or_the_one_configured() {
    let upstream = axum(mirror()).await;
    let own = upstream.to_string();
    for (rule, expected) in [
        (HostHeader::Client, "asked.example"),
        (HostHeader::Upstream, own.as_str()),
        (HostHeader::Fixed("fixed.example".parse().unwrap()), "fixed.example"),
    ] {
        let mut options = options(upstream);
        options.upstreams[0].host_header = rule;
        let front = tamarisk_protect::start(options).await.unwrap();
        for target in ["/x", "http://asked.example/x"] {
            let host = if target == "/x" { "asked.example" } else { "overruled.example" };
            let request =
                format!("GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            let shown = parse(&exchange(front.local_addr(), request).await);
            assert_eq!(shown["host"], expected, "{target}");
            assert_eq!(shown["x-forwarded-host"], "asked.example");
            assert_eq!(shown[":uri"], "/x");
        }
    }
}

#[tokio::test]
async fn an_absolute_target_is_passed_on_as_host_and_path() {
    let front = front(axum(mirror()).await).await;
    for (target, path) in [("http://b.example/x?y", "/x?y"), ("http://b.example?y", "/?y")] {
        let request =
            format!("GET {target} HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n");
        let shown = parse(&exchange(front.local_addr(), &request).await);
        assert_eq!((&*shown["host"], &*shown[":uri"]), ("b.example", path), "{target}");
    }
}

#[tokio::test]
async fn an_authority_of_http2_with_a_user_is_rejected() {
    let upstream = Recorder::ok().await;
    let front = front(upstream.address).await;
    let socket = TcpStream::connect(front.local_addr()).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(socket))
            .await
            .unwrap();
    tokio::spawn(connection);
    let request = http::Request::get("http://name:word@b.example/x").body(Empty::<Bytes>::new());
    let answer = within(sender.send_request(request.unwrap())).await.unwrap();
    assert_eq!(answer.status(), 400);
    assert_eq!(upstream.heard().await, "");
}

#[tokio::test]
async fn a_trusted_proxy_is_believed() {
    let mut options = options(axum(mirror()).await);
    options.trusted = vec!["127.0.0.0/8".parse().unwrap()];
    let front = tamarisk_protect::start(options).await.unwrap();
    let request = "GET / HTTP/1.1\r\nHost: a\r\nX-Forwarded-For: 192.0.2.1\r\n\
        X-Forwarded-Proto: https\r\nX-Real-IP: 192.0.2.1\r\nX-Forwarded-Port: 443\r\n\
        Connection: close\r\n\r\n";
    let shown = parse(&exchange(front.local_addr(), request).await);
    assert_eq!(shown["x-forwarded-for"], "192.0.2.1 | 127.0.0.1");
    assert_eq!((&*shown["x-real-ip"], &*shown["x-forwarded-port"]), ("192.0.2.1", "443"));
    assert_eq!(shown["x-forwarded-proto"], "https");
}

#[tokio::test]
async fn bodies_pass_in_both_framings_and_pipelined() {
    let front = front(axum(mirror()).await).await;
    let requests = "POST /1 HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\
        POST /2 HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
        3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n\
        GET /3 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let answer = exchange(front.local_addr(), requests).await;
    let bodies: Vec<_> = answer.split("HTTP/1.1 200 OK").skip(1).map(parse).collect();
    let seen = |index: usize| (bodies[index][":uri"].as_str(), bodies[index][":body"].as_str());
    assert_eq!([seen(0), seen(1), seen(2)], [("/1", "hello"), ("/2", "abcde"), ("/3", "")]);
    assert_eq!(bodies[0]["content-length"], "5");
    // It has been read to its end, so its length is known.
    assert_eq!(bodies[1]["content-length"], "5");
}

#[tokio::test]
async fn answers_without_a_body_keep_their_length() {
    let router = Router::new()
        .route("/page", get(|| async { "twelve bytes" }))
        .route("/same", get(|| async { StatusCode::NOT_MODIFIED }))
        .route("/none", get(|| async { StatusCode::NO_CONTENT }));
    let front = front(axum(router).await).await;
    let requests = "HEAD /page HTTP/1.1\r\nHost: a\r\n\r\nGET /same HTTP/1.1\r\nHost: a\r\n\r\n\
        GET /none HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let answer = exchange(front.local_addr(), requests).await;
    let heads: Vec<_> = answer.split_terminator("\r\n\r\n").collect();
    assert_eq!(heads.len(), 3, "{answer}");
    assert!(heads[0].starts_with("HTTP/1.1 200") && heads[0].contains("content-length: 12"));
    assert!(heads[1].starts_with("HTTP/1.1 304"));
    assert!(heads[2].starts_with("HTTP/1.1 204"));
}

#[tokio::test]
async fn an_old_client_gets_an_old_answer() {
    let upstream = Recorder::start(
        "\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n",
    )
    .await;
    let front = front(upstream.address).await;
    let answer = exchange(front.local_addr(), "GET / HTTP/1.0\r\n\r\n").await;
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.0 200"), "{head}");
    assert!(!head.contains("transfer-encoding"), "{head}");
    assert_eq!(body, "ok");
    assert!(upstream.heard().await.contains("via: 1.0 tamarisk"));
}

#[tokio::test]
async fn a_field_that_imitates_another_with_other_punctuation_does_not_pass() {
    let upstream = Recorder::ok().await;
    let front = front(upstream.address).await;
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nX_Forwarded_For: 9.9.9.9\r\n\
        X_Forwarded-Proto: https\r\nTransfer_Encoding: chunked\r\nContent_Length: 9\r\n\
        X_Request_Id: a\r\nX_Real_IP: 9.9.9.9\r\nX.Forwarded.For: 9.9.9.9\r\nX_Quality: 1\r\n\
        X.Overflow: 1\r\nx.trace: kept\r\napi_key: kept\r\n\r\n";
    exchange(front.local_addr(), request).await;
    let heard = upstream.heard().await;
    let underscored: Vec<_> = heard.lines().filter(|line| line.contains('_')).collect();
    assert_eq!(underscored, ["api_key: kept"], "{heard}");
    let names = heard.lines().filter_map(|line| line.split_once(": ")).map(|(name, _)| name);
    let dotted: Vec<_> = names.filter(|name| name.contains('.')).collect();
    assert_eq!(dotted, ["x.trace"], "{heard}");
}

#[tokio::test]
async fn a_client_sets_no_proxy_for_the_upstream() {
    let upstream = Recorder::ok().await;
    let front = front(upstream.address).await;
    let request = "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nProxy: http://9.9.9.9:1\r\n\
        X-Proxy: kept\r\n\r\n";
    exchange(front.local_addr(), request).await;
    let heard = upstream.heard().await;
    assert!(heard.contains("x-proxy: kept") && !heard.contains("9.9.9.9"), "{heard}");
}

#[tokio::test]
async fn a_path_that_leaves_its_route_is_rejected() {
    let upstream = Recorder::ok().await;
    let mut options = support::options(upstream.address);
    let mut shop = tamarisk_proxy::classify::Route::everything(0);
    shop.path = tamarisk_proxy::classify::PathPrefix::new("/shop");
    options.routes = tamarisk_proxy::classify::Routes::new(vec![shop]);
    let front = tamarisk_protect::start(options).await.unwrap();
    for (path, status) in [
        ("/shop/../admin", 400),
        ("/shop/%2e%2e/admin", 400),
        ("/shop/..%2fadmin", 400),
        ("/shop/..;/admin", 400),
        ("/shop/..\\admin", 400),
        ("/admin", 404),
        ("/shop/a..b", 200),
        ("//sh%6Fp/c", 200),
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let answer = exchange(front.local_addr(), request).await;
        assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{path}: {answer}");
    }
    assert!(!upstream.heard().await.contains("admin"));
}

#[tokio::test]
async fn a_path_that_others_read_as_one_of_another_route_or_class_is_rejected() {
    let upstream = Recorder::ok().await;
    let text = format!(
        "listen = \"127.0.0.1:0\"\ncores = 1\np90 = \"10s\"\nupstreams.app.url = \"http://{}\"\n\
         [classes.export]\nany = [{{ path = \"/shop/export\" }}]\n\
         [[routes]]\nname = \"search\"\npath = \"/search\"\n[[routes]]\nname = \"rest\"\n",
        upstream.address
    );
    let options = tamarisk_protect::config::parse("protect.toml", &text).unwrap();
    let front = tamarisk_protect::start(options).await.unwrap();
    for path in [
        "/search%2Fexport",
        "/search%2f",
        "/search%5Cx",
        "/search\\x",
        "/shop%2Fexport",
        "/shop\\export/x",
        "/shop/export%2fx",
        "/a%00",
        "/a..%00/b",
    ] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let answer = exchange(front.local_addr(), request).await;
        assert!(answer.starts_with("HTTP/1.1 400"), "{path}: {answer}");
    }
    assert_eq!(upstream.heard().await, "");
    for path in ["/api/v4/projects/a%2Fb", "/search/a%5Cb", "/shop/a\\b", "/search%252fx"] {
        let request = format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
        let answer = exchange(front.local_addr(), request).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
        assert!(upstream.heard().await.contains(&format!("GET {path} HTTP/1.1\r\n")), "{path}");
    }
}

#[tokio::test]
async fn trailers_pass_both_ways() {
    let upstream = Recorder::start(
        "content-md5: 5\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: X-Check\r\n\r\n\
         2\r\nok\r\n0\r\nX-Check: 2\r\n\r\n",
    )
    .await;
    let front = front(upstream.address).await;
    let request = "POST / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: close, TE\r\n\
        Transfer-Encoding: chunked\r\nTrailer: Content-MD5\r\n\r\n5\r\nhello\r\n0\r\n\
        X-Forwarded-For: 9.9.9.9\r\nForwarded: for=9.9.9.9\r\nVia: 1.1 a\r\nX-Request-Id: a\r\n\
        X-Quality: 1\r\nTE: trailers\r\nX-Other: a\r\nContent-MD5: 5\r\n\r\n";
    let answer = exchange(front.local_addr(), request).await;
    assert!(answer.ends_with("2\r\nok\r\n0\r\nx-check: 2\r\n\r\n"), "{answer}");
    let heard = upstream.heard().await;
    assert!(heard.ends_with("5\r\nhello\r\n0\r\ncontent-md5: 5\r\n\r\n"), "{heard}");
}

#[tokio::test]
async fn a_client_that_expects_100_continue_is_asked_when_the_upstream_asks() {
    let listener = TcpListener::bind(support::any_port()).await.unwrap();
    let front = streaming_front(listener.local_addr().unwrap()).await;
    let mut client = TcpStream::connect(front.local_addr()).await.unwrap();
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();

    let (mut upstream, _) = within(listener.accept()).await.unwrap();
    let heard = read_until(&mut upstream, "\r\n\r\n").await;
    assert!(heard.contains("expect: 100-continue"), "{heard}");
    upstream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await.unwrap();
    assert_eq!(read_until(&mut client, "\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
    client.write_all(b"hello").await.unwrap();
    assert_eq!(read_until(&mut upstream, "hello").await, "hello");
    upstream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await.unwrap();
    assert!(read_until(&mut client, "\r\n\r\n").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn a_client_that_expects_100_continue_may_be_rejected_without_its_body() {
    let upstream =
        Recorder::start("\r\n\r\n", "HTTP/1.1 417 Expectation Failed\r\nContent-Length: 0\r\n\r\n")
            .await;
    let front = streaming_front(upstream.address).await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    let mut client = TcpStream::connect(front.local_addr()).await.unwrap();
    client.write_all(head.as_bytes()).await.unwrap();
    assert!(read_until(&mut client, "\r\n\r\n").await.starts_with("HTTP/1.1 417"));
    assert!(upstream.heard().await.ends_with("\r\n\r\n"));
}

#[tokio::test]
async fn a_body_that_the_upstream_never_asks_for_is_sent_after_a_second() {
    let upstream =
        Recorder::start("\r\n\r\nhello", "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let front = streaming_front(upstream.address).await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n";
    let mut client = TcpStream::connect(front.local_addr()).await.unwrap();
    client.write_all(head.as_bytes()).await.unwrap();
    assert!(read_until(&mut client, "\r\n\r\n").await.starts_with("HTTP/1.1 100"));
    client.write_all(b"hello").await.unwrap();
    assert!(read_until(&mut client, "\r\n\r\n").await.starts_with("HTTP/1.1 200"));
}

#[tokio::test]
async fn answers_stream_as_they_come() {
    let (sender, receiver) = mpsc::channel::<Result<&'static str, std::convert::Infallible>>(1);
    let receiver = Arc::new(tokio::sync::Mutex::new(Some(receiver)));
    let router = Router::new().route(
        "/",
        get(async move || {
            let receiver = receiver.lock().await.take().unwrap();
            let parts = futures_util::stream::unfold(receiver, |mut receiver| async move {
                receiver.recv().await.map(|part| (part, receiver))
            });
            Body::from_stream(parts)
        }),
    );
    let front = front(axum(router).await).await;
    let mut client = TcpStream::connect(front.local_addr()).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    read_until(&mut client, "\r\n\r\n").await;
    for part in ["one", "two", "three"] {
        sender.send(Ok(part)).await.unwrap();
        assert!(read_until(&mut client, part).await.ends_with(part));
    }
    drop(sender);
    read_until(&mut client, "0\r\n\r\n").await;
    let accounts = front.gates()[0].observe().total();
    assert_eq!((accounts.completed, accounts.inside()), (1, 0));
}

#[tokio::test]
async fn methods_that_a_site_has_no_use_for_are_501() {
    let upstream = Recorder::ok().await;
    let front = front(upstream.address).await;
    for request in
        ["TRACE / HTTP/1.1\r\nHost: a\r\n", "CONNECT other.example:443 HTTP/1.1\r\nHost: a\r\n"]
    {
        let answer =
            exchange(front.local_addr(), format!("{request}Connection: close\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 501"), "{answer}");
    }
    assert_eq!(upstream.heard().await, "");
}
