//! A page: a file with its headers, in each available encoding.

pub(crate) mod condition;
pub(crate) mod due;
pub(crate) mod encoding;
pub(crate) mod head;
pub(crate) mod memory_file;
pub(crate) mod page_file;

use std::fs::Metadata;
use std::iter;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{
    ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, ETAG, LAST_MODIFIED, VARY,
    X_CONTENT_TYPE_OPTIONS,
};
use http::{HeaderMap, HeaderValue, StatusCode};
use tamarisk_control::Timestamp;

use self::condition::Validators;
use self::due::Due;
use self::encoding::{Accepted, Encoding};
use self::head::{head, push_field};
use self::memory_file::MemoryFile;
use self::page_file::PageFile;

/// A page in the cache is compared with the disk at most so often.
const CHECK_NANOS: u64 = 1_000_000_000;

/// A form that was not there is looked for less often: the page is right without it.
const SEARCH_NANOS: u64 = 15_000_000_000;

/// A file, and the forms of it for clients that can read them.
#[derive(Debug)]
pub(crate) struct Page {
    pub(crate) plain: Form,
    /// In the order of [`Encoding::ALL`].
    pub(crate) encoded: [Option<Form>; 3],
    pub(crate) stamp: Stamp,
    check: Due,
    search: Due,
}

/// One form of a file.
#[derive(Debug)]
pub(crate) struct Form {
    /// The fields of an answer with all of it.
    pub(crate) head: HeaderMap,
    /// That head as it is sent over HTTP/1.1, but for what is of the request.
    pub(crate) prepared: Vec<u8>,
    pub(crate) validators: Validators,
    pub(crate) length: u64,
    pub(crate) content: Content,
}

/// Where the bytes are.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    Held(Bytes),
    /// Many.
    InMemory(Arc<MemoryFile>),
    /// In a file, which is open.
    File(Arc<PageFile>),
}

/// Tells whether a file on disk is still the same, and those beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) plain: FileStamp,
    pub(crate) encoded: [Option<FileStamp>; 3],
}

/// The same as long as the file was neither written to nor replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileStamp {
    device: u64,
    inode: u64,
    length: u64,
    changed: (i64, i64),
}

impl FileStamp {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            length: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

impl Form {
    /// `length` bytes of `content`, with `encoding` if they are encoded.
    pub(crate) fn new(
        encoding: Option<Encoding>,
        content_type: HeaderValue,
        validators: Validators,
        length: u64,
        content: Content,
    ) -> Self {
        let last_modified = httpdate::fmt_http_date(validators.modified);
        let last_modified = HeaderValue::try_from(last_modified).expect("a date is printable");
        let mut head = HeaderMap::from_iter([
            (CONTENT_LENGTH, length.into()),
            (CONTENT_TYPE, content_type),
            (ACCEPT_RANGES, HeaderValue::from_static("bytes")),
            (X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff")),
            (ETAG, validators.etag.clone()),
            (LAST_MODIFIED, last_modified),
        ]);
        if let Some(encoding) = encoding {
            head.insert(CONTENT_ENCODING, HeaderValue::from_static(encoding.name()));
        }
        Self { head, prepared: Vec::new(), validators, length, content }
    }

    /// The same, in a file in memory if it is long.
    pub(crate) fn in_memory(mut self) -> Self {
        if let Content::Held(bytes) = &self.content
            && self.length >= page_file::LENGTH_MIN
            && let Some(file) = MemoryFile::of(bytes)
        {
            self.content = Content::InMemory(Arc::new(file));
        }
        self
    }

    /// Makes the head of answers with all of it.
    fn prepare(&mut self, varies: bool) {
        self.prepared = head(StatusCode::OK, &self.head);
        if varies {
            let encoding = HeaderValue::from_static("accept-encoding");
            push_field(&mut self.prepared, &VARY, &encoding);
        }
    }
}

impl Page {
    pub(crate) fn new(
        mut plain: Form,
        mut encoded: [Option<Form>; 3],
        stamp: Stamp,
        now: Timestamp,
    ) -> Self {
        let varies = encoded.iter().any(Option::is_some);
        for form in iter::once(&mut plain).chain(encoded.iter_mut().flatten()) {
            form.prepare(varies);
        }
        let (check, search) = (Due::after(CHECK_NANOS, now), Due::after(SEARCH_NANOS, now));
        Self { plain, encoded, stamp, check, search }
    }

    /// The best form for a client that can read those `accepted`.
    pub(crate) fn form(&self, accepted: Accepted) -> &Form {
        accepted.best(&self.encoded).unwrap_or(&self.plain)
    }

    /// Whether which form is sent depends on the client.
    pub(crate) fn varies(&self) -> bool {
        self.encoded.iter().any(Option::is_some)
    }

    /// For how many nanoseconds the page has been to be compared with the disk, if it is.
    pub(crate) fn check_overdue(&self, now: Timestamp) -> Option<u64> {
        self.check.overdue(now)
    }

    /// Whether the one who asks is to compare the page with the disk: one in a second.
    pub(crate) fn is_check_due(&self, now: Timestamp) -> bool {
        self.check.is_now(CHECK_NANOS, now)
    }

    /// Whether the one who compares is to look for further forms too.
    pub(crate) fn is_search_due(&self, now: Timestamp) -> bool {
        self.search.is_now(SEARCH_NANOS, now)
    }

    /// Whether those of its files that are open were neither written to nor deleted.
    pub(crate) fn is_current(&self) -> bool {
        self.files().all(PageFile::is_current)
    }

    /// Bytes of memory that its content takes.
    pub(crate) fn held(&self) -> u64 {
        let is_held = |form: &&Form| !matches!(form.content, Content::File(_));
        self.forms().filter(is_held).map(|form| form.length).sum()
    }

    /// Whether no form of it would have to come from a disk when it is begun to be sent.
    pub(crate) fn begins_in_memory(&self) -> bool {
        self.files().all(PageFile::begins_in_memory)
    }

    /// Its files that are open.
    pub(crate) fn files(&self) -> impl Iterator<Item = &PageFile> {
        self.forms().filter_map(|form| match &form.content {
            Content::File(file) => Some(&**file),
            Content::Held(_) | Content::InMemory(_) => None,
        })
    }

    fn forms(&self) -> impl Iterator<Item = &Form> {
        iter::once(&self.plain).chain(self.encoded.iter().flatten())
    }
}
