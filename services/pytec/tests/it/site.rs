//! A site: its paths, the files beside pages, changes on disk, embedding.

use std::fs;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::time::Duration;

use crate::support::{Folder, STUCK, get, page, post, send, until};
use axum::body::Body;
use axum::http::Request;
use http_body_util::BodyExt;
use serde_json::json;
use tamarisk::axum::{Part, Service};
use tamarisk::{CallError, Entry};
use tamarisk_pytec::{PageRequest, Site, SiteError, SiteOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tower::ServiceExt;

#[tokio::test]
async fn paths_lead_to_pages_and_files() {
    let folder = Folder::with(&[
        ("index.pytec", "home"),
        ("sub/index.pytec", "sub"),
        ("sub/a b.pytec", "space"),
        ("style.css", "p {}"),
        ("plain/index.html", "<p>plain"),
    ]);
    let site = folder.open();
    assert_eq!(page(&site, "/").await, "home");
    assert_eq!(page(&site, "/sub/").await, "sub");
    assert_eq!(page(&site, "/sub/a%20b").await, "space");
    assert_eq!(page(&site, "/plain/").await, "<p>plain");
    let answer = get(&site, "/style.css").await;
    assert_eq!(answer.headers["content-type"], "text/css; charset=utf-8");
    let answer = get(&site, "/sub?x=1").await;
    assert_eq!(
        (answer.status.as_u16(), &answer.headers["location"]),
        (308, &"/sub/?x=1".parse().unwrap())
    );
    assert_eq!(get(&site, "/nothing").await.status, 404);
    assert_eq!(post(&site, "/style.css", "").await.status, 405);
    let request = Request::delete("/").body(Body::empty()).unwrap();
    assert_eq!(send(&site, request).await.headers["allow"], "GET, HEAD, POST");
}

#[tokio::test]
async fn sources_and_what_is_outside_are_never_sent() {
    let outside = Folder::with(&[("secret.txt", "SECRET"), ("secret.pyh", "SECRET")]);
    let folder = Folder::with(&[
        ("index.pytec", "home<%pytec x = 'SECRET' %>"),
        ("head.pyh", "SECRET"),
        ("lib/store.py", "SECRET = 1"),
        ("lib/data.txt", "SECRET"),
        ("tool.py", "SECRET"),
        ("pytec.toml", "# SECRET"),
        (".hidden", "SECRET"),
        (".git/config", "SECRET"),
        ("link.pytec", "<%include way.pyh %>"),
    ]);
    symlink(outside.0.join("secret.txt"), folder.0.join("file.txt")).unwrap();
    symlink(&outside.0, folder.0.join("folder")).unwrap();
    symlink(outside.0.join("secret.pyh"), folder.0.join("way.pyh")).unwrap();
    symlink(folder.0.join("index.pytec"), folder.0.join("alias.txt")).unwrap();
    let site = folder.open();
    let name = outside.0.file_name().unwrap().to_str().unwrap();
    for path in [
        "/index.pytec",
        "/index.PYTEC",
        "/head.pyh",
        "/lib/store.py",
        "/lib/data.txt",
        "/LIB/data.txt",
        "/tool.py",
        "/pytec.toml",
        "/.hidden",
        "/.git/config",
        "/file.txt",
        "/folder/secret.txt",
        "/alias.txt",
        "/link",
        "/%2e%2e/secret.txt",
        "/lib%2fdata.txt",
        "/%6cib/data.txt",
        "/./lib/data.txt",
        "//lib/data.txt",
        "/x/../lib/data.txt",
        "/index.pytec%00.txt",
        "/%ff",
        "/head.pyh/",
        "/index.pytec/.",
        &format!("/../{name}/secret.txt"),
        &format!("/%2e%2e%2f{name}%2fsecret.txt"),
        "/..%5csecret.txt",
    ] {
        let answer = get(&site, path).await;
        assert!([404, 500].contains(&answer.status.as_u16()), "{path}: {}", answer.status);
        assert!(!answer.text().contains("SECRET"), "{path}: {}", answer.text());
    }
    assert_eq!(page(&site, "/").await, "home");
}

#[tokio::test]
async fn of_the_files_beside_pages_only_those_meant_for_browsers_are_sent() {
    let secret = [
        "data.db",
        "Data.DB",
        "id_rsa",
        "config.ini",
        "users.csv",
        "dump.sql.gz",
        "page.html.db",
        "key.pem",
        "script.sh",
        "Makefile",
        "notes.txt~",
        "tool.py",
        "Tool.PY",
        "lib/data.json",
        "public/tool.py",
        "public/.env",
        "public/.git/config.json",
        "PUBLIC/data.db",
        "sub/public/data.db",
        "page.html ",
        "page.ht\u{ff4d}l",
    ];
    let sent =
        ["a.html", "A.CSS", "logo.Svg", "caf\u{e9} menu.txt", "public/data.db", "public/x/id_rsa"];
    let folder = Folder::with(&[("index.pytec", "home")]);
    secret.iter().for_each(|name| folder.write(name, "SECRET"));
    sent.iter().for_each(|name| folder.write(name, "sent"));
    let site = folder.open();
    let encoded = |name: &str| -> [String; 2] {
        let every = name.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/.-_~".contains(&byte);
        let needed = name.bytes().map(|byte| match plain(byte) {
            true => char::from(byte).to_string(),
            false => format!("%{byte:02X}"),
        });
        [format!("/{}", needed.collect::<String>()), format!("/{every}")]
    };
    for name in secret {
        let [plain, every] = encoded(name);
        for path in [format!("{plain}?x=.html"), format!("{plain}%00.html"), plain, every] {
            let answer = get(&site, &path).await;
            assert_eq!(answer.status, 404, "{path}: {}", answer.text());
            assert!(!answer.text().contains("SECRET"), "{path}");
        }
        for path in [format!("{}/.html", encoded(name)[0]), format!("{}/", encoded(name)[0])] {
            assert_eq!(get(&site, &path).await.status, 404, "{path}");
        }
    }
    for name in sent {
        for path in encoded(name) {
            assert_eq!(page(&site, &path).await, "sent", "{path}");
        }
    }
    let kind = |path: &'static str| {
        let site = site.clone();
        async move { get(&site, path).await.headers["content-type"].clone() }
    };
    assert_eq!(kind("/logo.Svg").await, "image/svg+xml");
    assert_eq!(kind("/public/data.db").await, "application/octet-stream");
}

