//! Requests as fast as a server answers them, by wrk.

use std::process::Stdio;

use anyhow::{Context, Result, ensure};

use crate::process::{Server, pinned};

/// The load generator, with one thread.
#[derive(Clone, Copy, Debug)]
pub struct Wrk {
    /// Where it runs.
    pub core: usize,
    /// How many connections it keeps alive.
    pub connections: u32,
}

/// What was asked.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// All requests that were answered.
    pub requests: f64,
    /// Those answered with something else than success.
    pub rejected: f64,
}

impl Wrk {
    /// Asks `server` for `path` for so many seconds, on all connections.
    ///
    /// # Errors
    /// If wrk cannot be run, or connections fail.
    pub fn load(self, server: &Server, path: &str, seconds: u32) -> Result<Load> {
        let url = format!("http://{}{path}", server.address);
        let (connections, seconds) = (self.connections.to_string(), format!("{seconds}s"));
        let wrk =
            ["wrk", "--threads", "1", "--connections", &connections, "--duration", &seconds, &url];
        let output = pinned(self.core, &wrk)
            .stderr(Stdio::inherit())
            .output()
            .context("wrk could not be started")?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(!text.contains("Socket errors"), "connections failed:\n{text}");
        let line = |part: &str| text.lines().find(|line| line.contains(part));
        let requests = line(" requests in ").and_then(|line| line.split_whitespace().next());
        let rejected = line("Non-2xx").and_then(|line| line.split_whitespace().last());
        Ok(Load {
            requests: requests.with_context(|| format!("wrk counted nothing:\n{text}"))?.parse()?,
            rejected: rejected.unwrap_or("0").parse()?,
        })
    }

    /// Microseconds of the server's CPU time a request, and what was asked.
    ///
    /// # Errors
    /// As for [`Wrk::load`].
    pub fn cost(self, server: &Server, path: &str, seconds: u32) -> Result<(f64, Load)> {
        let before = server.cpu_time();
        let load = self.load(server, path, seconds)?;
        let micros = (server.cpu_time() - before).as_secs_f64() * 1e6 / load.requests;
        Ok((micros, load))
    }
}
