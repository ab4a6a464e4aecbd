//! Requests for files that are rejected, and what the log says of those that are read.

use std::fs;
use std::time::Duration;

use futures_util::future::join_all;

use super::Web;
use crate::support::ask;

const SITE: &str = "[[host]]\nroot = \"public\"\n";

#[tokio::test]
async fn a_rejection_says_why_and_names_the_request_in_the_form_that_is_asked_for() {
    let web = Web::with(SITE, &[("public/a.txt", b"a")]).await;
    web.running.site().close();
    // What announces a body is answered by the service, and what does not at once.
    for length in [None, Some(("content-length", "0"))] {
        let rejected = async |accept: &str| {
            let mut fields = vec![("accept", accept), ("x-request-id", "7b-1")];
            fields.extend(length);
            let rejected = ask(web.running.local_addr(), "test", "GET", "/a.txt", &fields).await;
            assert_eq!((rejected.status, rejected.field("retry-after")), (503, "1"));
            assert_eq!(rejected.field("x-request-id"), "7b-1");
            rejected
        };
        let text = rejected("*/*").await;
        assert_eq!(text.field("content-type"), "text/plain; charset=utf-8");
        assert_eq!(text.text(), "503: shut down; try again in 1 s (closed, request 7b-1)\n");
        let page = rejected("text/html").await;
        assert_eq!(page.field("content-type"), "text/html; charset=utf-8");
        assert!(page.text().contains("503 · closed · request 7b-1"), "{}", page.text());
        let json = rejected("application/json").await;
        assert_eq!(json.field("content-type"), "application/json");
        let json: serde_json::Value = serde_json::from_str(json.text()).unwrap();
        let expected = serde_json::json!({
            "status": 503, "error": "closed", "message": "shut down; try again in 1 s",
            "request_id": "7b-1", "retry_after_seconds": 1
        });
        assert_eq!(json, expected);
    }
}

#[tokio::test]
async fn the_placeholders_of_an_error_page_are_filled_in() {
    let filled = "<p>{{status}} {{reason}} {{request_id}} {{retry_after}} {{other}}".repeat(50);
    let site = format!("{SITE}errors = {{ 404 = \"none.html\", 503 = \"busy.html\" }}\n");
    let files: [(&str, &[u8]); 3] = [
        ("public/none.html", b"{{status}} {{reason}} {{request_id}} {{retry_after}}"),
        ("public/busy.html", filled.as_bytes()),
        ("public/a.txt", b"a"),
    ];
    let web = Web::with(&site, &files).await;
    let none = web.get("/none").await;
    assert_eq!((none.status, none.text()), (404, "404 Not Found - -"));
    // As it is, where it is a page as others are.
    assert_eq!(web.get("/busy.html").await.text(), filled);
    web.running.site().close();
    let expected = "<p>503 closed 7b-1 1 {{other}}".repeat(50);
    let fields = [("accept-encoding", "gzip"), ("x-request-id", "7b-1")];
    for method in ["GET", "HEAD"] {
        let busy = ask(web.running.local_addr(), "test", method, "/a.txt", &fields).await;
        assert_eq!((busy.status, busy.field("x-request-id")), (503, "7b-1"));
        assert_eq!(busy.field("content-encoding"), "");
        assert_eq!(busy.field("content-length"), expected.len().to_string());
        assert_eq!(busy.text(), if method == "GET" { &*expected } else { "" });
    }
    // Whoever asks for JSON is told in JSON.
    let json = [("accept", "application/json")];
    let json = ask(web.running.local_addr(), "test", "GET", "/a.txt", &json).await;
    assert_eq!((json.status, json.field("content-type")), (503, "application/json"));
    assert!(json.text().contains(r#""error":"closed""#), "{}", json.text());
}

#[tokio::test]
async fn of_those_who_wait_for_one_file_the_log_names_the_one_it_is_read_for() {
    let site = format!("[log]\nfile = \"access.log\"\nformat = \"json\"\n{SITE}");
    let web = Web::with(&site, &[("public/a.txt", &[b'x'; 100_000])]).await;
    for answer in join_all((0..20).map(|_| web.get("/a.txt"))).await {
        assert_eq!(answer.body.len(), 100_000);
    }
    web.running.site().log().unwrap().close(Duration::from_secs(20));
    let log = fs::read_to_string(web.folder.join("access.log")).unwrap();
    let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let outcomes: Vec<_> = lines.map(|line| line.get("outcome").cloned()).collect();
    assert_eq!(outcomes.len(), 20);
    let (read, others): (Vec<_>, Vec<_>) =
        outcomes.into_iter().partition(|outcome| *outcome == Some("completed".into()));
    assert_eq!(read.len(), 1);
    // They have waited for the same reading, or had the page from memory.
    assert!(others.into_iter().flatten().all(|outcome| outcome.is_null()), "{log}");
}
