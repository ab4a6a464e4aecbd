//! A file that describes a site, served on real ports.

mod paths;
mod rejections;

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::symlink;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::support::{Answer, Folder, ask};
use tamarisk_haboob::{Running, config, start};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// What is described by the `site.toml` of a folder.
struct Web {
    folder: Folder,
    running: Running,
}

impl Web {
    async fn with(site: &str, files: &[(&str, &[u8])]) -> Self {
        let site = format!("listen = \"127.0.0.1:0\"\ncores = 2\n{site}");
        let files = files.iter().copied().chain([("site.toml", site.as_bytes())]);
        let folder = Folder::with(files);
        let options = match config::load(&folder.join("site.toml")) {
            Ok(options) => options,
            Err(mistake) => panic!("{mistake}: {mistake:?}"),
        };
        let running = start(options).await.unwrap();
        Self { folder, running }
    }

    async fn ask(&self, method: &str, host: &str, path: &str) -> Answer {
        ask(self.running.local_addr(), host, method, path, &[]).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask("GET", "test", path).await
    }
}

/// A service that says what it was asked for; `/missing` it does not have.
async fn service() -> SocketAddr {
    service_heard(&Heard::default()).await
}

/// The request lines that a service has got.
type Heard = Arc<Mutex<Vec<String>>>;

/// The same, which also keeps what it was asked for.
async fn service_heard(heard: &Heard) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (address, heard) = (listener.local_addr().unwrap(), Arc::clone(heard));
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            let heard = Arc::clone(&heard);
            tokio::spawn(async move {
                let mut head = Vec::new();
                while !head.ends_with(b"\r\n\r\n") {
                    head.push(stream.read_u8().await?);
                }
                let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
                let line = String::from_utf8_lossy(line).into_owned();
                heard.lock().unwrap().push(line.clone());
                let status = if line.contains("/missing") { "404 Not Found" } else { "200 OK" };
                let length = line.len();
                let head = format!("HTTP/1.1 {status}\r\ncontent-type: text/plain");
                let answer = format!(
                    "{head}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{line}"
                );
                stream.write_all(answer.as_bytes()).await
            });
        }
    });
    address
}

#[tokio::test]
async fn a_host_is_chosen_by_its_name() {
    let site = r#"
        [[host]]
        names = ["a.example", "*.a.example"]
        root = "a"
        [[host]]
        names = ["B.example"]
        root = "b"
    "#;
    let files: [(&str, &[u8]); 2] = [("a/index.html", b"a"), ("b/index.html", b"b")];
    let web = Web::with(site, &files).await;
    for (host, expected) in [
        ("a.example", "a"),
        ("A.EXAMPLE:8080", "a"),
        ("x.a.example", "a"),
        ("b.example", "b"),
        ("b.example.", "b"),
    ] {
        assert_eq!(web.ask("GET", host, "/").await.text(), expected, "{host}");
    }
    for host in ["x.y.a.example", "x.b.example", "example", "127.0.0.1"] {
        assert_eq!(web.ask("GET", host, "/").await.status, 421, "{host}");
    }
    // What the target says overrules the field [RFC9112 §3.2.2].
    assert_eq!(web.ask("GET", "a.example", "http://b.example/").await.text(), "b");

    let site = format!("{site}[[host]]\nroot = \"rest\"\n");
    let files = [files[0], files[1], ("rest/index.html", b"rest")];
    let web = Web::with(&site, &files).await;
    assert_eq!(web.ask("GET", "x.y.a.example", "/").await.text(), "rest");
    assert_eq!(web.ask("GET", "b.example", "/").await.text(), "b");
}

