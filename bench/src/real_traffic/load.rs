//! Open-loop clients: requests at the times of a Poisson process, whatever becomes of those
//! before; response times count from the time at which a request is due.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until, timeout};

use super::seen::{Answer, Request, Seen};
use super::{HEAD_BYTES_MAX, body_start, content_length, header};

/// Requests under way at once, of all streams: a proxy has as many connections again in front
/// and behind, and a process may have 20,000 files.
const UNDER_WAY_MAX: usize = 6_000;

/// Requests of one kind.
#[derive(Clone, Debug)]
pub struct Stream {
    /// What is asked for.
    pub path: &'static str,
    /// Requests a second until a time, in order of time; of those that come at once, one counts.
    pub rates: Vec<(f64, f64)>,
    /// Further header lines, each with its end.
    pub headers: &'static str,
    /// How many each client sends at once.
    pub at_once: usize,
    /// The addresses they come from, in turn.
    pub addresses: Vec<Ipv4Addr>,
    /// Clients leave after this.
    pub patience: Duration,
}

impl Stream {
    /// So many requests a second from one address, by patient clients.
    pub fn new(path: &'static str, rate: f64) -> Self {
        Self {
            path,
            rates: vec![(f64::INFINITY, rate)],
            headers: "",
            at_once: 1,
            addresses: vec![Ipv4Addr::LOCALHOST],
            patience: Duration::from_secs(120),
        }
    }

    fn rate(&self, now: f64) -> f64 {
        self.rates.iter().find(|(until, _)| now < *until).map_or(0.0, |(_, rate)| *rate)
    }
}

/// Sends the streams to `proxy` from `start` on for `seconds`, and `grace` later says what
/// was seen.
pub async fn send(
    streams: &[Stream],
    proxy: SocketAddr,
    (start, seed): (Instant, u64),
    (seconds, grace): (f64, f64),
) -> Seen {
    let seen = Arc::new(Mutex::new(Seen::new(seconds)));
    let under_way = Arc::new(Semaphore::new(UNDER_WAY_MAX));
    let mut senders = tokio::task::JoinSet::new();
    for (index, stream) in streams.iter().cloned().enumerate() {
        let sender = Sender {
            idle: stream.addresses.iter().map(|_| Mutex::default()).collect(),
            stream,
            index,
            proxy,
            start,
            seen: Arc::clone(&seen),
            under_way: Arc::clone(&under_way),
        };
        let seed = seed.wrapping_mul(1_000).wrapping_add(index as u64);
        senders.spawn(Arc::new(sender).run(StdRng::seed_from_u64(seed), seconds));
    }
    while senders.join_next().await.is_some() {}
    sleep_until(start + Duration::from_secs_f64(seconds + grace)).await;
    seen.lock().expect("no holder panics").clone()
}

struct Sender {
    stream: Stream,
    index: usize,
    proxy: SocketAddr,
    start: Instant,
    seen: Arc<Mutex<Seen>>,
    under_way: Arc<Semaphore>,
    /// Connections that are open and unused, for each address.
    idle: Vec<Mutex<Vec<TcpStream>>>,
}

impl Sender {
    async fn run(self: Arc<Self>, mut random: StdRng, seconds: f64) {
        let mut due = 0.0;
        for turn in 0.. {
            let unit: f64 = random.random();
            due += -(1.0 - unit).ln() / self.stream.rate(due).max(1e-3);
            if due > seconds {
                return;
            }
            sleep_until(self.at(due)).await;
            let client = turn % self.stream.addresses.len();
            for _ in 0..self.stream.at_once {
                tokio::spawn(Arc::clone(&self).request(due, client));
            }
        }
    }

    async fn request(self: Arc<Self>, due: f64, client: usize) {
        let number = self.seen.lock().expect("no holder panics").add(Request::new(self.index, due));
        let Ok(_permit) = self.under_way.try_acquire() else { return };
        let patience = self.stream.patience;
        match timeout(patience, self.ask(number, client)).await {
            Ok(Ok((_, false))) => {}
            Ok(Ok((connection, true))) => {
                self.idle[client].lock().expect("no holder panics").push(connection);
            }
            // A request without an answer stays without one in what was seen.
            Ok(Err(_)) | Err(_) => {
                self.seen.lock().expect("no holder panics").break_off(number, self.now());
            }
        }
    }

    async fn ask(&self, number: usize, client: usize) -> Result<(TcpStream, bool)> {
        let idle = self.idle[client].lock().expect("no holder panics").pop();
        if let Some(connection) = idle {
            // It may have been closed in the meantime; then nothing of an answer comes.
            let asked = self.ask_over(connection, number).await;
            if asked.is_ok() || self.seen.lock().expect("no holder panics").has_begun(number) {
                return asked;
            }
        }
        let socket = TcpSocket::new_v4()?;
        socket.bind((self.stream.addresses[client], 0).into())?;
        let connection = socket.connect(self.proxy).await?;
        connection.set_nodelay(true)?;
        self.ask_over(connection, number).await
    }

    async fn ask_over(
        &self,
        mut connection: TcpStream,
        number: usize,
    ) -> Result<(TcpStream, bool)> {
        let Stream { path, headers, .. } = self.stream;
        let request = format!("GET {path} HTTP/1.1\r\nhost: bench\r\n{headers}\r\n");
        connection.write_all(request.as_bytes()).await?;
        let mut read = Vec::new();
        let start = loop {
            if let Some(start) = body_start(&read) {
                break start;
            }
            anyhow::ensure!(read.len() < HEAD_BYTES_MAX, "the head is too long");
            anyhow::ensure!(connection.read_buf(&mut read).await? > 0, "closed before the answer");
        };
        let head = std::str::from_utf8(&read[..start])?.to_owned();
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
        let status = status.context("no status")?;
        let is_chunked = header(&head, "transfer-encoding").is_some();
        read.drain(..start);
        let body = (!is_chunked).then(|| content_length(&head));
        let is_whole = |read: &[u8]| {
            body.map_or_else(|| read.ends_with(b"\r\n0\r\n\r\n"), |length| read.len() >= length)
        };
        let mut first_data = (!read.is_empty()).then(|| self.now());
        while !is_whole(&read) {
            anyhow::ensure!(connection.read_buf(&mut read).await? > 0, "closed inside the answer");
            if first_data.is_none() {
                first_data = Some(self.now());
                self.note(number, Answer { status, first_data, end: None, broken: None });
            }
        }
        self.note(number, Answer { status, first_data, end: Some(self.now()), broken: None });
        let is_closed = header(&head, "connection").is_some_and(|value| value == "close");
        Ok((connection, !is_closed))
    }

    fn note(&self, number: usize, answer: Answer) {
        self.seen.lock().expect("no holder panics").note(number, answer);
    }

    fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64()
    }

    fn at(&self, seconds: f64) -> Instant {
        self.start + Duration::from_secs_f64(seconds)
    }
}
