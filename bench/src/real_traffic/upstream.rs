//! An HTTP/1.1 upstream whose behaviour is known exactly: a FIFO queue before a number of
//! workers, and what it can do besides working.

use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::{Context, Result};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

use super::{HEAD_BYTES_MAX, body_start, content_length};

/// Requests that may wait for a worker or be served; many more than any situation sends
/// before its end.
const WORKERS_UNLIMITED: usize = 10_000;
const EVENTS_HEAD: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\
    transfer-encoding: chunked\r\n\r\n";
const EVENT: &[u8] = b"8\r\ndata: x\n\r\n";
const EVENTS_END: &[u8] = b"0\r\n\r\n";
/// Between two events of a stream.
const EVENT_EVERY: Duration = Duration::from_millis(100);

/// How long a worker takes, in seconds.
#[derive(Clone, Copy, Debug)]
pub enum Service {
    /// Always the same.
    Constant(f64),
    /// Exponentially distributed, with this mean.
    Exponential(f64),
    /// The sum of four such, as in the scenario *cold-1x1s*: this is its mean.
    Erlang(f64),
    /// Anything in the range, evenly.
    Uniform(f64, f64),
}

impl Service {
    fn draw(self, random: &mut StdRng) -> Duration {
        const PARTS: u32 = 4;
        let mut unit = || random.random::<f64>();
        let mut exponential = |mean: f64| -mean * (1.0 - unit()).ln();
        Duration::from_secs_f64(match self {
            Self::Constant(seconds) => seconds,
            Self::Exponential(mean) => exponential(mean),
            Self::Erlang(mean) => (0..PARTS).map(|_| exponential(mean / f64::from(PARTS))).sum(),
            Self::Uniform(least, greatest) => least + (greatest - least) * unit(),
        })
    }
}

/// What a path asks for.
#[derive(Clone, Copy, Debug)]
pub enum Work {
    /// A worker for this time, then an answer of so many bytes.
    Answer(Service, usize),
    /// No worker, and an answer after so many seconds.
    Poll(f64),
    /// The head at once, a worker for this time, and events while it works.
    Events(Service),
    /// The same without a worker; while more than so many are under way, they share the time of
    /// so many among them.
    SharedEvents(Service, u32),
    /// No worker, the head at once, and an event whenever so much time has passed.
    Notifications(Service),
}

/// An upstream's behaviour. Times are in seconds since the start.
#[derive(Clone, Debug)]
pub struct Upstream {
    /// [`None`]: as many as there are requests.
    pub workers: Option<usize>,
    /// By path.
    pub paths: Vec<(&'static str, Work)>,
    /// Share of the requests that are never answered.
    pub lost: f64,
    /// Every request that comes in this time is never answered.
    pub swallows: Range<f64>,
    /// No work is done in this time.
    pub pauses: Range<f64>,
}

impl Upstream {
    /// One that works without faults.
    pub fn new(workers: Option<usize>, paths: &[(&'static str, Work)]) -> Self {
        Self { workers, paths: paths.to_vec(), lost: 0.0, swallows: 0.0..0.0, pauses: 0.0..0.0 }
    }

    /// Listens, and serves until the runtime ends. Time begins at `start`.
    ///
    /// # Errors
    /// If the system has no port left.
    pub async fn serve(self, start: Instant, seed: u64) -> Result<SocketAddr> {
        let listener =
            TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("no port is free")?;
        let address = listener.local_addr()?;
        let running = Arc::new(Running {
            workers: Workers::new(self.workers.unwrap_or(WORKERS_UNLIMITED), start),
            sharing: AtomicU32::new(0),
            random: Mutex::new(StdRng::seed_from_u64(seed)),
            behaviour: self,
            start,
        });
        tokio::spawn(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, _)) => {
                        let running = Arc::clone(&running);
                        // A connection that fails ends; the client's side is what is measured.
                        tokio::spawn(async move { running.connection(stream).await.ok() });
                    }
                    Err(_) => sleep(Duration::from_millis(10)).await,
                }
            }
        });
        Ok(address)
    }
}

struct Running {
    behaviour: Upstream,
    workers: Workers,
    /// Streams that share the upstream's time.
    sharing: AtomicU32,
    random: Mutex<StdRng>,
    start: Instant,
}

impl Running {
    async fn connection(self: Arc<Self>, mut stream: TcpStream) -> Result<()> {
        stream.set_nodelay(true)?;
        let mut read = Vec::new();
        while let Some(path) = next_request(&mut stream, &mut read).await? {
            if self.loses() {
                return until_closed(&mut stream).await;
            }
            let work = self.behaviour.paths.iter().find(|(known, _)| *known == path);
            match work.map(|(_, work)| *work) {
                None => answer(&mut stream, "404 Not Found", 0).await?,
                Some(Work::Poll(seconds)) => {
                    sleep(Duration::from_secs_f64(seconds)).await;
                    answer(&mut stream, "200 OK", 2).await?;
                }
                Some(Work::Answer(service, bytes)) => {
                    let done = self.work(service);
                    tokio::select! {
                        done = done => done?,
                        // The work goes on; there is nobody to tell.
                        closed = until_closed(&mut stream) => return closed,
                    }
                    answer(&mut stream, "200 OK", bytes).await?;
                }
                Some(Work::Events(service)) => self.events(&mut stream, service).await?,
                Some(Work::SharedEvents(service, most)) => {
                    self.sharing.fetch_add(1, Ordering::Relaxed);
                    let sent = self.shared_events(&mut stream, service, most).await;
                    self.sharing.fetch_sub(1, Ordering::Relaxed);
                    sent?;
                }
                Some(Work::Notifications(between)) => {
                    stream.write_all(EVENTS_HEAD).await?;
                    loop {
                        sleep(self.draw(between)).await;
                        stream.write_all(EVENT).await?;
                    }
                }
            }
        }
        Ok(())
    }