#[tokio::test]
async fn the_longest_route_takes_a_request() {
    let site = r#"
        [[host]]
        root = "public"
        cache_control = "no-cache"
        [[host.route]]
        path = "/docs"
        root = "docs"
        cache_control = "max-age=60"
        [[host.route]]
        path = "/docs/old"
        redirect = "/docs/"
        status = 301
        [[host.route]]
        path = "/elsewhere"
        redirect = "https://b.example/start?from=here"
    "#;
    let files: [(&str, &[u8]); 5] = [
        ("public/docs/a.txt", b"hidden by the route"),
        ("public/docsets.txt", b"sets"),
        ("docs/a.txt", b"docs"),
        ("docs/index.html", b"index"),
        ("docs/old/a.txt", b"hidden by the redirect"),
    ];
    let web = Web::with(site, &files).await;
    let sets = web.get("/docsets.txt").await;
    assert_eq!((sets.text(), sets.field("cache-control")), ("sets", "no-cache"));
    for path in ["/docs/a.txt", "//docs//a.txt", "/%64ocs/a.txt"] {
        let page = web.get(path).await;
        assert_eq!((page.text(), page.field("cache-control")), ("docs", "max-age=60"), "{path}");
    }
    let folder = web.get("/docs?a=b").await;
    assert_eq!((folder.status, folder.field("location")), (301, "/docs/?a=b"));
    assert_eq!(web.get("/docs/").await.text(), "index");
    assert_eq!(web.get("/docs/none").await.field("cache-control"), "");
    assert_eq!(web.get("/docs/../public/docsets.txt").await.status, 400);

    let old = web.get("/docs/old/x/y?z").await;
    assert_eq!((old.status, old.field("location")), (301, "/docs/x/y?z"));
    let elsewhere = web.ask("POST", "test", "/elsewhere/x?y").await;
    let expected = (302, "https://b.example/start?from=here");
    assert_eq!((elsewhere.status, elsewhere.field("location")), expected);
}

#[tokio::test]
async fn an_error_has_the_page_of_its_host() {
    let page = "<h1>Nothing here</h1>".repeat(100);
    let site = r#"
        [[host]]
        root = "public"
        [host.errors]
        404 = "errors/none.html"
        405 = "errors/none.html"
        503 = "errors/none.html"
    "#;
    let files: [(&str, &[u8]); 2] =
        [("public/errors/none.html", page.as_bytes()), ("public/a.txt", b"a")];
    let web = Web::with(site, &files).await;
    // The second time from memory, and a path that names nothing without the disk.
    for path in ["/none", "/none", "/.hidden"] {
        let none = web.get(path).await;
        assert_eq!((none.status, none.text()), (404, &*page), "{path}");
        assert_eq!(none.field("content-type"), "text/html; charset=utf-8");
        assert_eq!(none.field("content-length"), page.len().to_string());
        assert_eq!((none.field("etag"), none.field("accept-ranges")), ("", ""));
    }
    let head = web.ask("HEAD", "test", "/none").await;
    assert_eq!((head.status, head.body.len()), (404, 0));
    assert_eq!(head.field("content-length"), page.len().to_string());
    let short = [("accept-encoding", "gzip"), ("range", "bytes=0-1"), ("if-none-match", "*")];
    let short = ask(web.running.local_addr(), "test", "GET", "/none", &short).await;
    assert_eq!((short.status, short.field("content-encoding")), (404, "gzip"));
    let posted = web.ask("POST", "test", "/a.txt").await;
    assert_eq!((posted.status, posted.field("allow")), (405, "GET, HEAD, OPTIONS"));
    assert_eq!(posted.text(), page);
    assert_eq!(web.get("/errors/none.html").await.status, 200);

    web.running.site().close();
    let busy = web.get("/b.txt").await;
    assert_eq!((busy.status, busy.field("retry-after"), busy.text()), (503, "1", &*page));
}