#[tokio::test]
async fn pages_come_change_and_go_with_their_files() {
    let folder = Folder::with(&[
        ("a.pytec", "one<%include i.pyh %><%pytec import m; write(m.v) %>"),
        ("i.pyh", "1"),
        ("lib/m.py", "v = 1"),
    ]);
    let site = folder.open();
    assert_eq!(page(&site, "/a").await, "one11");
    folder.write("i.pyh", "22");
    site.refresh().await;
    assert_eq!(page(&site, "/a").await, "one221");
    folder.write("lib/m.py", "v = 333");
    site.refresh().await;
    assert_eq!(page(&site, "/a").await, "one22333");
    folder.write("a.pytec", "two");
    site.refresh().await;
    assert_eq!(page(&site, "/a").await, "two");

    // A new one is found when it is asked for first.
    folder.write("b.pytec", "new");
    assert_eq!(page(&site, "/b").await, "new");
    let names = || site.observe().into_iter().map(|stage| stage.name).collect::<Vec<_>>();
    assert_eq!(names(), ["files", "/a", "/b"]);

    fs::remove_file(folder.0.join("a.pytec")).unwrap();
    site.refresh().await;
    assert_eq!(get(&site, "/a").await.status, 404);
    assert_eq!(names(), ["files", "/b"]);

    // Without anybody's doing.
    folder.write("b.pytec", "by itself");
    until(|| async { page(&site, "/b").await == "by itself" }).await;
}

#[tokio::test]
async fn a_name_that_no_file_can_have_is_not_found() {
    let folder = Folder::with(&[("index.pytec", "")]);
    let _socket = UnixListener::bind(folder.0.join("socket")).unwrap();
    let site = folder.open();
    for path in [format!("/{}", "a".repeat(300)), "/socket".to_owned()] {
        assert_eq!(get(&site, &path).await.status, 404, "{path}");
    }
    // An answer may be here before it is counted.
    let files = || site.observe()[0].total();
    until(|| async { files().completed + files().failed == 2 }).await;
    assert_eq!((files().completed, files().failed), (2, 0));
}

