//! Folders and raw requests.

#![allow(dead_code, unreachable_pub, reason = "no file of tests needs all of it")]

#[path = "../../../../../crates/server/tests/it/support/frames.rs"]
pub(crate) mod frames;

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// No test waits longer than this for anything.
pub(crate) async fn within<F: Future>(future: F) -> F::Output {
    let limit = Duration::from_secs(20);
    tokio::time::timeout(limit, future).await.expect("it takes too long")
}

/// A folder of its own for each test, gone when the test is.
pub struct Folder(PathBuf);

impl Folder {
    pub fn with<'a>(files: impl IntoIterator<Item = (impl AsRef<Path>, &'a [u8])>) -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("tamarisk-haboob-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        for (name, content) in files {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        Self(folder)
    }
}

impl Deref for Folder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub struct Answer {
    pub status: u16,
    fields: BTreeMap<String, String>,
    pub body: Vec<u8>,
}

/// One request on a connection of its own.
pub async fn ask(
    address: SocketAddr,
    host: &str,
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
) -> Answer {
    let mut request = format!("{method} {path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n");
    for (name, value) in fields {
        request += &format!("{name}: {value}\r\n");
    }
    request += "\r\n";
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    Answer::parse(&bytes)
}

impl Answer {
    fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let fields = lines.map(|line| {
            let (name, value) = line.split_once(": ").unwrap();
            (name.to_owned(), value.to_owned())
        });
        Self { status, fields: fields.collect(), body: bytes[end + 4..].to_vec() }
    }

    pub fn field(&self, name: &str) -> &str {
        self.fields.get(name).map_or("", String::as_str)
    }

    /// All of them, but for the date.
    pub fn fields(&self) -> BTreeMap<String, String> {
        self.fields.clone().into_iter().filter(|(name, _)| name != "date").collect()
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}
