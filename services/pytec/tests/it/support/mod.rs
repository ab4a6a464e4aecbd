//! Sites in folders of their own, and requests to them.

#![allow(dead_code, unreachable_pub, reason = "no file of tests needs all of it")]

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use http_body_util::BodyExt;
use tamarisk_pytec::{Site, SiteOptions};
use tower::ServiceExt;

/// What takes longer than this comes to no end.
pub const STUCK: Duration = Duration::from_secs(30);

/// A folder that is removed with it.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn with(files: &[(&str, &str)]) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("pytec-{}-{number}", std::process::id());
        let folder = Self(Path::new(env!("CARGO_TARGET_TMPDIR")).join(name));
        let _ = fs::remove_dir_all(&folder.0);
        fs::create_dir_all(&folder.0).unwrap();
        files.iter().for_each(|(name, text)| folder.write(name, text));
        folder
    }

    pub fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        let file = self.0.join(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(file, text).unwrap();
    }

    pub fn options(&self) -> SiteOptions {
        let mut options = SiteOptions::new(&self.0);
        options.shows_errors = true;
        options
    }

    pub fn open(&self) -> Site {
        Site::open(self.options()).unwrap()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

pub async fn send(site: &Site, request: Request<Body>) -> Answer {
    let answered = tokio::time::timeout(STUCK, site.router().oneshot(request)).await;
    let (head, body) = answered.expect("an answer comes").unwrap().into_parts();
    let body = body.collect().await.unwrap().to_bytes().to_vec();
    Answer { status: head.status, headers: head.headers, body }
}

pub async fn get(site: &Site, path: &str) -> Answer {
    send(site, Request::get(path).body(Body::empty()).unwrap()).await
}

pub async fn post(site: &Site, path: &str, form: &str) -> Answer {
    let request = Request::post(path)
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from(form.to_owned()));
    send(site, request.unwrap()).await
}

/// The text of a page that answers 200.
pub async fn page(site: &Site, path: &str) -> String {
    let answer = get(site, path).await;
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.text()
}

/// Waits until it holds.
pub async fn until<F: Future<Output = bool>>(mut holds: impl FnMut() -> F) {
    let began = Instant::now();
    while !holds().await {
        assert!(began.elapsed() < STUCK, "it comes to no end");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Whether there is a process of this number, zombies counted.
pub fn exists(process: &str) -> bool {
    Path::new("/proc").join(process.trim()).exists()
}
