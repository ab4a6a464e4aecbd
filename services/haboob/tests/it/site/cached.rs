//! What is answered from memory, and when the disk is asked again.

use std::fs;
use std::time::Duration;

use http::HeaderValue;
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use tamarisk_haboob::Action;

use super::Web;

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
    let paths = [
        "/a%20b.html?query",
        "/text.css",
        "/data.bin",
        "/none",
        "/sub/",
        "//sub//.",
        "/missing",
        "/missing.html?query",
        "/missing/",
        "/none/",
        "/sub?query",
        "/.hidden",
        "/%2e%2e/x",
        "/a%zz",
    ];
    let kinds: [&[(&str, &str)]; 10] = [
        &[],
        &[("accept-encoding", "br"), ("Accept-Encoding", "gzip;q=0.5")],
        &[("accept-encoding", "gzip;q=0")],
        &[("if-none-match", "\"other\"")],
        &[("range", "bytes=2-4")],
        &[("range", "bytes=2-4,6-7")],
        &[("range", "bytes=999999999-")],
        &[("if-none-match", "*"), ("accept-encoding", "gzip")],
        &[("if-match", "\"other\""), ("accept", "text/html")],
        &[("If-Modified-Since", "Fri, 01 Jan 2100 00:00:00 GMT"), ("accept", "text/html")],
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

#[tokio::test]
async fn a_file_that_changed_long_ago_is_sent_as_it_is_now() {
    let web = Web::new(&[("a.txt", b"before"), ("b.txt", b"here"), ("c/index.html", b"old")]).await;
    let get_all = async || {
        let (a, b, c) = (web.get("/a.txt").await, web.get("/b.txt").await, web.get("/c/").await);
        (a.text().to_owned(), b.status, c.text().to_owned())
    };
    assert_eq!(get_all().await, ("before".to_owned(), 200, "old".to_owned()));
    fs::write(web.file("a.txt"), "after").unwrap();
    fs::remove_file(web.file("b.txt")).unwrap();
    fs::write(web.file("c/index.html"), "new").unwrap();
    // Compared with the disk after a second, and by who asks two seconds later before the answer.
    tokio::time::sleep(Duration::from_millis(3100)).await;
    assert_eq!(get_all().await, ("after".to_owned(), 404, "new".to_owned()));
    // One that has no time for it keeps what there is.
    fs::write(web.file("a.txt"), "later").unwrap();
    tokio::time::sleep(Duration::from_millis(3100)).await;
    web.running.site().close();
    assert_eq!(web.get("/a.txt").await.text(), "after");
}

#[tokio::test]
async fn a_prepared_rejection_is_like_all_others_and_counted_once() {
    let web = Web::new(&[("a.txt", b"a")]).await;
    web.running.site().close();
    // What announces a body, if only of no bytes, has no prepared response.
    let id = ("x-request-id", "7b-1");
    for method in ["GET", "HEAD"] {
        let prepared = web.ask(method, "/a.txt", &[id]).await;
        let in_full = web.ask(method, "/a.txt", &[id, ("content-length", "0")]).await;
        assert_eq!((prepared.status, in_full.status), (503, 503), "{method}");
        assert_eq!(prepared.field("x-request-id"), "7b-1", "{method}");
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
    // The last one may be counted just after its answer has arrived.
    let completed = async {
        while web.running.site().observe()[0].total().completed < 20 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), completed).await.unwrap();
    assert_eq!(web.running.site().observe()[0].total().offered, 20);
}

#[tokio::test]
async fn what_the_kernel_knows_to_be_missing_is_not_asked_of_the_disk() {
    let web = Web::new(&[("sub/a.txt", b"a")]).await;
    let paths = ["/none.txt", "/none", "/none/", "/sub/", "/sub/none.bin"];
    for path in paths {
        assert_eq!(web.get(path).await.status, 404, "{path}");
    }
    let read = web.files_read();
    let public = fs::File::open(web.file("")).unwrap();
    let is_known_to_be_missing = |name| {
        let flags = ResolveFlags::BENEATH | ResolveFlags::CACHED;
        openat2(&public, name, OFlags::RDONLY, Mode::empty(), flags).err() == Some(Errno::NOENT)
    };
    // Some file systems do not let the kernel keep that.
    if ["none.txt", "none", "sub/index.html", "sub/none.bin"]
        .into_iter()
        .all(is_known_to_be_missing)
    {
        for path in paths {
            assert_eq!(web.get(path).await.status, 404, "{path}");
        }
        assert_eq!(web.files_read(), read);
    }
    fs::write(web.file("none.txt"), "there").unwrap();
    assert_eq!(web.get("/none.txt").await.text(), "there");
}
