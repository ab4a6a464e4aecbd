//! The stage of the files: sends those that stand beside the pages, and looks for new pages.

use std::fs::File;
use std::io::Cursor;
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use tamarisk::{BoxError, BuildError, Context, Request, Stage};
use tokio_util::io::ReaderStream;

use crate::content_type::content_type;
use crate::root::{ReadError, Root};
use crate::site_path::SitePath;

/// The largest file that is sent: a site with larger ones has a web server before it.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// What is in memory of a file while a client reads it. Most files are shorter, and are read at once.
const PIECE_BYTES: usize = 64 << 10;

pub(super) type FilesStage = Stage<Request<FileRequest, FileAnswer>>;

/// What is asked for, and how.
#[derive(Debug)]
pub(super) struct FileRequest {
    pub(super) path: String,
    pub(super) method: Method,
}

/// What there is for a path that no page is known of.
#[derive(Debug)]
pub(super) enum FileAnswer {
    /// A page that is not known yet.
    NewPage(SitePath),
    File(FoundFile),
    /// A folder: its path ends with a slash.
    Folder,
    TooLarge,
    Nothing,
}

/// A file that is sent.
#[derive(Debug)]
pub(super) struct FoundFile {
    path: SitePath,
    length: u64,
    /// The first piece, where a client gets more than the head.
    start: Bytes,
    /// Where the pieces behind it are read from.
    rest: Option<File>,
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
    builder.blocking_handler(move |request: FileRequest, _: Context| found(&root, &request))
}

fn found(root: &Root, request: &FileRequest) -> Result<FileAnswer, BoxError> {
    if let Some(page) = first_there(root, [SitePath::of_page(&request.path)])? {
        return Ok(FileAnswer::NewPage(page));
    }
    let path = SitePath::of_file(&request.path);
    let opened = path.ok_or(ReadError::NotFound).and_then(|path| {
        let (file, metadata) = root.open_file(&path)?;
        Ok((path, file, metadata))
    });
    let (path, file, metadata) = match opened {
        Err(ReadError::NotFound) => {
            let folder = format!("{}/", request.path);
            let pages = [SitePath::of_page(&folder), SitePath::of_file(&folder)];
            let is_folder = first_there(root, pages)?.is_some();
            return Ok(if is_folder { FileAnswer::Folder } else { FileAnswer::Nothing });
        }
        opened => opened?,
    };
    let length = metadata.len();
    if length > FILE_BYTES_MAX {
        return Ok(FileAnswer::TooLarge);
    }
    if request.method != Method::GET {
        return Ok(FileAnswer::File(FoundFile { path, length, start: Bytes::new(), rest: None }));
    }
    let start = first_piece(&file)?;
    Ok(FileAnswer::File(if start.len() < PIECE_BYTES {
        FoundFile { path, length: start.len() as u64, start, rest: None }
    } else {
        // It may have grown.
        FoundFile { path, length: length.max(start.len() as u64), start, rest: Some(file) }
    }))
}

fn first_there<const N: usize>(
    root: &Root,
    files: [Option<SitePath>; N],
) -> Result<Option<SitePath>, ReadError> {
    for file in files.into_iter().flatten() {
        if root.fingerprint(&file)?.is_some() {
            return Ok(Some(file));
        }
    }
    Ok(None)
}

fn first_piece(file: &File) -> std::io::Result<Bytes> {
    use std::io::Read;
    let mut start = Vec::new();
    file.take(PIECE_BYTES as u64).read_to_end(&mut start)?;
    Ok(start.into())
}

/// A file as a response. What is behind its first piece is read as fast as the client reads it.
pub(super) fn response(file: FoundFile) -> Response {
    use tokio::io::AsyncReadExt;
    let FoundFile { path, length, start, rest } = file;
    let left = length.saturating_sub(start.len() as u64);
    let body = match rest {
        None => Body::from(start),
        Some(rest) => {
            let rest = tokio::fs::File::from_std(rest).take(left);
            let all = Cursor::new(start).chain(rest);
            Body::from_stream(ReaderStream::with_capacity(all, PIECE_BYTES))
        }
    };
    // Of the folder `public` every file is sent.
    let kind = content_type(path.as_str()).unwrap_or("application/octet-stream");
    let headers = [
        (CONTENT_TYPE, HeaderValue::from_static(kind)),
        (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
        (CONTENT_LENGTH, HeaderValue::from(length)),
    ];
    (StatusCode::OK, headers, body).into_response()
}