/// Whoever reads slowly costs the memory of a piece, and who wants only the head none.
#[tokio::test]
async fn a_long_file_is_sent_in_pieces() {
    const PIECE_MAX: usize = 64 << 10;
    let text: Vec<u8> = (0..1_u32 << 20).flat_map(u32::to_be_bytes).collect();
    let folder = Folder::with(&[("short.txt", "short"), ("empty.txt", "")]);
    folder.write("long.txt", &text);
    let site = folder.open();
    for (path, expected) in [
        ("/short.txt", b"short".as_slice()),
        ("/empty.txt", b"".as_slice()),
        ("/long.txt", text.as_slice()),
    ] {
        let length = expected.len().to_string();
        let request = Request::get(path).body(Body::empty()).unwrap();
        let (head, mut body) = site.router().oneshot(request).await.unwrap().into_parts();
        assert_eq!(head.status, 200);
        assert_eq!(head.headers["content-length"], length);
        let mut received = Vec::new();
        while let Some(frame) = body.frame().await {
            let piece = frame.unwrap().into_data().unwrap();
            assert!(piece.len() <= PIECE_MAX, "{}", piece.len());
            received.extend_from_slice(&piece);
        }
        assert!(received == expected, "{path}");

        let answer = send(&site, Request::head(path).body(Body::empty()).unwrap()).await;
        assert_eq!(answer.headers["content-length"], length);
        assert_eq!((answer.status.as_u16(), answer.body.len()), (200, 0));
        assert_eq!(post(&site, path, "").await.headers["allow"], "GET, HEAD");
    }
}

#[tokio::test]
async fn a_folder_that_is_replaced_is_noticed() {
    let source = |name: &str| format!("{name} <%pytec import m, os; write(m.v, os.getcwd()) %>");
    let with = |name: &str| {
        let module = format!("v = '{name} '");
        Folder::with(&[("a.pytec", &source(name)), ("lib/m.py", &module), ("a.txt", name)])
    };
    let (one, two, three, aside) = (with("one"), with("two"), with("three"), Folder::with(&[]));
    let link = aside.0.join("link");
    symlink(&one.0, &link).unwrap();
    let site = Site::open(SiteOptions::new(&link)).unwrap();
    check_shown(&site, "one", &one.0).await;

    // Another folder at its path.
    fs::rename(&one.0, aside.0.join("one")).unwrap();
    fs::rename(&two.0, &one.0).unwrap();
    site.refresh().await;
    check_shown(&site, "two", &one.0).await;

    // A link that is turned.
    fs::remove_file(&link).unwrap();
    symlink(&three.0, &link).unwrap();
    site.refresh().await;
    check_shown(&site, "three", &three.0).await;

    // While there is none, pages stay as they are.
    fs::remove_file(&link).unwrap();
    site.refresh().await;
    check_shown(&site, "three", &three.0).await;
}

/// The page, its module and the file beside it are those of this name, and the process is in this
/// folder.
async fn check_shown(site: &Site, name: &str, folder: &Path) {
    let folder = folder.canonicalize().expect("the folder is there");
    assert_eq!(page(site, "/a").await, format!("{name} {name} {}", folder.display()));
    assert_eq!(page(site, "/a.txt").await, name);
}

#[tokio::test]
async fn modules_change_behind_links_and_in_folders_of_their_own() {
    let elsewhere = Folder::with(&[
        ("lib/one.py", "v = 1"),
        ("two.py", "v = 1"),
        ("package/__init__.py", ""),
        ("package/three.py", "v = 1"),
        ("more/four.py", "v = 1"),
    ]);
    let source = "<%pytec
        import one, two, four
        from package import three
        write(one.v, two.v, three.v, four.v)
    %>";
    let folder = Folder::with(&[("a.pytec", source)]);
    symlink(elsewhere.0.join("lib"), folder.0.join("lib")).unwrap();
    for (file, link) in [("two.py", "two.py"), ("package", "package"), ("lib", "itself")] {
        symlink(elsewhere.0.join(file), elsewhere.0.join("lib").join(link)).unwrap();
    }
    let mut options = folder.options();
    options.module_folders = vec![elsewhere.0.join("more"), elsewhere.0.join("none")];
    let site = Site::open(options).unwrap();
    assert_eq!(page(&site, "/a").await, "1111");
    for (module, expected) in [
        ("lib/one.py", "2111"),
        ("two.py", "2211"),
        ("package/three.py", "2221"),
        ("more/four.py", "2222"),
    ] {
        elsewhere.write(module, "v = 2");
        site.refresh().await;
        assert_eq!(page(&site, "/a").await, expected);
    }
}