#[tokio::test]
async fn a_folder_is_listed_where_that_is_wanted() {
    let site = r#"
        [[host]]
        root = "public"
        [[host.route]]
        path = "/files"
        root = "files"
        listing = true
        [[host.route]]
        path = "/all"
        root = "files"
        listing = true
        hidden = true
    "#;
    let files: [(&str, &[u8]); 7] = [
        ("public/sub/a.txt", b"a"),
        ("files/b.txt", &[b'b'; 2048]),
        ("files/A.txt", b"a"),
        ("files/<script>\"&'.txt", b"x"),
        ("files/.secret", b"s"),
        ("files/sub/index.html", b"index"),
        ("files/deep/er/c:d.txt", b"c"),
    ];
    let web = Web::with(site, &files).await;
    symlink(web.folder.join("files/b.txt"), web.folder.join("files/out.txt")).unwrap();
    symlink("b.txt", web.folder.join("files/in.txt")).unwrap();
    assert_eq!(web.get("/sub/").await.status, 404);

    let list = web.get("/files/").await;
    assert_eq!((list.status, list.field("content-type")), (200, "text/html; charset=utf-8"));
    let links: Vec<_> = list.text().split("href=\"").skip(1).collect();
    let links: Vec<_> = links.iter().map(|rest| rest.split('"').next().unwrap()).collect();
    let expected = ["deep/", "sub/", "%3Cscript%3E%22%26%27.txt", "A.txt", "b.txt", "in.txt"];
    assert_eq!(links, expected);
    assert!(list.text().contains("<h1>/files/</h1>"));
    assert!(list.text().contains("&lt;script&gt;&quot;&amp;&#39;.txt"));
    assert!(!list.text().contains("<script>"));
    assert!(list.text().contains("<td>2.0 KiB<td>"));

    assert_eq!(web.get("/files/sub/").await.text(), "index");
    assert_eq!(web.get("/files/deep").await.field("location"), "/files/deep/");
    let deep = web.get("/files/deep/er/").await;
    assert!(deep.text().contains("<h1>/files/deep/er/</h1>") && deep.text().contains("\"../\""));
    assert_eq!(web.get("/files/deep/er/c%3Ad.txt").await.text(), "c");
    assert!(web.get("/all/").await.text().contains(".secret"));
    assert_eq!(web.get("/all/.secret").await.text(), "s");

    // Another page, with another tag, as soon as something in the folder is another.
    let before = list.field("etag").to_owned();
    fs::write(web.folder.join("files/A.txt"), "b, and longer").unwrap();
    let until = tokio::time::Instant::now() + Duration::from_secs(20);
    let after = loop {
        let after = web.get("/files/").await;
        if after.text().contains("13 B") {
            break after;
        }
        assert!(tokio::time::Instant::now() < until, "it is still as it was");
        tokio::task::yield_now().await;
    };
    assert_ne!(after.field("etag"), before);
}

#[tokio::test]
async fn a_list_of_very_many_files_says_that_there_are_more() {
    let site = "[[host]]\nroot = \"public\"\nlisting = true\n";
    let web = Web::with(site, &[("public/sub/a.txt", b"a")]).await;
    for number in 0..10_050 {
        fs::File::create(web.folder.join(format!("public/sub/{number}"))).unwrap();
    }
    let list = web.get("/sub/").await;
    assert_eq!(list.text().matches("<tr><td><a href=\"").count(), 10_001);
    assert!(list.text().ends_with("<p>There is more: these are 10000 of its entries.\n"));
}

#[tokio::test]
async fn a_service_stands_beside_files_behind_a_stage_of_its_own() {
    let (service, nobody) = (service().await, TcpListener::bind("127.0.0.1:0").await.unwrap());
    let gone = nobody.local_addr().unwrap();
    drop(nobody);
    let site = format!(
        r#"
        p90 = "300ms"
        status = "127.0.0.1:0"
        [classes.paying]
        any = [{{ header = "x-plan" }}]
        p90 = "50ms"
        [[host]]
        names = ["a.example"]
        root = "public"
        errors = {{ 502 = "broken.html", 404 = "broken.html" }}
        [[host.route]]
        path = "/quick"
        root = "public"
        p90 = "20ms"
        [[host.route]]
        path = "/api"
        proxy = "http://{service}"
        [[host.route]]
        path = "/gone"
        name = "gone"
        proxy = "http://{gone}"
        p99 = "2s"
        classes = []
        "#
    );
    let files: [(&str, &[u8]); 2] = [("public/a.txt", b"a"), ("public/broken.html", b"broken")];
    let web = Web::with(&site, &files).await;
    let get = async |path: &str| web.ask("GET", "a.example", path).await;
    assert_eq!(get("/a.txt").await.text(), "a");
    assert_eq!(get("/quick/a.txt").await.text(), "a");
    // As the client has spelled it.
    assert_eq!(get("/api/a%20b?c=/d").await.text(), "GET /api/a%20b?c=/d HTTP/1.1");
    assert_eq!(get("/apis").await.text(), "broken");
    assert_eq!(get("/api/missing").await.text(), "GET /api/missing HTTP/1.1");
    let plan = [("x-plan", "gold"), ("content-length", "0")];
    let paying = ask(web.running.local_addr(), "a.example", "POST", "/api", &plan).await;
    assert_eq!(paying.text(), "POST /api HTTP/1.1");
    let broken = get("/gone/").await;
    assert_eq!((broken.status, broken.text()), (502, "broken"));
    let json = [("accept", "application/json")];
    let json = ask(web.running.local_addr(), "a.example", "GET", "/gone", &json).await;
    assert_eq!((json.status, json.field("content-type")), (502, "application/json"));

    let status = ask(web.running.status_addr().unwrap(), "localhost", "GET", "/targets", &[]).await;
    let expected = r#"{"a.example/api":{"default":{"p90":"0.3s"},"paying":{"p90":"0.05s"}},"gone":{"default":{"p99":"2s"}}}"#;
    assert_eq!(status.text().trim_end(), expected);
    let gates: Vec<_> = web.running.site().gates().map(|gate| gate.observe()).collect();
    let offered: Vec<_> = gates.iter().map(|gate| gate.total().offered).collect();
    assert_eq!(offered, [3, 2]);
    assert_eq!(gates[0].classes[1].accounts.offered, 1);
    let [files, _] = web.running.site().observe();
    let classes: Vec<_> = files.classes.iter().map(|class| (&*class.name, class.target)).collect();
    let millis = Duration::from_millis;
    assert_eq!(classes, [("default", millis(300)), ("a.example/quick", millis(20))]);
    assert_eq!(files.classes[1].accounts.offered, 1);
}

