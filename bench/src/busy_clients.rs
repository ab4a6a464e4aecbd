//! Clients with one connection each, that ask again as soon as they are answered or at a pace, one
//! request or many at a time, and how often each of them was answered.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

/// How a client asks.
#[derive(Clone, Copy, Debug)]
pub struct Client {
    /// So many requests at once, then it waits for all of their answers.
    pub burst: usize,
    /// So long from one burst to the next; as soon as it is answered, if this is none.
    pub every: Option<Duration>,
}

/// How often a client was answered while it was judged.
#[derive(Clone, Copy, Debug, Default)]
pub struct Answers {
    /// By 200.
    pub served: u32,
    /// By 503.
    pub rejected: u32,
}

/// Judges `clients` of `server` for `judged`, after `warm_up`: each has an address of its own.
///
/// # Errors
/// If a connection breaks, or an answer is neither 200 nor 503.
pub async fn judge(
    server: SocketAddr,
    path: &str,
    clients: &[Client],
    warm_up: Duration,
    judged: Duration,
) -> Result<Vec<Answers>> {
    let request = format!("GET {path} HTTP/1.1\r\nhost: {server}\r\n\r\n");
    let counts: Arc<[[AtomicU32; 2]]> = clients.iter().map(|_| Default::default()).collect();
    // All of them before the first asks, which would leave little of the core for connecting.
    let mut connections = Vec::with_capacity(clients.len());
    for index in 0..clients.len() {
        connections.push(connect(server, index).await?);
    }
    let mut tasks = JoinSet::new();
    for ((index, client), connection) in clients.iter().enumerate().zip(connections) {
        let (request, counts, client) = (request.clone(), Arc::clone(&counts), *client);
        // Spread over the period, so that those with a pace do not ask at once.
        let phase = index as f64 / clients.len() as f64;
        tasks.spawn(async move { ask(connection, &request, client, phase, &counts[index]).await });
    }
    let read = || -> Vec<[u32; 2]> {
        counts.iter().map(|of| of.each_ref().map(|count| count.load(Ordering::Relaxed))).collect()
    };
    let mut wait = async |time| {
        tokio::select! {
            () = tokio::time::sleep(time) => Ok(()),
            Some(ended) = tasks.join_next() => {
                ended.context("a client panicked")?.context("a client could not go on")
            }
        }
    };
    wait(warm_up).await?;
    let before = read();
    wait(judged).await?;
    let after = read();
    Ok(before
        .iter()
        .zip(&after)
        .map(|(before, after)| Answers {
            served: after[0] - before[0],
            rejected: after[1] - before[1],
        })
        .collect())
}

/// From an address of the client's own, as those of a network are.
async fn connect(server: SocketAddr, client: usize) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    let address = Ipv4Addr::new(127, 1, (client / 250) as u8, (client % 250) as u8 + 1);
    socket.bind((address, 0).into())?;
    let stream = socket.connect(server).await.with_context(|| format!("client {client}"))?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn ask(
    mut connection: TcpStream,
    request: &str,
    client: Client,
    phase: f64,
    answers: &[AtomicU32; 2],
) -> Result<()> {
    let burst = request.repeat(client.burst);
    let mut pace = client.every.map(|every| {
        let mut pace = interval_at(Instant::now() + every.mul_f64(phase), every);
        pace.set_missed_tick_behavior(MissedTickBehavior::Burst);
        pace
    });
    let mut read = Vec::with_capacity(64 * 1024);
    loop {
        if let Some(pace) = &mut pace {
            pace.tick().await;
        }
        connection.write_all(burst.as_bytes()).await?;
        for _ in 0..client.burst {
            let (status, length) = loop {
                if let Some(answer) = answer_in(&read)? {
                    break answer;
                }
                ensure!(connection.read_buf(&mut read).await? > 0, "the server closed");
            };
            read.drain(..length);
            answers[usize::from(status == 503)].fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// The status and the length of the first answer in `read`, if that is complete.
fn answer_in(read: &[u8]) -> Result<Option<(u16, usize)>> {
    let Some(head) = read.windows(4).position(|four| four == b"\r\n\r\n") else { return Ok(None) };
    let text = std::str::from_utf8(&read[..head])?;
    let status: u16 = text.get(9..12).context("no status")?.parse()?;
    ensure!(matches!(status, 200 | 503), "{text}");
    let mut lines = text.lines().filter_map(|line| line.split_once(": "));
    let length = lines.find(|(name, _)| name.eq_ignore_ascii_case("content-length"));
    let length: usize = length.context("no length")?.1.trim().parse()?;
    let end = head + 4 + length;
    Ok((read.len() >= end).then_some((status, end)))
}