/// What is inside of it ends first, and nothing else waits for that.
#[tokio::test]
async fn a_page_that_is_removed_holds_up_no_other_change() {
    let source = "<%pytec
        import os, time
        while not os.path.exists('go'): time.sleep(0.01)
    %>went on";
    let folder = Folder::with(&[("slow.pytec", source), ("a.pytec", "one")]);
    let mut options = folder.options();
    (options.p90, options.time_max) = (Duration::from_secs(60), Duration::from_secs(60));
    let site = Site::open(options).unwrap();
    let ask = |path: &'static str| {
        let site = site.clone();
        tokio::spawn(async move { page(&site, path).await })
    };
    assert_eq!(page(&site, "/a").await, "one");
    let asked = ask("/slow");
    let slow = site.page("/slow").unwrap();
    until(|| async { slow.observe().total().inside() > 0 }).await;
    fs::remove_file(folder.0.join("slow.pytec")).unwrap();
    let refreshing = {
        let site = site.clone();
        tokio::spawn(async move { site.refresh().await })
    };
    until(|| async { site.page("/slow").is_none() }).await;

    folder.write("b.pytec", "new");
    assert_eq!(page(&site, "/b").await, "new");
    folder.write("a.pytec", "two");
    until(|| async { page(&site, "/a").await == "two" }).await;
    assert!(!asked.is_finished() && !refreshing.is_finished());

    // A new one of its name waits.
    folder.write("slow.pytec", "again");
    let before = site.observe()[0].total().completed;
    let again = ask("/slow");
    until(|| async { site.observe()[0].total().completed > before }).await;
    assert!(!again.is_finished());
    folder.write("go", "");
    assert_eq!(asked.await.unwrap(), "went on");
    refreshing.await.unwrap();
    assert_eq!(again.await.unwrap(), "again");
}

#[tokio::test]
async fn the_sample_site_answers_whatever_number_it_is_asked_for() {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/examples/pytec");
    let site = Site::open(SiteOptions::new(sample)).unwrap();
    for (below, expected) in [("-5", "0 primes below 2"), ("2", "0 primes"), ("10", "4 primes")] {
        let shown = page(&site, &format!("/primes?below={below}")).await;
        assert!(shown.contains(expected), "{shown}");
    }
}

#[tokio::test]
async fn the_numbers_of_pages_and_processes_are_bounded() {
    let folder = Folder::with(&[("a.pytec", ""), ("b.pytec", "")]);
    let mut options = folder.options();
    options.pages_max = 1;
    let error = Site::open(options.clone()).err().unwrap();
    assert!(error.to_string().starts_with("more than 1 pages"), "{error}");
    options.processes = 0;
    let error = Site::open(options.clone()).err().unwrap();
    assert_eq!(error.to_string(), "`processes` is 0: it must be 1 to 1024");
    options.processes = 1;
    options.pages_max = 2;
    let site = Site::open(options).unwrap();
    folder.write("c.pytec", "");
    assert_eq!(get(&site, "/c").await.status, 404);
    assert_eq!(page(&site, "/b").await, "");
}

#[tokio::test]
async fn bodies_are_bounded() {
    let folder = Folder::with(&[("a.pytec", "<%= len(req.body) %>")]);
    let mut options = folder.options();
    options.request_bytes_max = 10;
    let site = Site::open(options).unwrap();
    assert_eq!(post(&site, "/a", "0123456789").await.text(), "10");
    assert_eq!(post(&site, "/a", "0123456789a").await.status, 413);
}