#[tokio::test]
async fn a_body_for_a_service_may_be_as_long_as_the_limits_say() {
    let service = service().await;
    let site = format!(
        r#"
        limits = {{ body = "3GiB" }}
        [[host]]
        [[host.route]]
        path = "/"
        proxy = "http://{service}"
        "#
    );
    let web = Web::with(&site, &[]).await;
    let mut client = TcpStream::connect(web.running.local_addr()).await.unwrap();
    let head = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 2147483648\r\nexpect: 100-continue";
    client.write_all(format!("{head}\r\n\r\n").as_bytes()).await.unwrap();
    let mut word = [0; 12];
    client.read_exact(&mut word).await.unwrap();
    assert_eq!(&word, b"HTTP/1.1 100");
}

#[tokio::test]
async fn each_request_is_written_down_once_it_is_answered() {
    let service = service().await;
    let site = |format| {
        format!(
            "[log]\nfile = \"access.log\"\nformat = \"{format}\"\n[[host]]\nroot = \"public\"\n\
             [[host.route]]\npath = \"/api\"\nproxy = \"http://{service}\"\n"
        )
    };
    let asked = async |web: &Web| {
        assert_eq!(web.get("/a.txt").await.status, 200);
        assert_eq!(web.ask("HEAD", "test", "/a.txt").await.status, 200);
        let fields = [("user-agent", "a\"b\\c"), ("referer", "x\ty"), ("range", "bytes=0-99")];
        let part = ask(web.running.local_addr(), "test", "GET", "/a.txt?q=%0a", &fields).await;
        assert_eq!(part.status, 206);
        assert_eq!(web.get("/api/x").await.status, 200);
        assert_eq!(web.get("/none").await.status, 404);
        for (sent, begin) in [("GET /a b HTTP/1.1\r\n\r\n", "HTTP/1.1 400 "), ("SSH-2.0-a\r\n", "")]
        {
            let mut client = TcpStream::connect(web.running.local_addr()).await.unwrap();
            client.write_all(sent.as_bytes()).await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            assert!(answer.starts_with(begin) && answer.is_empty() == begin.is_empty(), "{answer}");
        }
        web.running.site().log().unwrap().close(Duration::from_secs(20));
    };
    let long = [b'x'; 70_000];

    let web = Web::with(&site("combined"), &[("public/a.txt", &long)]).await;
    asked(&web).await;
    let log = fs::read_to_string(web.folder.join("access.log")).unwrap();
    let lines: Vec<_> = log.lines().map(|line| line.split_once("] ").unwrap()).collect();
    assert!(lines.iter().all(|(before, _)| before.starts_with("127.0.0.1 - - [")), "{log}");
    let (admitted, said): (Vec<_>, Vec<_>) = lines
        .iter()
        .map(|(_, said)| said.split_once(" route=").map_or((None, *said), |(a, b)| (Some(b), a)))
        .unzip();
    // The second and the third are answered from memory.
    let files = "default/ class=default stage=files outcome=completed reason=- id=";
    let proxied = "default/api class=default stage=default/api outcome=completed reason=- id=";
    let expected = [Some(files), None, None, Some(proxied), Some(files), None, None];
    for (admitted, expected) in admitted.iter().zip(expected) {
        assert_eq!(admitted.is_some(), expected.is_some(), "{log}");
        assert!(admitted.unwrap_or_default().starts_with(expected.unwrap_or_default()), "{log}");
        let has_times =
            |admitted: &str| !admitted.contains("queued=-") && !admitted.contains("upstream=-");
        assert!(admitted.is_none_or(has_times), "{log}");
    }
    let expected = [
        "\"GET /a.txt HTTP/1.1\" 200 70000 \"-\" \"-\"",
        "\"HEAD /a.txt HTTP/1.1\" 200 0 \"-\" \"-\"",
        "\"GET /a.txt?q=%0a HTTP/1.1\" 206 100 \"x\\x09y\" \"a\\\"b\\\\c\"",
        "\"GET /api/x HTTP/1.1\" 200 19 \"-\" \"-\"",
        "\"GET /none HTTP/1.1\" 404 15 \"-\" \"-\"",
        "\"-\" 400 28 \"-\" \"tamarisk: malformed request line\"",
        "\"-\" 400 0 \"-\" \"tamarisk: not HTTP\"",
    ];
    assert_eq!(said, expected);

    // As logrotate does it.
    fs::rename(web.folder.join("access.log"), web.folder.join("access.log.1")).unwrap();
    web.running.site().log().unwrap().reopen();
    asked(&web).await;
    let again = fs::read_to_string(web.folder.join("access.log")).unwrap();
    assert_eq!(again.lines().count(), 7);
    assert_eq!(fs::read_to_string(web.folder.join("access.log.1")).unwrap(), log);

    let web = Web::with(&site("json"), &[("public/a.txt", &long)]).await;
    asked(&web).await;
    let log = fs::read_to_string(web.folder.join("access.log")).unwrap();
    let lines: Vec<serde_json::Value> =
        log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let said = |line: &serde_json::Value| {
        (
            line["target"].as_str().unwrap().to_owned(),
            line["status"].as_u64(),
            line["bytes"].as_u64(),
        )
    };
    assert_eq!(said(&lines[0]), ("/a.txt".to_owned(), Some(200), Some(70_000)));
    assert_eq!(said(&lines[3]), ("/api/x".to_owned(), Some(200), Some(19)));
    assert_eq!(lines[2]["user_agent"], "a\"b\\c");
    assert_eq!(lines[2]["referer"], "x\ty");
    assert_eq!((&lines[0]["host"], &lines[0]["client"]), (&"test".into(), &"127.0.0.1".into()));
    assert!(lines[..5].iter().all(|line| line["duration_seconds"].as_f64().unwrap() >= 0.0));
    for (number, stage) in [(0, "files"), (3, "default/api"), (4, "files")] {
        let line = &lines[number];
        assert_eq!((&line["stage"], &line["outcome"]), (&stage.into(), &"completed".into()));
        let times = ["queued_seconds", "upstream_seconds"].map(|key| line[key].as_f64().unwrap());
        assert!(times.into_iter().all(|time| time >= 0.0), "{line}");
    }
    assert!(lines[1..3].iter().all(|line| line.get("stage").is_none()));
    assert_eq!(lines[5]["rejected"], "malformed request line");
    assert_eq!((&lines[5]["client"], &lines[5]["status"]), (&"127.0.0.1".into(), &400.into()));
}

