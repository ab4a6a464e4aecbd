//! A client of HTTP/2 that sends whatever frames it likes [RFC 9113].

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

use super::within;

pub(crate) const DATA: u8 = 0;
pub(crate) const HEADERS: u8 = 1;
pub(crate) const RST_STREAM: u8 = 3;
pub(crate) const SETTINGS: u8 = 4;
pub(crate) const PING: u8 = 6;
pub(crate) const GOAWAY: u8 = 7;
pub(crate) const WINDOW_UPDATE: u8 = 8;
pub(crate) const CONTINUATION: u8 = 9;

pub(crate) const NO_FLAGS: u8 = 0;
pub(crate) const END_STREAM: u8 = 1;
pub(crate) const END_HEADERS: u8 = 4;

/// The code of an error: the client does not want it any more.
const CANCEL: [u8; 4] = 8_u32.to_be_bytes();

const INITIAL_WINDOW_SIZE: u16 = 4;

/// A connection of HTTP/2 without any manners.
pub(crate) struct RawHttp2 {
    read: OwnedReadHalf,
    write: OwnedWriteHalf,
}

/// What the server sent.
#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) kind: u8,
    pub(crate) flags: u8,
    pub(crate) stream: u32,
    pub(crate) payload: Vec<u8>,
}

impl RawHttp2 {
    /// Connects, and gives every stream so much of a window.
    pub(crate) async fn connect(address: SocketAddr, window: u32) -> Self {
        let stream = TcpStream::connect(address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        let (read, mut write) = stream.into_split();
        write.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        let mut client = Self { read, write };
        client.window_of_streams(window).await;
        client.read_frame().await.expect("the server's settings");
        client.frame(SETTINGS, 1, 0, &[]).await;
        client
    }

    /// Changes the window of all streams, of those that are open as well.
    pub(crate) async fn window_of_streams(&mut self, window: u32) {
        let setting = [&INITIAL_WINDOW_SIZE.to_be_bytes()[..], &window.to_be_bytes()].concat();
        self.frame(SETTINGS, NO_FLAGS, 0, &setting).await;
    }

    /// Sends one frame; whether the server still takes it.
    pub(crate) async fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> bool {
        let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
        let mut frame = vec![length[1], length[2], length[3], kind, flags];
        frame.extend_from_slice(&stream.to_be_bytes());
        frame.extend_from_slice(payload);
        within(self.write.write_all(&frame)).await.is_ok()
    }

    /// The head of a request whose body is still to come.
    pub(crate) async fn post(&mut self, stream: u32, path: &str, fields: &[(&str, &str)]) -> bool {
        self.frame(HEADERS, END_HEADERS, stream, &head("POST", path, fields)).await
    }

    /// A whole request.
    pub(crate) async fn get(&mut self, stream: u32, path: &str) -> bool {
        self.frame(HEADERS, END_HEADERS | END_STREAM, stream, &head("GET", path, &[])).await
    }

    pub(crate) async fn reset(&mut self, stream: u32) -> bool {
        self.frame(RST_STREAM, NO_FLAGS, stream, &CANCEL).await
    }

    /// Allows so many bytes more on a stream, or on the connection (stream 0).
    pub(crate) async fn allow(&mut self, stream: u32, bytes: u32) -> bool {
        self.frame(WINDOW_UPDATE, NO_FLAGS, stream, &bytes.to_be_bytes()).await
    }

    /// The next frame, unless the server has closed.
    pub(crate) async fn read_frame(&mut self) -> Option<Frame> {
        within(async {
            let mut head = [0; 9];
            self.read.read_exact(&mut head).await.ok()?;
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let mut payload = vec![0; length as usize];
            self.read.read_exact(&mut payload).await.ok()?;
            Some(Frame { kind: head[3], flags: head[4], stream, payload })
        })
        .await
    }

    /// Reads until the head of an answer has come: its status, if it is a usual one.
    pub(crate) async fn status(&mut self, stream: u32) -> Option<u16> {
        loop {
            let frame = self.read_frame().await.expect("the connection stays open");
            if frame.stream == stream && frame.kind == HEADERS {
                return status_in(&frame.payload);
            }
        }
    }

    /// Reads until a stream has ended: its status, if it had a usual one, and how much of a
    /// body it got.
    pub(crate) async fn answer(&mut self, stream: u32) -> (Option<u16>, usize) {
        let (mut status, mut length) = (None, 0);
        while let Some(frame) = self.read_frame().await {
            if frame.stream != stream {
                continue;
            }
            match frame.kind {
                HEADERS if status.is_none() => status = status_in(&frame.payload),
                DATA => length += frame.payload.len(),
                RST_STREAM => break,
                _ => {}
            }
            if matches!(frame.kind, HEADERS | DATA) && frame.flags & END_STREAM != 0 {
                break;
            }
        }
        (status, length)
    }

    /// Reads until the server has closed: the code of its last word, if it said one.
    pub(crate) async fn closed(mut self) -> Option<u32> {
        let mut code = None;
        while let Some(frame) = self.read_frame().await {
            if frame.kind == GOAWAY {
                code = Some(u32::from_be_bytes(frame.payload[4..8].try_into().unwrap()));
            }
        }
        code
    }
}

/// A head in HPACK, all of it literal and none of it remembered [RFC 7541 §6.2.2].
pub(crate) fn head(method: &str, path: &str, fields: &[(&str, &str)]) -> Vec<u8> {
    head_to("a", method, path, fields)
}

/// The same with this `:authority`.
pub(crate) fn head_to(
    authority: &str,
    method: &str,
    path: &str,
    fields: &[(&str, &str)],
) -> Vec<u8> {
    let pseudo =
        [(":method", method), (":scheme", "http"), (":authority", authority), (":path", path)];
    let mut block = Vec::new();
    for (name, value) in pseudo.iter().chain(fields) {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).ok().filter(|length| *length < 127).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

/// The status at the begin of a head, if it is one of the static table [RFC 7541 App. A].
fn status_in(block: &[u8]) -> Option<u16> {
    const INDEXED: [u16; 7] = [200, 204, 206, 304, 400, 404, 500];
    let first = *block.iter().find(|byte| *byte & 0xe0 != 0x20)?;
    INDEXED.get(usize::from(first.checked_sub(0x88)?)).copied()
}
