//! Frames between the server and a process: two lengths, a JSON object and bytes.
//!
//! `worker.py` describes the protocol.

use std::io;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

/// The largest head of an answer: its headers, or an error's message and trace.
const HEAD_BYTES_MAX: usize = 256 << 10;

pub(super) async fn write(
    stream: &mut (impl AsyncWrite + Unpin),
    head: &impl Serialize,
    body: &[u8],
) -> io::Result<()> {
    let head = serde_json::to_vec(head)?;
    let mut frame = Vec::with_capacity(8 + head.len() + body.len());
    for length in [head.len(), body.len()] {
        let length =
            u32::try_from(length).map_err(|_| io::Error::other("a request of more than 4 GiB"))?;
        frame.extend(length.to_be_bytes());
    }
    frame.extend(head);
    frame.extend(body);
    stream.write_all(&frame).await
}

/// Reads a frame whose body is no longer than `body_bytes_max`.
pub(super) async fn read<H: DeserializeOwned>(
    stream: &mut (impl AsyncRead + Unpin),
    body_bytes_max: usize,
) -> io::Result<(H, Vec<u8>)> {
    let mut lengths = [0; 8];
    stream.read_exact(&mut lengths).await?;
    let [h0, h1, h2, h3, b0, b1, b2, b3] = lengths;
    let head_length = u32::from_be_bytes([h0, h1, h2, h3]) as usize;
    let body_length = u32::from_be_bytes([b0, b1, b2, b3]) as usize;
    if head_length > HEAD_BYTES_MAX || body_length > body_bytes_max {
        let message = format!(
            "an answer of {head_length} and {body_length} bytes, more than {HEAD_BYTES_MAX} and {body_bytes_max}"
        );
        return Err(io::Error::new(io::ErrorKind::InvalidData, message));
    }
    let mut bytes = vec![0; head_length + body_length];
    stream.read_exact(&mut bytes).await?;
    let body = bytes.split_off(head_length);
    Ok((serde_json::from_slice(&bytes)?, body))
}