#[tokio::test]
async fn a_request_that_is_rejected_behind_a_proxy_is_kept_with_its_client() {
    let site = "status = \"127.0.0.1:0\"\ntrusted_proxies = [\"127.0.0.1\"]\n\
        [[host]]\nroot = \"public\"\n";
    let web = Web::with(site, &[("public/a.txt", b"a")]).await;
    web.running.site().close();
    let fields = [("x-forwarded-for", "203.0.113.7")];
    let answer = ask(web.running.local_addr(), "test", "GET", "/a.txt", &fields).await;
    assert_eq!(answer.status, 503);
    let status = web.running.status_addr().unwrap();
    let latest = ask(status, "localhost", "GET", "/rejections", &[]).await;
    let latest: serde_json::Value = serde_json::from_str(latest.text()).unwrap();
    assert_eq!(latest["rejections"][0]["client"], "203.0.113.7");
}

#[tokio::test]
async fn a_request_that_is_rejected_is_written_down_too() {
    let site =
        "status = \"127.0.0.1:0\"\n[log]\nfile = \"access.log\"\n[[host]]\nroot = \"public\"\n";
    let web = Web::with(site, &[("public/a.txt", b"a")]).await;
    web.running.site().close();
    let address = web.running.local_addr();
    // What announces a body is answered by the service, and what does not at once.
    for (method, id, length) in
        [("GET", "one", None), ("HEAD", "two", None), ("GET", "three", Some("0"))]
    {
        let mut fields = vec![("x-request-id", id)];
        fields.extend(length.map(|length| ("content-length", length)));
        assert_eq!(ask(address, "test", method, "/a.txt", &fields).await.status, 503);
    }
    let status = web.running.status_addr().unwrap();
    let latest = ask(status, "localhost", "GET", "/rejections", &[]).await;
    let latest: serde_json::Value = serde_json::from_str(latest.text()).unwrap();
    let kept: Vec<_> = latest["rejections"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rejection| {
            let field = |name: &str| rejection[name].as_str().unwrap_or_default().to_owned();
            ["client", "stage", "route", "class", "reason", "id"].map(field).join(" ")
        })
        .collect();
    let expected =
        ["three", "two", "one"].map(|id| format!("127.0.0.1 files default/ default closed {id}"));
    assert_eq!(kept, expected);
    web.running.site().log().unwrap().close(Duration::from_secs(20));
    let log = fs::read_to_string(web.folder.join("access.log")).unwrap();
    let said: Vec<_> = log.lines().map(|line| line.split_once("] ").unwrap().1).collect();
    let expected = [("GET", "one"), ("HEAD", "two"), ("GET", "three")].map(|(method, id)| {
        let text = format!("503: shut down; try again in 1 s (closed, request {id})\n");
        let bytes = if method == "GET" { text.len() } else { 0 };
        format!(
            "\"{method} /a.txt HTTP/1.1\" 503 {bytes} \"-\" \"-\" route=default/ class=default stage=files \
             outcome=rejected reason=closed id={id} queued=- upstream=-"
        )
    });
    assert_eq!(said, expected);
}

