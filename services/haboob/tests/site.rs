//! A real site on a real port, asked with raw requests and with curl.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

mod support;

use std::fs::{self, File};
use std::io::{IoSliceMut, Read};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use flate2::read::GzDecoder;
use http::HeaderValue;
use rustix::fs::{Advice, fadvise};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use support::{Answer, Folder, ask};
use tamarisk_control::Target;
use tamarisk_haboob::{Action, Options, Running, SiteOptions, start};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A folder of its own for each test, and a server for its `public`.
struct Web {
    folder: Folder,
    running: Running,
}

impl Web {
    async fn new(files: &[(&str, &[u8])]) -> Self {
        Self::with(files, |_| {}).await
    }

    async fn with(files: &[(&str, &[u8])], change: impl FnOnce(&mut SiteOptions)) -> Self {
        let folder =
            Folder::with(files.iter().map(|(name, content)| (format!("public/{name}"), *content)));
        let target = Target::p90(Duration::from_secs(1)).unwrap();
        let mut site = SiteOptions::new(folder.join("public"), target);
        change(&mut site);
        let running = start(Options::new("127.0.0.1:0".parse().unwrap(), site)).await.unwrap();
        Self { folder, running }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.join("public").join(name)
    }

    async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[]).await
    }

    async fn ask(&self, method: &str, path: &str, fields: &[(&str, &str)]) -> Answer {
        ask(self.running.local_addr(), "test", method, path, fields).await
    }

    fn files_read(&self) -> u64 {
        self.running.site().observe()[0].total().offered
    }
}

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
async fn a_page_that_stays_the_same_is_not_asked_of_the_disk_again() {
    let web = Web::new(&[("a.txt", b"a"), ("a.txt.gz", b"not looked into")]).await;
    for _ in 0..2 {
        assert_eq!(web.get("/a.txt").await.text(), "a");
        // Longer than a page goes unchecked.
        tokio::time::sleep(Duration::from_millis(1100)).await;
    }
    assert_eq!(web.get("/a.txt").await.text(), "a");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(web.files_read(), 1);
}

