//! Answers of ours for people.

use crate::support::{Recorder, curl, options};
use http::StatusCode;
use tamarisk_http_gate::ErrorPages;

const BROWSER: &str = "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
/// Nothing can be answered in no time.
const REJECTED: &str = "X-Request-Timeout: 0";

#[tokio::test]
async fn a_browser_gets_a_page_which_the_operator_can_replace() {
    let mut options = options(Recorder::ok().await.address);
    options.error_pages = ErrorPages::default();
    let mut running = tamarisk_protect::start(options.clone()).await.unwrap();
    let url = format!("http://{}/", running.local_addr());
    let page = curl(&["-i", "-H", BROWSER, "-H", REJECTED, &url]).await;
    assert!(page.contains("content-type: text/html; charset=utf-8\r\n"), "{page}");
    assert!(page.contains("<h1>This site is busy</h1>"), "{page}");
    assert!(page.contains("http-equiv=\"refresh\" content=\"1\""), "{page}");
    assert!(page.contains("503 · predicted_late · request "), "{page}");
    // Who posts is not asked to post again.
    let page = curl(&["-d", "x", "-H", BROWSER, "-H", REJECTED, &url]).await;
    assert!(page.contains("This site is busy") && !page.contains("refresh"), "{page}");

    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "busy: {{reason}}, {{retry_after}} s\n").unwrap();
    let pages = ErrorPages::default();
    pages.read(StatusCode::SERVICE_UNAVAILABLE, file.path()).unwrap();
    options.error_pages = pages;
    assert_eq!(running.reload(&options).changed, ["the error pages"]);
    let page = curl(&["-H", BROWSER, "-H", REJECTED, &url]).await;
    assert_eq!(page, "busy: predicted_late, 1 s\n");
    let text = curl(&["-H", REJECTED, &url]).await;
    assert!(text.starts_with("503: too busy"), "{text}");
}