#[tokio::test]
async fn a_client_that_leaves_before_its_answer_is_written_down_too() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let site = format!(
        "[log]\nfile = \"access.log\"\n[[host]]\n[[host.route]]\npath = \"/\"\nproxy = \"http://{}\"\n",
        silent.local_addr().unwrap()
    );
    let web = Web::with(&site, &[]).await;
    let mut client = TcpStream::connect(web.running.local_addr()).await.unwrap();
    client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    let _held = silent.accept().await.unwrap();
    drop(client);
    let log = web.folder.join("access.log");
    let until = tokio::time::Instant::now() + Duration::from_secs(20);
    while !fs::read_to_string(&log).unwrap().contains("\"GET / HTTP/1.1\" 499 0 ") {
        assert!(tokio::time::Instant::now() < until, "nothing is written");
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_browser_gets_errors_as_pages() {
    let web = Web::with("[[host]]\nroot = \"public\"\n", &[("public/a.txt", b"a")]).await;
    let browser = [("accept", "text/html,application/xhtml+xml;q=0.9,*/*;q=0.8")];
    let address = web.running.local_addr();
    let none = ask(address, "test", "GET", "/none", &browser).await;
    assert_eq!((none.status, none.field("content-type")), (404, "text/html; charset=utf-8"));
    assert!(none.text().contains("<h1>Page not found</h1>"), "{}", none.text());
    let head = ask(address, "test", "HEAD", "/none", &browser).await;
    assert_eq!((head.status, head.text()), (404, ""));
    assert_eq!(head.field("content-length"), none.text().len().to_string());
    // What the stage for files rejects is answered on the spot, and as a page too.
    web.running.site().close();
    let busy = ask(address, "test", "GET", "/a.txt", &browser).await;
    assert_eq!((busy.status, busy.field("retry-after")), (503, "1"));
    assert!(busy.text().contains("<h1>This site is busy</h1>"), "{}", busy.text());
    assert!(busy.text().contains("http-equiv=\"refresh\""), "{}", busy.text());
    let id = busy.field("x-request-id");
    assert!(id.len() == 32 && busy.text().contains(&format!("503 · closed · request {id}<")));
    let busy = ask(address, "test", "GET", "/a.txt", &[]).await;
    let (id, text) = (busy.field("x-request-id"), busy.text());
    assert_eq!(id.len(), 32);
    assert_eq!(text, format!("503: shut down; try again in 1 s (closed, request {id})\n"));
}
