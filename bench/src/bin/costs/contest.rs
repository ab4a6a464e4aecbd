//! Loads on several servers in turn, and what a request costs each of them.

use anyhow::{Context, Result};
use tamarisk_bench::process::{Server, pinned};
use tamarisk_bench::spread;

use crate::resuming::Resuming;

/// Where servers run that are measured.
pub(crate) const SERVER_CORE: usize = 0;
/// Where everything else runs.
pub(crate) const OTHER_CORE: usize = 1;

/// What is measured, and for how long.
pub(crate) struct Effort {
    /// The `tamarisk` program.
    pub(crate) program: String,
    pub(crate) rounds: usize,
    /// Seconds of load in a round on each server.
    pub(crate) seconds: u32,
}

/// What is asked of a server.
pub(crate) enum Load {
    /// wrk on 16 connections: what is asked for, and further arguments.
    Http1(String, Vec<String>),
    /// h2load over TLS with 8 streams on each of 8 connections.
    Http2(String),
    /// A TLS 1.3 connection for each request, on which the session before is resumed.
    Resumed(Resuming),
}

/// A server in a row.
pub(crate) struct Contender<'s> {
    pub(crate) name: &'static str,
    pub(crate) server: &'s Server,
    pub(crate) load: Load,
}

impl Contender<'_> {
    /// Loads the server for `seconds`; how many requests were answered.
    fn load(&self, seconds: u32) -> Result<f64> {
        let address = self.server.address;
        let seconds = seconds.to_string();
        match &self.load {
            Load::Http1(path, more) => {
                let url = format!("http://{address}{path}");
                let mut wrk = vec!["wrk", "-t1", "-c16", "-d", &seconds];
                wrk.extend(more.iter().map(String::as_str));
                wrk.push(&url);
                let text = output(&wrk)?;
                let line = text.lines().find(|line| line.contains(" requests in "));
                first_number(line, &text)
            }
            Load::Http2(path) => {
                let url = format!("https://{address}{path}");
                let text = output(&["h2load", "-t1", "-c8", "-m8", "-D", &seconds, &url])?;
                let line = text.lines().find_map(|line| line.strip_prefix("requests: "));
                let done = line.and_then(|line| line.split(", ").find(|it| it.ends_with(" done")));
                first_number(done, &text)
            }
            Load::Resumed(client) => client.load(address, seconds.parse()?),
        }
    }

    /// Microseconds of CPU time a request.
    fn cost(&self, seconds: u32) -> Result<f64> {
        let before = self.server.cpu_time();
        let requests = self.load(seconds)?;
        Ok((self.server.cpu_time() - before).as_secs_f64() * 1e6 / requests)
    }
}

/// Loads all contenders in turn and prints what a request costs each, and what the first costs
/// divided by each of the others, paired.
///
/// # Errors
/// If a load generator fails.
pub(crate) fn compare(effort: &Effort, what: &str, contenders: &[Contender<'_>]) -> Result<()> {
    let mut costs = vec![Vec::new(); contenders.len()];
    for contender in contenders {
        contender.load(1).with_context(|| format!("{what}: {}", contender.name))?;
    }
    for _ in 0..effort.rounds {
        for (contender, costs) in contenders.iter().zip(&mut costs) {
            costs.push(contender.cost(effort.seconds)?);
        }
    }
    println!("{what}: µs of CPU time a request, median of {} (least … greatest)", effort.rounds);
    for (contender, own) in contenders.iter().zip(&costs) {
        let ratios: Vec<_> = costs[0].iter().zip(own).map(|(first, own)| first / own).collect();
        println!(
            "  {:<24}{}   {} ÷ it: {}",
            contender.name,
            spread(own.clone()),
            contenders[0].name,
            spread(ratios)
        );
    }
    Ok(())
}

fn output(command: &[&str]) -> Result<String> {
    let output = pinned(OTHER_CORE, command).output();
    let output = output.with_context(|| format!("{} could not be started", command[0]))?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn first_number(line: Option<&str>, text: &str) -> Result<f64> {
    let number = line.and_then(|line| line.split_whitespace().next()).and_then(|n| n.parse().ok());
    number.filter(|number| *number > 0.0).with_context(|| format!("nothing was counted:\n{text}"))
}
