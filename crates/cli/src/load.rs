//! `tamarisk load`: the load generator on the command line.

#[cfg(feature = "services")]
mod arashi;
pub(crate) mod plot;
mod progress;
mod results;
mod summary;
mod urls;

use std::io;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use http::{HeaderName, HeaderValue, Method};
use tamarisk_control::parse_duration;
use tamarisk_load::{
    Change, ClosedLoop, OpenLoop, Plan, Report, RetryAfter, RunError, Schedule, Spacing, Spread,
    WeightedUrl, Workload,
};

use self::progress::Progress;
use self::results::{ResultFiles, ResultOptions};
use crate::arguments::{misunderstood, target_time};
use crate::ending::Ending;
use crate::interrupt::asked_to_end;

const EXAMPLES: &str = "\
Examples:
  A flash crowd of users who think for 20 ms, and come back 5 s after a rejection:
    tamarisk load http://127.0.0.1:8080/ --users 3 --spike 1000@10s..40s --think 20ms --after-reject 5s
  A stream of 500 requests a second, ten times as many between 10 s and 20 s, whatever the service does:
    tamarisk load http://127.0.0.1:8080/ --rate 500 --spike 5000@10s..20s --target 200ms
  Users as on the Web, five requests a connection, nine of ten for the front page, results as JSON:
    tamarisk load 9=http://127.0.0.1:8080/ http://127.0.0.1:8080/search --users 64 --think 1s --requests-per-connection 5 --json -
  The pages of a site as often as its log has them (lines such as `120=http://127.0.0.1:8080/a`):
    tamarisk load --urls pages.txt --users 1024 --think 20ms --requests-per-connection 5

Latencies run from the instant when a request was due, so that a stalled server is not flattered.
A status of 503 or 429 is a rejection; any other from 400 on is an error.";

/// Send load to an HTTP service and report its performance
///
/// The load level is a number of users, who wait for each answer before the next request
/// (closed loop, `--users`), or a rate in requests per second, independent of the answers (open
/// loop, `--rate`). `--step`, `--spike` and `--ramp` change it during the run.
#[derive(Debug, Args)]
#[command(
    after_help = EXAMPLES,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true
)]
pub(crate) struct Load {
    #[command(subcommand)]
    service: Option<EmulatedUsers>,

    /// URL to request; several URLs of one server are chosen at random by weight
    #[arg(required_unless_present = "url_file", value_name = "[WEIGHT=]URL")]
    urls: Vec<WeightedUrl>,
    /// File of further URLs, one per line; empty lines and lines that begin with `#` are ignored
    #[arg(id = "url_file", long = "urls", value_name = "FILE")]
    url_file: Option<PathBuf>,

    #[command(flatten)]
    closed: Closed,
    #[command(flatten)]
    open: Open,
    #[command(flatten)]
    changes: Changes,
    #[command(flatten)]
    request: Request,
    /// Answers within this latency count towards the goodput [default: all do]
    #[arg(long, value_name = "TIME", value_parser = target_time, help_heading = "Results")]
    target: Option<Duration>,
    #[command(flatten)]
    results: ResultOptions,
    #[command(flatten)]
    generator: Generator,
}

/// Services whose users are emulated
#[derive(Debug, Subcommand)]
enum EmulatedUsers {
    #[cfg(feature = "services")]
    Arashi(Box<arashi::Arashi>),
    /// Users of Arashi (left out of this build)
    #[cfg(not(feature = "services"))]
    Arashi(crate::not_built::NotBuilt),
}

