//! A slow service, of the kind that a flash crowd brings down.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context;
use bytes::Bytes;
use http::Response;
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, Exp};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep_until};

const WORKERS: usize = 8;
/// Mean of the exponentially distributed time that a worker spends on a request.
const SERVICE_TIME: Duration = Duration::from_millis(20);

/// Requests that the service can answer a second.
pub(super) const CAPACITY_PER_SECOND: f64 = WORKERS as f64 / 0.020;

/// A real HTTP service with a fixed number of workers, and in front of them a
/// queue that takes everybody, first come, first served. It does nothing wrong
/// but to say yes: under a crowd it is as busy as before, with answers that
/// come too late.
///
/// Ends with the process.
pub(super) struct DemoService {
    address: SocketAddr,
}

impl DemoService {
    /// Starts the service on a thread of its own.
    pub(super) fn start(address: SocketAddr) -> anyhow::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime
            .block_on(TcpListener::bind(address))
            .with_context(|| format!("the service cannot listen on {address}"))?;
        let address = listener.local_addr()?;
        std::thread::Builder::new()
            .name("slow-service".to_owned())
            .spawn(move || runtime.block_on(serve(listener)))?;
        Ok(Self { address })
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

/// What the service works with.
struct Workers {
    /// Tokio's semaphore is fair: those who wait for a turn are the queue.
    turns: Semaphore,
    idle: Mutex<Idle>,
}

struct Idle {
    /// Since when each idle worker has been idle.
    since: Vec<Instant>,
    service_time: Exp<f64>,
    random: StdRng,
}

impl Workers {
    fn new() -> Self {
        let rate = 1.0 / SERVICE_TIME.as_secs_f64();
        let idle = Idle {
            since: vec![Instant::now(); WORKERS],
            service_time: Exp::new(rate).expect("the mean is positive"),
            random: StdRng::seed_from_u64(0),
        };
        Self { turns: Semaphore::new(WORKERS), idle: Mutex::new(idle) }
    }

    /// Works on a request that arrives now, once a worker is free.
    async fn work(&self) {
        let arrived = Instant::now();
        let _turn = self.turns.acquire().await;
        let done_at = {
            let mut idle = self.idle();
            let Idle { since, service_time, random } = &mut *idle;
            let idle_since = since.pop().expect("who has a turn finds a worker");
            // From when the work could begin: timers that fire late, as all do,
            // cost the service nothing of its capacity.
            idle_since.max(arrived) + Duration::from_secs_f64(service_time.sample(random))
        };
        sleep_until(done_at).await;
        self.idle().since.push(done_at);
    }

    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn serve(listener: TcpListener) {
    let workers = Arc::new(Workers::new());
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of descriptors: some will be closed.
            tokio::time::sleep(Duration::from_millis(10)).await;
            continue;
        };
        let workers = Arc::clone(&workers);
        let answer = service_fn(move |_| {
            let workers = Arc::clone(&workers);
            async move {
                // Like most services, it goes on when its client has given up.
                let _ = tokio::spawn(async move { workers.work().await }).await;
                Ok::<_, Infallible>(Response::new(Full::new(Bytes::from_static(b"done\n"))))
            }
        });
        tokio::spawn(async move {
            // A client that hangs up is no concern of the service.
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await;
        });
    }
}
