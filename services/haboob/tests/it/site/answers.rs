//! What is answered: files, folders, parts and other forms of a file, and paths that lead out.

use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use flate2::read::GzDecoder;
use tamarisk_control::Target;
use tamarisk_haboob::{Options, SiteOptions, start};

use super::Web;

#[tokio::test]
async fn a_file_is_answered_with_what_there_is_to_know_of_it() {
    let web = Web::new(&[("a b.html", b"<p>hello"), ("data.bin", &[0; 7]), ("none", b"")]).await;
    let page = web.get("/a%20b.html?query").await;
    assert_eq!((page.status, page.text()), (200, "<p>hello"));
    assert_eq!(page.field("content-type"), "text/html; charset=utf-8");
    assert_eq!(page.field("content-length"), "8");
    assert_eq!(page.field("accept-ranges"), "bytes");
    assert_eq!(page.field("x-content-type-options"), "nosniff");
    assert!(page.field("last-modified").ends_with("GMT"));
    assert!(page.field("etag").starts_with('"'));
    assert_eq!(web.get("/data.bin").await.field("content-type"), "application/octet-stream");
    let empty = web.get("/none").await;
    assert_eq!((empty.status, empty.body.len(), empty.field("content-length")), (200, 0, "0"));

    let head = web.ask("HEAD", "/a%20b.html", &[]).await;
    assert_eq!((head.status, head.body.len(), head.field("content-length")), (200, 0, "8"));
    let options = web.ask("OPTIONS", "/a%20b.html", &[]).await;
    assert_eq!((options.status, options.field("allow")), (204, "GET, HEAD, OPTIONS"));
    let posted = web.ask("POST", "/a%20b.html", &[("content-length", "0")]).await;
    assert_eq!((posted.status, posted.field("allow")), (405, "GET, HEAD, OPTIONS"));
    assert_eq!(web.get("/nothing").await.status, 404);
    assert_eq!(web.get("/data.bin/").await.status, 404);
}

#[tokio::test]
async fn a_folder_is_answered_with_its_index() {
    let web =
        Web::new(&[("index.html", b"root"), ("sub/index.html", b"sub"), ("bare/x", b"x")]).await;
    assert_eq!(web.get("/").await.text(), "root");
    assert_eq!(web.get("/sub/").await.text(), "sub");
    let moved = web.get("/sub?a=1").await;
    assert_eq!((moved.status, moved.field("location")), (301, "/sub/?a=1"));
    let moved = web.get("//sub").await;
    assert_eq!(moved.field("location"), "/sub/", "not another host");
    assert_eq!(web.get("/bare/").await.status, 404);
}

#[tokio::test]
async fn a_request_line_of_eight_thousand_octets_is_answered() {
    let site = Web::new(&[("a.txt", b"a")]).await;
    let left = 8000 - "GET /a.txt? HTTP/1.1".len();
    let answer = site.get(&format!("/a.txt?{}", "x".repeat(left))).await;
    assert_eq!((answer.status, answer.text()), (200, "a"));
    for name in ["x".repeat(8000 - "GET / HTTP/1.1".len()), "x/".repeat(3900), "%78".repeat(2600)] {
        assert_eq!(site.get(&format!("/{name}")).await.status, 404);
    }
}