#[derive(Debug, Args)]
struct Generator {
    /// Number of threads of the generator [default: half of the cores at most]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
    /// Seed of the random choices
    #[arg(long, value_name = "N", default_value_t = 0)]
    seed: u64,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Closed loop")]
struct Closed {
    /// Number of users [default: 1, without --rate]
    #[arg(long, value_name = "N", conflicts_with = "rate")]
    users: Option<u32>,
    /// A user's pause between an answer and the next request
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "0s", conflicts_with = "rate")]
    think: Duration,
    /// A user's pause after a rejection or an error, at least 100ms after an error without an answer
    /// [default: as after an answer]
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "rate")]
    after_reject: Option<Duration>,
    /// After a rejection, wait as long as its Retry-After says
    #[arg(long, conflicts_with = "rate")]
    honour_retry_after: bool,
    /// Vary a user's pauses randomly by up to this share, up and down; a Retry-After only up
    #[arg(long, value_name = "SHARE", value_parser = parse_spread, default_value = "0", conflicts_with = "rate")]
    spread: Spread,
    /// Partly open: send another request whenever the newest has had no answer for this long
    #[arg(long, value_name = "TIME", value_parser = parse_duration, conflicts_with = "rate")]
    resend: Option<Duration>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Open loop")]
struct Open {
    /// Requests per second: `500` or `500/s`
    #[arg(long, value_name = "N", value_parser = parse_rate)]
    rate: Option<f64>,
    /// Distribution of the times between requests
    #[arg(long, value_enum, default_value_t = SpacingOption::Poisson, requires = "rate")]
    spacing: SpacingOption,
    /// Most open connections, divided among the threads: one thread per 16 of them at most, unless
    /// --threads is given [default: what the limit of open files allows, up to 10000]
    #[arg(long, value_name = "N", requires = "rate")]
    connections: Option<usize>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum SpacingOption {
    /// Poisson arrivals: independent users
    Poisson,
    /// Constant intervals
    Constant,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Schedule")]
struct Changes {
    /// Change to LEVEL at TIME: `200@30s`; may be given several times
    #[arg(long = "step", value_name = "LEVEL@TIME", value_parser = Change::step)]
    steps: Vec<Change>,
    /// Change to LEVEL from START to END, then back: `1000@10s..40s`; may be given several times
    #[arg(long = "spike", value_name = "LEVEL@START..END", value_parser = Change::spike)]
    spikes: Vec<Change>,
    /// Change gradually to LEVEL from START to END, and stay: `1000@10s..40s`; may be given several times
    #[arg(long = "ramp", value_name = "LEVEL@START..END", value_parser = Change::ramp)]
    ramps: Vec<Change>,
    /// Duration of the run [default: 10s after the last change]
    #[arg(long, visible_alias = "for", value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Duration>,
}

impl Changes {
    /// The level `base` with these changes.
    fn schedule(&self, base: f64) -> anyhow::Result<Schedule> {
        let changes = [&self.steps, &self.spikes, &self.ramps].into_iter().flatten().copied();
        Schedule::new(base, changes.collect(), self.duration).map_err(misunderstood)
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Requests")]
struct Request {
    /// Request method
    #[arg(short = 'X', long, value_name = "METHOD", default_value = "GET")]
    method: Method,
    /// Request header; may be given several times
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = parse_header)]
    headers: Vec<(HeaderName, HeaderValue)>,
    /// Request body
    #[arg(short, long, value_name = "TEXT")]
    body: Option<String>,
    /// File that holds the request body
    #[arg(long, value_name = "FILE", conflicts_with = "body")]
    body_file: Option<PathBuf>,
    /// Close each connection after this many requests [default: keep it open]
    #[arg(long, value_name = "N")]
    requests_per_connection: Option<NonZeroU32>,
    /// Time limit of a request
    #[arg(long, value_name = "TIME", value_parser = parse_duration, default_value = "10s")]
    timeout: Duration,
}

impl Load {
    pub(crate) fn run(self) -> anyhow::Result<Ending> {
        match self.service {
            #[cfg(feature = "services")]
            Some(EmulatedUsers::Arashi(arashi)) => arashi.run(),
            #[cfg(not(feature = "services"))]
            Some(EmulatedUsers::Arashi(arashi)) => arashi.run("`load arashi`"),
            None => execute(self.plan()?, &self.results),
        }
    }

    fn plan(&self) -> anyhow::Result<Plan> {
        let request = &self.request;
        let mut urls = self.urls.clone();
        if let Some(path) = &self.url_file {
            urls.extend(urls::read(path)?);
        }
        let mut plan = Plan::builder(self.workload()?, urls)
            .method(request.method.clone())
            .timeout(request.timeout)
            .interval(self.results.interval)
            .drain(self.results.drain)
            .seed(self.generator.seed);
        for (name, value) in request.headers.clone() {
            plan = plan.header(name, value);
        }
        if let Some(path) = &request.body_file {
            let body = std::fs::read(path)
                .with_context(|| format!("cannot read the body from {}", path.display()))?;
            plan = plan.body(body);
        } else if let Some(text) = request.body.clone() {
            plan = plan.body(text);
        }
        if let Some(requests) = request.requests_per_connection {
            plan = plan.requests_per_connection(requests);
        }
        if let Some(target) = self.target {
            plan = plan.target(target);
        }
        if let Some(threads) = self.generator.threads {
            plan = plan.threads(threads);
        }
        plan.build().map_err(misunderstood)
    }

    fn workload(&self) -> anyhow::Result<Workload> {
        let users = self.closed.users.unwrap_or(1);
        let base = self.open.rate.unwrap_or_else(|| users.into());
        let level = self.changes.schedule(base)?;
        Ok(match self.open.rate {
            Some(_) => Workload::Open(OpenLoop {
                rate: level,
                spacing: match self.open.spacing {
                    SpacingOption::Poisson => Spacing::Poisson,
                    SpacingOption::Constant => Spacing::Constant,
                },
                connections_max: self.open.connections,
            }),
            None => Workload::Closed(ClosedLoop {
                users: level,
                think: self.closed.think,
                after_reject: self.closed.after_reject.unwrap_or(self.closed.think),
                retry_after: retry_after(self.closed.honour_retry_after),
                spread: self.closed.spread,
                resend: self.closed.resend,
            }),
        })
    }
}

fn retry_after(is_honoured: bool) -> RetryAfter {
    if is_honoured { RetryAfter::Honour } else { RetryAfter::Ignore }
}

/// Runs `plan` and writes its results.
fn execute(plan: Plan, options: &ResultOptions) -> anyhow::Result<Ending> {
    let results = ResultFiles::open(options)?;
    let progress = Progress::new(plan.workload(), options.quiet);
    let report = match generate(plan, progress)? {
        Err(stopped @ RunError::Stopped) => {
            eprintln!("{stopped}");
            return Ok(Ending::Interrupted);
        }
        report => report?,
    };
    results.write(&report)?;
    Ok(match report.total.good {
        _ if report.interrupted => Ending::Interrupted,
        0 => Ending::Unsuccessful,
        _ => Ending::Done,
    })
}

/// Runs `plan` until its end, or until it is asked to end.
fn generate(plan: Plan, mut progress: Progress) -> io::Result<Result<Report, RunError>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(async {
        tamarisk_load::run(plan, asked_to_end(), |interval| progress.show(interval)).await
    });
    // Does not wait for a look-up that goes on after it was stopped.
    runtime.shutdown_background();
    Ok(report)
}

fn parse_header(text: &str) -> Result<(HeaderName, HeaderValue), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or_else(|| format!("`{text}` has no colon; write for example `Accept: text/html`"))?;
    let name = name.trim();
    let name = name.parse().map_err(|_| format!("`{name}` is not the name of a header"))?;
    let value = value.trim();
    let value = value.parse().map_err(|_| format!("`{value}` is not the value of a header"))?;
    Ok((name, value))
}

/// A schedule tells which rates are too high.
fn parse_rate(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix("/s").unwrap_or(text).trim_end();
    number
        .parse()
        .map_err(|_| format!("`{text}` is not a rate; write for example `500` or `500/s`"))
}

fn parse_spread(text: &str) -> Result<Spread, String> {
    let share = text.parse().map_err(|_| "write a share from 0 to 1, for example `0.5`")?;
    Spread::new(share).map_err(|error| error.to_string())
}