#[tokio::test]
async fn what_is_prepared_is_answered_as_all_else_is() {
    let text = "a line of text\n".repeat(1000);
    let files: [(&str, &[u8]); 5] = [
        ("a b.html", b"<p>hello"),
        ("text.css", text.as_bytes()),
        ("data.bin", &[7; 300_000]),
        ("none", b""),
        ("sub/index.html", b"index"),
    ];
    let web = Web::with(&files, |site| {
        if let Action::Folder(folder) = &mut site.hosts[0].routes[0].action {
            folder.cache_control = Some(HeaderValue::from_static("max-age=60"));
        }
    })
    .await;
    let paths = ["/a%20b.html?query", "/text.css", "/data.bin", "/none", "/sub/", "//sub//."];
    let kinds: [&[(&str, &str)]; 5] = [
        &[],
        &[("accept-encoding", "br"), ("Accept-Encoding", "gzip;q=0.5")],
        &[("accept-encoding", "gzip;q=0")],
        &[("if-none-match", "\"other\"")],
        &[("range", "bytes=2-4")],
    ];
    // What announces a body, if only of no bytes, has no prepared response.
    let in_full = ("content-length", "0");
    for (path, fields) in paths.iter().flat_map(|path| kinds.map(|fields| (path, fields))) {
        for method in ["GET", "HEAD"] {
            web.ask(method, path, fields).await;
            let prepared = web.ask(method, path, fields).await;
            let in_full = web.ask(method, path, &[fields, &[in_full]].concat()).await;
            let what = format!("{method} {path} {fields:?}");
            assert_eq!(prepared.status, in_full.status, "{what}");
            assert_eq!(prepared.fields(), in_full.fields(), "{what}");
            assert_eq!(prepared.body, in_full.body, "{what}");
            assert!(prepared.field("date").ends_with(" GMT"), "{what}");
        }
    }
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
async fn one_reading_serves_all_who_wait_and_the_next_needs_none() {
    let web = Web::new(&[("a.txt", &[b'x'; 100_000])]).await;
    let asking = (0..50).map(|_| web.get("/a.txt"));
    for answer in futures_util::future::join_all(asking).await {
        assert_eq!(answer.body.len(), 100_000);
    }
    assert_eq!(web.get("/a.txt").await.status, 200);
    assert_eq!(web.files_read(), 1);
}

#[tokio::test]
async fn a_file_that_changes_is_noticed() {
    let web = Web::new(&[("a.txt", b"before"), ("b.txt", b"here")]).await;
    assert_eq!(web.get("/a.txt").await.text(), "before");
    assert_eq!(web.get("/b.txt").await.text(), "here");
    fs::write(web.file("a.txt"), "after").unwrap();
    fs::remove_file(web.file("b.txt")).unwrap();
    // Compared with the disk by the first request of each second.
    let until = tokio::time::Instant::now() + Duration::from_secs(40);
    while web.get("/a.txt").await.text() != "after" || web.get("/b.txt").await.status != 404 {
        assert!(tokio::time::Instant::now() < until, "it is still as it was");
        tokio::task::yield_now().await;
    }
    // A form that is new.
    fs::write(web.file("a.txt.gz"), "gzip").unwrap();
    while web.ask("GET", "/a.txt", &[("accept-encoding", "gzip")]).await.text() != "gzip" {
        assert!(tokio::time::Instant::now() < until, "it is not found");
        tokio::task::yield_now().await;
    }
}

/// Whether long pages there are sent from their files.
fn tells_what_is_in_memory(file: &File) -> bool {
    let mut byte = [0];
    let byte = &mut [IoSliceMut::new(&mut byte)];
    let tells = preadv2(file, byte, 0, ReadWriteFlags::NOWAIT) != Err(Errno::OPNOTSUPP);
    if !tells {
        eprintln!("skipped: this file system does not tell what is in memory");
    }
    tells
}

/// Has the system forget what it has in memory of a file from `at` on, as soon as it can: what is
/// on its way to a client it needs.
async fn forget(path: &Path, at: u64) {
    let file = File::open(path).unwrap();
    // Whoever asks by reading has it read ahead.
    let in_memory = || -> u64 {
        let mut fincore = Command::new("fincore");
        let told = fincore.args(["--bytes", "--noheadings", "--output", "RES"]).arg(path).output();
        String::from_utf8(told.unwrap().stdout).unwrap().trim().parse().unwrap()
    };
    let until = tokio::time::Instant::now() + Duration::from_secs(20);
    while in_memory() > at {
        assert!(tokio::time::Instant::now() < until, "it is in memory still");
        fadvise(&file, at, None, Advice::DontNeed).unwrap();
        tokio::task::yield_now().await;
    }
}

/// What is sent from a file is not what the head speaks of once somebody has written to it.
#[tokio::test]
async fn a_long_page_that_is_written_to_is_never_sent_as_what_it_was() {
    let web = Web::new(&[("a.bin", &[b'a'; 100_000]), ("b.bin", &[b'b'; 32 << 20])]).await;
    if !tells_what_is_in_memory(&File::open(web.file("a.bin")).unwrap()) {
        return;
    }
    for letter in *b"acdc" {
        fs::write(web.file("a.bin"), vec![letter; 70_000 + usize::from(letter)]).unwrap();
        for _ in 0..3 {
            let page = web.get("/a.bin").await;
            assert_eq!(page.body.len(), 70_000 + usize::from(letter));
            assert!(page.body.iter().all(|byte| *byte == letter));
        }
    }
    // Nor is it sent on, prepared or not.
    for field in ["", "content-length: 0\r\n"] {
        web.ask("HEAD", "/b.bin", &[]).await;
        let mut stream = TcpStream::connect(web.running.local_addr()).await.unwrap();
        let request = format!("GET /b.bin HTTP/1.1\r\nhost: test\r\n{field}\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut read = vec![0; 100_000];
        stream.read_exact(&mut read).await.unwrap();
        assert!(read.starts_with(b"HTTP/1.1 200 OK") && read.ends_with(b"bbb"));
        fs::write(web.file("b.bin"), vec![b'b'; 32 << 20]).unwrap();
        let _ = stream.read_to_end(&mut read).await;
        assert!(read.len() < 32 << 20, "{field:?}: all {} bytes of it", read.len());
    }
}

#[tokio::test]
async fn a_long_page_that_is_replaced_is_another_one_at_once() {
    let web = Web::new(&[("a.bin", &[b'a'; 32 << 20])]).await;
    if !tells_what_is_in_memory(&File::open(web.file("a.bin")).unwrap()) {
        return;
    }
    web.ask("HEAD", "/a.bin", &[]).await;
    let mut stream = TcpStream::connect(web.running.local_addr()).await.unwrap();
    let request = b"GET /a.bin HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    let mut read = vec![0; 100_000];
    stream.read_exact(&mut read).await.unwrap();
    fs::write(web.file("b.bin"), [b'b'; 100_000]).unwrap();
    fs::rename(web.file("b.bin"), web.file("a.bin")).unwrap();
    assert_eq!(web.get("/a.bin").await.body, [b'b'; 100_000]);
    // Who is being sent it gets what its head speaks of.
    stream.read_to_end(&mut read).await.unwrap();
    assert!(read.len() > 32 << 20 && read.ends_with(&[b'a'; 1000]), "{} bytes", read.len());
    fs::remove_file(web.file("a.bin")).unwrap();
    assert_eq!(web.get("/a.bin").await.status, 404);
}

#[tokio::test]
async fn what_the_system_has_forgotten_of_a_long_page_is_read_by_the_stages() {
    const MIB: u64 = 1 << 20;
    let bytes: Vec<u8> = (0..6 * MIB).map(|byte| (byte % 251) as u8).collect();
    let web = Web::new(&[("a.bin", &bytes), ("b.bin", &bytes[..700_000])]).await;
    for name in ["a.bin", "b.bin"] {
        let file = File::open(web.file(name)).unwrap();
        file.sync_all().unwrap();
        if !tells_what_is_in_memory(&file) {
            return;
        }
    }
    let files_read = || web.files_read();
    let parts_read = || web.running.site().observe()[1].total().offered;
    // At hand, and not.
    for fields in [&[][..], &[("content-length", "0")]] {
        let get = async |path: &str| {
            let page = web.ask("GET", path, fields).await;
            assert!(page.body == if path == "/a.bin" { &bytes } else { &bytes[..700_000] });
        };
        // Who looks whether something is in memory has it read ahead, which may be over before
        // the next one looks.
        let read_by_a_stage = async |from: u64, path: &str, read: &dyn Fn() -> u64| {
            for _ in 0..100 {
                let before = (files_read(), parts_read());
                get(path).await;
                get(path).await;
                assert_eq!((files_read(), parts_read()), before, "it is in memory");
                forget(&web.file(path.trim_start_matches('/')), from).await;
                let before = read();
                get(path).await;
                if read() > before {
                    return true;
                }
            }
            false
        };
        get("/a.bin").await;
        get("/b.bin").await;
        // What is longer than is sent at once, from the middle on. The system forgets large
        // parts, at even places.
        assert!(read_by_a_stage(4 * MIB, "/a.bin", &parts_read).await);
        assert!(read_by_a_stage(0, "/a.bin", &files_read).await);
        assert!(read_by_a_stage(0, "/b.bin", &files_read).await);
    }
}

#[tokio::test]
async fn what_there_is_no_room_for_is_not_asked_of_the_stage_while_the_system_has_it() {
    let pages: Vec<_> =
        (0..40_u8).map(|page| (format!("{page}.bin"), vec![page; 30_000])).collect();
    let mut files: Vec<_> = pages.iter().map(|(name, page)| (&**name, &**page)).collect();
    let text = vec![b'a'; 2_000];
    files.extend([("0.bin.gz", &b"short"[..]), ("a.txt", &text)]);
    let web = Web::with(&files, |options| options.cache_bytes = 200_000).await;
    if !tells_what_is_in_memory(&File::open(web.file("0.bin")).unwrap()) {
        return;
    }
    let get_all = async || {
        for (name, page) in &pages {
            assert_eq!(web.get(&format!("/{name}")).await.body, *page);
        }
    };
    // That there are no other forms the system does not know yet.
    get_all().await;
    assert_eq!(web.files_read(), 40);
    get_all().await;
    assert_eq!(web.ask("GET", "/39.bin", &[("range", "bytes=0-9")]).await.status, 206);
    let form = web.ask("GET", "/0.bin", &[("accept-encoding", "gzip")]).await;
    assert_eq!((form.field("content-encoding"), form.text()), ("gzip", "short"));
    assert_eq!(web.files_read(), 40);
    // To compress is work.
    for read in 1..=2 {
        assert_eq!(web.get("/a.txt").await.body, text);
        assert_eq!(web.files_read(), 40 + read);
        get_all().await;
    }
    fs::write(web.file("7.bin"), "another").unwrap();
    fs::remove_file(web.file("8.bin")).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", web.file("8.bin")).unwrap();
    assert_eq!(web.get("/7.bin").await.text(), "another");
    assert_eq!(web.get("/8.bin").await.status, 404);
    // Nor does a core wait for what it has forgotten, which whoever looks has it read ahead.
    let file = File::open(web.file("20.bin")).unwrap();
    file.sync_all().unwrap();
    let before = web.files_read();
    for _ in 0..100 {
        forget(&web.file("20.bin"), 0).await;
        for (name, page) in &pages[20..] {
            assert_eq!(web.get(&format!("/{name}")).await.body, *page);
        }
        if web.files_read() > before {
            return;
        }
    }
    panic!("it was never read by the stage");
}

#[tokio::test]
async fn an_empty_form_of_a_long_page_is_sent_as_such() {
    let web = Web::new(&[("a.bin", &[b'a'; 100_000]), ("a.bin.gz", b"")]).await;
    for _ in 0..2 {
        let form = web.ask("GET", "/a.bin", &[("accept-encoding", "gzip")]).await;
        assert_eq!((form.status, form.field("content-length")), (200, "0"));
        assert_eq!(form.field("content-encoding"), "gzip");
        assert_eq!(web.get("/a.bin").await.body.len(), 100_000);
    }
    assert_eq!(web.files_read(), 1);
}

#[tokio::test]
async fn more_long_pages_than_may_stay_open_are_served() {
    let names: Vec<_> = (0..600).map(|number| format!("{number}.bin")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), &[7; 66_000][..])).collect();
    let web = Web::new(&files).await;
    for name in names.iter().chain(&names) {
        let page = web.get(&format!("/{name}")).await;
        assert_eq!((page.status, page.body.len()), (200, 66_000));
    }
    let descriptors = fs::read_dir("/proc/self/fd").unwrap();
    let files = descriptors.filter_map(|entry| fs::read_link(entry.unwrap().path()).ok());
    let open = files.filter(|file| file.starts_with(&*web.folder) && file.is_file()).count();
    assert!(open <= 512, "{open} are open");
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
async fn a_prepared_rejection_is_like_all_others_and_counted_once() {
    let web = Web::new(&[("a.txt", b"a")]).await;
    web.running.site().close();
    // What announces a body, if only of no bytes, has no prepared response.
    for method in ["GET", "HEAD"] {
        let prepared = web.ask(method, "/a.txt", &[]).await;
        let in_full = web.ask(method, "/a.txt", &[("content-length", "0")]).await;
        assert_eq!((prepared.status, in_full.status), (503, 503), "{method}");
        assert_eq!(prepared.fields(), in_full.fields(), "{method}");
        assert_eq!(prepared.body, in_full.body, "{method}");
    }
    let files = web.running.site().observe()[0].total();
    assert_eq!((files.offered, files.rejected), (4, 4));
}

#[tokio::test]
async fn a_page_that_is_asked_for_at_hand_is_asked_for_once() {
    let names: Vec<_> = (0..20).map(|number| format!("{number}.txt")).collect();
    let files: Vec<_> = names.iter().map(|name| (name.as_str(), name.as_bytes())).collect();
    let web = Web::new(&files).await;
    for name in &names {
        assert_eq!(web.get(&format!("/{name}")).await.text(), name);
    }
    // One that is not there stays so.
    for _ in 0..2 {
        assert_eq!(web.get("/none.txt").await.status, 404);
    }
    let files = web.running.site().observe()[0].total();
    assert_eq!((files.offered, files.completed), (22, 22));
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