#[tokio::test]
async fn an_embedder_gives_values_and_modules_and_gets_the_answer() {
    let source =
        "<%pytec import digest %><%= digest.of(req.values['words']) %> <%= req.class_name %>";
    let folder = Folder::with(&[("a.pytec", source), ("b.pytec", "\n<%= 1/0 %>")]);
    let mut options =
        folder.options().module("digest", "def of(words):\n    return '+'.join(words)\n");
    options.classes = vec!["gold".to_owned(), "bronze".to_owned()];
    options.class_of = Some(std::sync::Arc::new(|head| {
        head.headers.get("x-plan").map(|plan| plan.to_str().unwrap_or_default().to_owned())
    }));
    let site = Site::open(options).unwrap();
    let request = || PageRequest::get("/a").values(json!({ "words": ["<", "b"] }));
    let rendered = site.page("/a").unwrap().render(Entry::new(), request()).await.unwrap();
    assert_eq!(rendered.body, "&lt;+b bronze");
    let error = site.page("/b").unwrap().render(Entry::new(), request()).await.unwrap_err();
    assert_eq!(error, CallError::Failed("b.pytec:2: ZeroDivisionError: division by zero".into()));

    folder.write("c.pytec", "<%= req.class_name %>");
    for (plan, class) in [("gold", "gold"), ("none", "bronze")] {
        let request = Request::get("/c").header("x-plan", plan).body(Body::empty()).unwrap();
        assert_eq!(send(&site, request).await.text(), class);
    }
}

#[tokio::test]
async fn the_file_of_a_site_is_checked() {
    let folder = Folder::with(&[("pytec.toml", "[all]\np9O = \"1s\"")]);
    let error = Site::open(folder.options()).err().unwrap().to_string();
    assert!(error.contains("pytec.toml") && error.contains("p9O"), "{error}");
}

/// Pages whose texts are in the program need no folder, and nothing else is found.
#[tokio::test]
async fn pages_of_the_program_are_a_site() {
    let files = [
        ("hello.pytec", "<%include head.pyh %><p><%= req.values[0] %><%= name() %>"),
        ("head.pyh", "<h1>Head</h1>\n<%pytec from named import name %>"),
        ("notes.txt", "not sent"),
    ];
    let options = SiteOptions::embedded(files).module("named", "def name(): return '<n>'");
    let site = Site::open(options).unwrap();
    let hello = site.page("/hello").unwrap();
    let request = PageRequest::get("/hello").values(json!(["<v>"]));
    let answer = hello.render(Entry::new(), request).await.unwrap();
    assert_eq!(answer.body, "<h1>Head</h1>\n<p>&lt;v&gt;&lt;n&gt;");
    for path in ["/", "/head", "/head.pyh", "/notes.txt", "/etc/passwd"] {
        assert_eq!(get(&site, path).await.status, 404, "{path}");
    }
    site.refresh().await;
    assert_eq!(site.pages().len(), 1);
    assert_eq!(site.observe().len(), 1, "a stage of files, of which there are none");
    let reports = site.drain(STUCK).await;
    assert!(reports.iter().all(|report| report.is_clean()), "{reports:?}");

    let outside = Site::open(SiteOptions::embedded([("../a.pytec", "")]));
    let Err(SiteError::Options(message)) = outside else { panic!("a name outside of the site") };
    assert_eq!(message, "\"../a.pytec\" cannot be a file's name in a site");
}

/// Over a socket, as a part of a service: with the client's address, and drained.
#[tokio::test]
async fn a_service_serves_and_drains_it() {
    let folder =
        Folder::with(&[("a.pytec", "<%pytec import time; time.sleep(0.3) %><%= req.client %>")]);
    let site = folder.open();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let service = Service::new().stage(&site);
    let serving = tokio::spawn(service.serve_until(listener, site.router(), async {
        let _ = stopped.await;
    }));
    let mut stream = tokio::net::TcpStream::connect(address).await.unwrap();
    stream.write_all(b"GET /a HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
    until(|| async { site.observe()[1].total().inside() > 0 }).await;
    stop.send(()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.ends_with("127.0.0.1"), "{answer}");
    let reports = tokio::time::timeout(STUCK, serving).await.unwrap().unwrap().unwrap();
    assert!(reports.iter().all(|report| report.is_clean()), "{reports:?}");
    let rejected = site.page("/a").unwrap().render(Entry::new(), PageRequest::get("/a")).await;
    assert!(rejected.unwrap_err().rejection().is_some());
}
