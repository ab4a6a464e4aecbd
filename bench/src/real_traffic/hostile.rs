//! Clients that hold what they can, as raw sockets. Each begins anew when it is closed on.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{interval, sleep};

/// Before a connection that was closed is opened again.
const PAUSE: Duration = Duration::from_millis(100);
/// How often a piece of an upload is sent.
const PIECE_EVERY: Duration = Duration::from_millis(100);

/// What such clients do.
#[derive(Clone, Copy, Debug)]
pub enum Hostile {
    /// POSTs of so many bytes, at so many a second.
    Uploads {
        /// How many at once.
        count: usize,
        /// Length of the body.
        bytes: usize,
        /// Bytes a second.
        rate: usize,
    },
    /// POSTs whose bodies never come.
    StalledBodies(usize),
    /// One HTTP/2 connection with a window of 0, and so many streams that ask for `/large`.
    WindowOfZero(usize),
}

impl Hostile {
    /// Begins, and goes on until the runtime ends.
    pub fn start(self, proxy: SocketAddr) {
        match self {
            Self::Uploads { count, bytes, rate } => {
                for _ in 0..count {
                    again_and_again(move || upload(proxy, bytes, rate));
                }
            }
            Self::StalledBodies(count) => {
                for _ in 0..count {
                    again_and_again(move || upload(proxy, 1_000, 0));
                }
            }
            Self::WindowOfZero(streams) => {
                again_and_again(move || window_of_zero(proxy, streams));
            }
        }
    }
}

fn again_and_again<F>(attack: impl Fn() -> F + Send + 'static)
where
    F: Future<Output = Result<()>> + Send,
{
    tokio::spawn(async move {
        loop {
            // However it ends, it begins again.
            let _ = attack().await;
            sleep(PAUSE).await;
        }
    });
}

/// One POST, and its answer.
async fn upload(proxy: SocketAddr, bytes: usize, rate: usize) -> Result<()> {
    let mut stream = TcpStream::connect(proxy).await?;
    stream.set_nodelay(true)?;
    let head = format!("POST /app HTTP/1.1\r\nhost: bench\r\ncontent-length: {bytes}\r\n\r\n");
    stream.write_all(head.as_bytes()).await?;
    let piece = vec![b'x'; (rate as f64 * PIECE_EVERY.as_secs_f64()) as usize];
    let (mut reader, mut writer) = stream.split();
    let sends = async {
        let mut ticks = interval(PIECE_EVERY);
        let mut rest = bytes;
        while rest > 0 {
            ticks.tick().await;
            let length = rest.min(piece.len());
            writer.write_all(&piece[..length]).await?;
            rest -= length;
        }
        std::future::pending().await
    };
    let mut answer = [0; 1024];
    tokio::select! {
        ended = sends => ended,
        read = reader.read(&mut answer) => Ok(read.map(drop)?),
    }
}

const SETTINGS: u8 = 4;
const PING: u8 = 6;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const ACK: u8 = 1;
/// Of a HEADERS frame: it is the whole request.
const END_STREAM_AND_HEADERS: u8 = 0x5;
const END_STREAM: u8 = 0x1;
/// An identifier of 16 bits, INITIAL_WINDOW_SIZE, and its value of 32.
const INITIAL_WINDOW_OF_ZERO: [u8; 6] = [0, 4, 0, 0, 0, 0];

async fn window_of_zero(proxy: SocketAddr, streams: usize) -> Result<()> {
    let mut stream = TcpStream::connect(proxy).await?;
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await?;
    stream.write_all(&frame(SETTINGS, 0, 0, &INITIAL_WINDOW_OF_ZERO)).await?;
    let mut next_id = 1;
    for _ in 0..streams {
        stream.write_all(&request(&mut next_id)).await?;
    }
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head).await?;
        let [high, middle, low, kind, flags, ..] = head;
        let mut payload = vec![0; u32::from_be_bytes([0, high, middle, low]) as usize];
        ensure!(payload.len() <= 16 * 1024, "a frame longer than was allowed");
        stream.read_exact(&mut payload).await?;
        let answer = match kind {
            SETTINGS if flags & ACK == 0 => frame(SETTINGS, ACK, 0, &[]),
            PING if flags & ACK == 0 => frame(PING, ACK, 0, &payload),
            HEADERS if flags & END_STREAM == 0 => continue,
            HEADERS | RESET => {
                sleep(PAUSE).await;
                request(&mut next_id)
            }
            _ => continue,
        };
        stream.write_all(&answer).await?;
    }
}

/// A GET of `/large`, with its fields uncompressed where the static table has none [RFC 7541].
fn request(next_id: &mut u32) -> Vec<u8> {
    let mut block = vec![0x82, 0x86, 0x04, 6];
    block.extend_from_slice(b"/large");
    block.extend_from_slice(&[0x01, 5]);
    block.extend_from_slice(b"bench");
    let frame = frame(HEADERS, END_STREAM_AND_HEADERS, *next_id, &block);
    *next_id += 2;
    frame
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut frame = (payload.len() as u32).to_be_bytes()[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}