#[tokio::test]
async fn nothing_outside_of_the_folder_is_served() {
    let web = Web::new(&[("in.txt", b"in"), (".env", b"secret"), (".git/config", b"secret")]).await;
    fs::write(web.folder.join("secret.txt"), "secret").unwrap();
    symlink(web.folder.join("secret.txt"), web.file("absolute.txt")).unwrap();
    symlink("../secret.txt", web.file("relative.txt")).unwrap();
    symlink("..", web.file("up")).unwrap();
    symlink("in.txt", web.file("inside.txt")).unwrap();
    symlink("loop", web.file("loop")).unwrap();
    symlink("/proc/self/root/etc/passwd", web.file("magic")).unwrap();
    for path in [
        "/absolute.txt",
        "/relative.txt",
        "/up/secret.txt",
        "/up/",
        "/loop",
        "/magic",
        "/.env",
        "/%2eenv",
        "/.git/config",
        "/../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/%2e%2e%2fsecret.txt",
        "/in.txt/../../secret.txt",
        "/in.txt%00.html",
        "/..%5csecret.txt",
        "/%c0%ae%c0%ae/secret.txt",
        "/....//secret.txt",
        "/;/../secret.txt",
    ] {
        let answer = web.get(path).await;
        assert!(matches!(answer.status, 400 | 404), "{path} is answered {}", answer.status);
        assert!(!answer.text().contains("secret\n") && answer.text() != "secret", "{path}");
    }
    assert_eq!(web.get("/inside.txt").await.text(), "in");
    // A pipe that nobody writes to must not hold a thread.
    let pipe = web.file("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    for _ in 0..20 {
        assert_eq!(web.get("/pipe").await.status, 404);
    }
    assert_eq!(web.get("/in.txt").await.text(), "in");
}

#[tokio::test]
async fn parts_of_a_file_are_the_same_from_memory_and_from_disk() {
    let bytes: Vec<u8> = (0..300_000_u32).map(|byte| (byte % 251) as u8).collect();
    for held in [0, 1 << 20] {
        let web = Web::with(&[("f.bin", &bytes)], |site| site.held_bytes_max = held).await;
        assert_eq!(web.get("/f.bin").await.body, bytes, "held up to {held}");
        let range = async |range: &str| web.ask("GET", "/f.bin", &[("range", range)]).await;

        let part = range("bytes=1000-200999").await;
        assert_eq!((part.status, part.field("content-range")), (206, "bytes 1000-200999/300000"));
        assert_eq!(part.field("content-length"), "200000");
        assert_eq!(part.body, bytes[1000..201_000]);

        let parts = range("bytes=0-1,299998-").await;
        let length = parts.field("content-length").to_owned();
        assert_eq!((parts.status, length), (206, parts.body.len().to_string()));
        let kind = parts.field("content-type").to_owned();
        let boundary = kind.strip_prefix("multipart/byteranges; boundary=").unwrap();
        let mut expected = Vec::new();
        for (field, bytes) in [("0-1", &bytes[..2]), ("299998-299999", &bytes[299_998..])] {
            expected.extend(format!("\r\n--{boundary}\r\n").bytes());
            expected.extend(b"content-type: application/octet-stream\r\n");
            expected.extend(format!("content-range: bytes {field}/300000\r\n\r\n").bytes());
            expected.extend(bytes);
        }
        expected.extend(format!("\r\n--{boundary}--\r\n").bytes());
        assert_eq!(parts.body, expected);

        let beyond = range("bytes=300000-").await;
        assert_eq!((beyond.status, beyond.field("content-range")), (416, "bytes */300000"));
        assert_eq!(web.ask("HEAD", "/f.bin", &[("range", "bytes=0-1")]).await.status, 200);
    }
}

#[tokio::test]
async fn who_has_a_file_already_is_not_sent_it_again() {
    let web = Web::new(&[("a.txt", b"hello")]).await;
    let first = web.get("/a.txt").await;
    let (tag, date) = (first.field("etag").to_owned(), first.field("last-modified").to_owned());
    let again = web.ask("GET", "/a.txt", &[("if-none-match", &tag)]).await;
    assert_eq!((again.status, again.body.len(), again.field("etag")), (304, 0, tag.as_str()));
    let again = web.ask("GET", "/a.txt", &[("if-modified-since", &date)]).await;
    assert_eq!((again.status, again.body.len()), (304, 0));
    let other = web.ask("GET", "/a.txt", &[("if-match", "\"other\"")]).await;
    assert_eq!(other.status, 412);
    let rest = [("range", "bytes=3-"), ("if-range", tag.as_str())];
    assert_eq!(web.ask("GET", "/a.txt", &rest).await.text(), "lo");
    let rest = [("range", "bytes=3-"), ("if-range", "\"other\"")];
    assert_eq!(web.ask("GET", "/a.txt", &rest).await.text(), "hello");
}