    fn loses(&self) -> bool {
        let now = self.start.elapsed().as_secs_f64();
        let chance: f64 = self.random.lock().expect("no holder panics").random();
        self.behaviour.swallows.contains(&now) || chance < self.behaviour.lost
    }

    fn draw(&self, service: Service) -> Duration {
        service.draw(&mut self.random.lock().expect("no holder panics"))
    }

    /// Queues the work, which is then done whether or not anybody waits for it.
    fn work(self: &Arc<Self>, service: Service) -> oneshot::Receiver<()> {
        let (done, receiver) = oneshot::channel();
        let running = Arc::clone(self);
        let (came, takes) = (Instant::now(), self.draw(service));
        tokio::spawn(async move {
            let begins = running.workers.take(came).await;
            let ends = running.end(begins, takes);
            sleep_until(ends).await;
            running.workers.give_back(ends);
            // Who asked may have left.
            let _ = done.send(());
        });
        receiver
    }

    /// When work is done that begins now: later, if there is a pause in between.
    fn end(&self, begins: Instant, takes: Duration) -> Instant {
        let pauses = &self.behaviour.pauses;
        let from = self.start + Duration::from_secs_f64(pauses.start);
        let until = self.start + Duration::from_secs_f64(pauses.end);
        let is_paused = begins < until && begins + takes > from;
        let pause = if is_paused { until - begins.max(from) } else { Duration::ZERO };
        begins + takes + pause
    }

    async fn events(&self, stream: &mut TcpStream, service: Service) -> Result<()> {
        stream.write_all(EVENTS_HEAD).await?;
        let came = Instant::now();
        // The place in the queue is given up by a client that leaves.
        let begins = tokio::select! {
            begins = self.workers.take(came) => begins,
            closed = until_closed(stream) => return closed,
        };
        let ends = begins + self.draw(service);
        let mut written = Ok(());
        while Instant::now() < ends && written.is_ok() {
            written = stream.write_all(EVENT).await;
            sleep(EVENT_EVERY.min(ends.saturating_duration_since(Instant::now()))).await;
        }
        self.workers.give_back(Instant::now());
        written?;
        Ok(stream.write_all(EVENTS_END).await?)
    }

    async fn shared_events(
        &self,
        stream: &mut TcpStream,
        service: Service,
        most: u32,
    ) -> Result<()> {
        stream.write_all(EVENTS_HEAD).await?;
        let mut left = self.draw(service);
        while !left.is_zero() {
            stream.write_all(EVENT).await?;
            let part = left.min(EVENT_EVERY);
            let sharing = self.sharing.load(Ordering::Relaxed).max(most);
            sleep(part * sharing / most).await;
            left -= part;
        }
        Ok(stream.write_all(EVENTS_END).await?)
    }
}

/// A number of workers with one queue. Each is free from a stated time on, which keeps the
/// timer's resolution out of the capacity.
struct Workers {
    queue: Semaphore,
    free_from: Mutex<VecDeque<Instant>>,
}

impl Workers {
    fn new(count: usize, start: Instant) -> Self {
        let free_from = Mutex::new(std::iter::repeat_n(start, count).collect());
        Self { queue: Semaphore::new(count), free_from }
    }

    /// Waits for a worker and says when it begins.
    async fn take(&self, came: Instant) -> Instant {
        self.queue.acquire().await.expect("the queue stays open").forget();
        let free_from = self.free_from.lock().expect("no holder panics").pop_front();
        came.max(free_from.expect("there is one for each permit"))
    }

    fn give_back(&self, free_from: Instant) {
        self.free_from.lock().expect("no holder panics").push_back(free_from);
        self.queue.add_permits(1);
    }
}

/// The path of the next request, whose body has been read, or [`None`] at the end.
async fn next_request(stream: &mut TcpStream, read: &mut Vec<u8>) -> Result<Option<String>> {
    let start = loop {
        if let Some(start) = body_start(read) {
            break start;
        }
        anyhow::ensure!(read.len() < HEAD_BYTES_MAX, "the head is too long");
        if stream.read_buf(read).await? == 0 {
            return Ok(None);
        }
    };
    let head = std::str::from_utf8(&read[..start])?;
    let path = head.split(' ').nth(1).context("no path")?.to_owned();
    let (mut rest, read_already) = (content_length(head), read.len() - start);
    read.drain(..start + rest.min(read_already));
    rest = rest.saturating_sub(read_already);
    let mut piece = [0; 16 * 1024];
    while rest > 0 {
        let room = rest.min(piece.len());
        let length = stream.read(&mut piece[..room]).await?;
        anyhow::ensure!(length > 0, "closed {rest} bytes before the end of the body");
        rest -= length;
    }
    Ok(Some(path))
}

async fn answer(stream: &mut TcpStream, status: &str, bytes: usize) -> Result<()> {
    let mut answer = format!("HTTP/1.1 {status}\r\ncontent-length: {bytes}\r\n\r\n").into_bytes();
    answer.resize(answer.len() + bytes, b'x');
    Ok(stream.write_all(&answer).await?)
}

/// The proxy sends one request after the other, so that what can be read now is the end.
async fn until_closed(stream: &mut TcpStream) -> Result<()> {
    let mut piece = [0; 16];
    Ok(stream.read(&mut piece).await.map(drop)?)
}
