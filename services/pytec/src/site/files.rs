//! The stage of the files: sends those that stand beside the pages, and looks for new pages.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::response::{IntoResponse, Response};
use tamarisk::{BoxError, BuildError, Context, Request, Stage};

use crate::root::{ReadError, Root};
use crate::site_path::SitePath;

/// The largest file that is sent: a site with larger ones has a web server before it.
const FILE_BYTES_MAX: u64 = 16 << 20;

pub(super) type FilesStage = Stage<Request<String, FileAnswer>>;

/// What there is for a path that no page is known of.
#[derive(Debug)]
pub(super) enum FileAnswer {
    /// A page that is not known yet.
    NewPage(SitePath),
    File {
        path: SitePath,
        bytes: Bytes,
    },
    /// A folder: its path ends with a slash.
    Folder,
    TooLarge,
    Nothing,
}

/// The stage, of threads: it waits for the disk.
pub(super) fn stage(
    root: &Arc<Root>,
    p90: Duration,
    classes: &[String],
) -> Result<FilesStage, BuildError> {
    let root = Arc::clone(root);
    let mut builder = Stage::builder("files").p90(p90);
    if !classes.is_empty() {
        builder = builder.classes(classes.to_vec());
    }
    builder.blocking_handler(move |path: String, _: Context| found(&root, &path))
}

fn found(root: &Root, path: &str) -> Result<FileAnswer, BoxError> {
    if let Some(page) = SitePath::of_page(path).filter(|page| root.fingerprint(page).is_some()) {
        return Ok(FileAnswer::NewPage(page));
    }
    let Some(file) = SitePath::of_file(path) else { return Ok(FileAnswer::Nothing) };
    match root.read(&file, FILE_BYTES_MAX) {
        Ok((bytes, _)) => Ok(FileAnswer::File { path: file, bytes: bytes.into() }),
        Err(ReadError::TooLarge(_)) => Ok(FileAnswer::TooLarge),
        Err(ReadError::NotFound) => {
            let folder = format!("{path}/");
            let pages = [SitePath::of_page(&folder), SitePath::of_file(&folder)];
            let is_folder = pages.iter().flatten().any(|page| root.fingerprint(page).is_some());
            Ok(if is_folder { FileAnswer::Folder } else { FileAnswer::Nothing })
        }
        Err(ReadError::Unreadable(error)) => Err(error.into()),
    }
}

/// A file as a response.
pub(super) fn response(path: &SitePath, bytes: Bytes) -> Response {
    let headers =
        [(CONTENT_TYPE, content_type(path.as_str())), (X_CONTENT_TYPE_OPTIONS, "nosniff")];
    (StatusCode::OK, headers, bytes).into_response()
}

fn content_type(name: &str) -> &'static str {
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    match ending.as_deref().unwrap_or_default() {
        "html" | "htm" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "txt" | "md" => "text/plain; charset=utf-8",
        "json" => "application/json",
        "xml" => "application/xml",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "pdf" => "application/pdf",
        _ => "application/octet-stream",
    }
}