#[tokio::test]
async fn a_file_is_sent_in_the_best_form_that_a_client_reads() {
    let text = "all work and no play makes a dull boy. ".repeat(200);
    let files: [(&str, &[u8]); 5] = [
        ("a.css", text.as_bytes()),
        ("b.css", text.as_bytes()),
        ("b.css.br", b"brotli"),
        ("c.css", text.as_bytes()),
        ("c.css.br", b"old"),
    ];
    let web = Web::new(&files).await;
    let old = SystemTime::now() - Duration::from_secs(100);
    fs::File::options().write(true).open(web.file("c.css.br")).unwrap().set_modified(old).unwrap();
    let get = async |path: &str| web.ask("GET", path, &[("accept-encoding", "gzip, br")]).await;

    let plain = web.get("/a.css").await;
    assert_eq!((plain.text(), plain.field("vary")), (text.as_str(), "accept-encoding"));
    let short = get("/a.css").await;
    assert_eq!((short.field("content-encoding"), short.field("vary")), ("gzip", "accept-encoding"));
    assert_eq!(short.field("content-type"), "text/css; charset=utf-8");
    assert_ne!(short.field("etag"), plain.field("etag"));
    let mut read = String::new();
    GzDecoder::new(short.body.as_slice()).read_to_string(&mut read).unwrap();
    assert_eq!(read, text);

    let best = get("/b.css").await;
    assert_eq!((best.field("content-encoding"), best.text()), ("br", "brotli"));
    assert_eq!(get("/c.css").await.field("content-encoding"), "gzip", "not the old one");
}

#[tokio::test]
async fn a_site_whose_disk_takes_nothing_more_serves_what_it_has() {
    let web = Web::new(&[("a.txt", b"a"), ("b.txt", b"b")]).await;
    assert_eq!(web.get("/a.txt").await.text(), "a");
    web.running.site().close();
    assert_eq!(web.get("/a.txt").await.text(), "a");
    let rejected = web.get("/b.txt").await;
    assert_eq!((rejected.status, rejected.field("retry-after")), (503, "1"));
}

#[tokio::test]
async fn a_folder_that_is_none_is_rejected_with_its_name() {
    let target = Target::p90(Duration::from_secs(1)).unwrap();
    let site = SiteOptions::new("/nowhere/at/all", target);
    let error = start(Options::new("127.0.0.1:0".parse().unwrap(), site)).await.err().unwrap();
    assert_eq!(error.to_string(), "cannot serve the folder /nowhere/at/all");
}

#[tokio::test]
async fn curl_gets_the_same_over_both_protocols() {
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|byte| (byte % 253) as u8).collect();
    let web =
        Web::new(&[("large.bin", &bytes), ("a.js", "let a = 1;\n".repeat(500).as_bytes())]).await;
    let url = |path: &str| format!("http://{}{path}", web.running.local_addr());
    for protocol in ["--http1.1", "--http2-prior-knowledge"] {
        assert_eq!(curl(&web.folder, &[protocol, &url("/large.bin")]).await, bytes, "{protocol}");
        let part = curl(&web.folder, &[protocol, "-r", "5-2000004", &url("/large.bin")]).await;
        assert_eq!(part, bytes[5..2_000_005], "{protocol}");
        let script = curl(&web.folder, &[protocol, "--compressed", &url("/a.js")]).await;
        assert_eq!(script, "let a = 1;\n".repeat(500).as_bytes(), "{protocol}");
    }
}

async fn curl(folder: &Path, arguments: &[&str]) -> Vec<u8> {
    let output = tokio::process::Command::new("curl")
        .args(["--silent", "--show-error", "--fail", "--max-time", "30"])
        .args(arguments)
        .current_dir(folder)
        .output()
        .await
        .unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "curl {arguments:?}: {error}");
    output.stdout
}
