//! The mailboxes of all runs, and runs on copies of them.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tamarisk_bench::load::{load, number};
use tamarisk_bench::process::{Scratch, Server, free_address, tamarisk};
use tamarisk_bench::spread;

const SERVER_CORE: usize = 0;
const CLIENT_CORE: usize = 1;
const PASSWORD: &str = "load-test";
/// Pauses vary by as much up and down: users who are rejected together do not return together.
const SPREAD: &str = "0.5";
/// Of the two classes that are told apart.
pub(crate) const GOLD_SHARE: &str = "0.5";

/// What the load generator calls a type of request, and the service the stage that serves it.
const STAGES: [(&str, &str); 8] = [
    ("login", "log-in"),
    ("list-folders", "folders"),
    ("list-messages", "list"),
    ("show-message", "message"),
    ("delete", "delete"),
    ("refile", "refile"),
    ("search", "search"),
    ("log-out", "log-out"),
];

/// Without load; the median of as many measurements, for one alone differs by a quarter from the next.
const UNLOADED_SECONDS: u32 = 30;
const UNLOADED_REPETITIONS: usize = 5;

/// The part of a target that a stage is given.
const WITHIN_STAGE: f64 = 0.75;

/// Without control, and without degradation.
pub(crate) const OPEN: [&str; 3] = ["--law", "open", "--no-degradation"];

/// A database that is copied for each run.
pub(crate) struct Mailboxes<'s> {
    scratch: &'s Scratch,
    original: PathBuf,
    accounts: String,
}

/// How fast each type of request is to be answered, in seconds.
pub(crate) struct Targets(Vec<(&'static str, f64)>);

impl<'s> Mailboxes<'s> {
    /// Accounts with mail in the database `name`, the last of them gold.
    pub(crate) fn prepare(
        scratch: &'s Scratch,
        name: &str,
        accounts: u32,
        gold_share: &str,
    ) -> Result<Self> {
        let original = scratch.path().join(format!("{name}.db"));
        let accounts = accounts.to_string();
        let database = format!("sqlite:{}", original.display());
        #[rustfmt::skip]
        let prepared = Command::new(tamarisk()?)
            .args(["load", "arashi", "prepare", "--database", &database, "--accounts", &accounts])
            .args(["--password", PASSWORD, "--gold-share", gold_share, "--seed", "1"])
            .status()
            .context("the mailboxes could not be prepared")?;
        ensure!(prepared.success(), "the mailboxes could not be prepared: {prepared}");
        Ok(Self { scratch, original, accounts })
    }

    /// The report of users who load a service, started with these options, on fresh mailboxes.
    pub(crate) fn run(&self, serving: &[&str], users: &[&str]) -> Result<Value> {
        let copy = self.scratch.path().join("copy.db");
        for suffix in ["", "-wal", "-shm"] {
            let of = |path: &PathBuf| PathBuf::from(format!("{}{suffix}", path.display()));
            let (from, to) = (of(&self.original), of(&copy));
            if from.exists() {
                fs::copy(from, &to)?;
                // Else the service's first checkpoint writes all of it.
                File::open(to)?.sync_all()?;
            } else if to.exists() {
                fs::remove_file(to)?;
            }
        }
        let address = free_address()?;
        let (command, listen) = (tamarisk()?.display().to_string(), address.to_string());
        let database = format!("sqlite:{}", copy.display());
        let command = [&*command, "mail", "--listen", &listen, "--database", &database];
        let _server = Server::start(SERVER_CORE, &[&command, serving].concat(), address)?;
        let url = format!("http://{address}/");
        #[rustfmt::skip]
        let arguments = [
            "arashi", &*url, "--threads", "1", "--account-count", &*self.accounts,
            "--password", PASSWORD, "--spread", SPREAD,
        ];
        load(Some(CLIENT_CORE), &[&arguments, users].concat())
    }
}

impl Targets {
    /// Ten times the 90th percentile of each type while the service is idle nearly always.
    pub(crate) fn measure(mailboxes: &Mailboxes<'_>) -> Result<Self> {
        let reports = unloaded(mailboxes)?;
        let target = |(request_type, _): (&'static str, &str)| {
            let of = |report: &Value| {
                ten_times_p90(group(&report["groups"], None, Some(request_type))?)
                    .with_context(|| format!("`{request_type}` without load"))
            };
            let targets = spread(reports.iter().map(of).collect::<Result<_>>()?);
            eprintln!("target of {request_type:13}, 10 × the p90 without load, ms: {targets}");
            Ok((request_type, targets.median / 1e3))
        };
        Ok(Self(STAGES.into_iter().map(target).collect::<Result<_>>()?))
    }

    /// The same for all types, as a single stage has it: ten times the 90th percentile of all.
    pub(crate) fn measure_one(mailboxes: &Mailboxes<'_>) -> Result<Self> {
        let reports = unloaded(mailboxes)?;
        let of = |report: &Value| ten_times_p90(&report["total"]);
        let targets = spread(reports.iter().map(of).collect::<Result<_>>()?);
        eprintln!("target, 10 × the p90 without load, ms: {targets}");
        Ok(Self(STAGES.map(|(request_type, _)| (request_type, targets.median / 1e3)).into()))
    }

    /// As options of the service, whose stages do not see how long a request is read and its answer
    /// sent.
    pub(crate) fn serving(&self) -> Vec<String> {
        let stated = self.0.iter().zip(STAGES);
        stated
            .flat_map(|((_, at), (_, stage))| {
                ["--p90".into(), format!("{stage}={:.3}ms", 1e3 * WITHIN_STAGE * at)]
            })
            .collect()
    }

    /// As options of the load generator.
    pub(crate) fn loading(&self) -> Vec<String> {
        let stated = self.0.iter();
        stated
            .flat_map(|(name, at)| ["--target".into(), format!("{name}={:.3}ms", 1e3 * at)])
            .collect()
    }
}

/// What users see who are hardly ever two at a time, with mailboxes of many sizes.
fn unloaded(mailboxes: &Mailboxes<'_>) -> Result<Vec<Value>> {
    let lasting = format!("{UNLOADED_SECONDS}s");
    #[rustfmt::skip]
    let users = ["--users", "64", "--think", "500ms", "--for", &lasting];
    (0..UNLOADED_REPETITIONS).map(|_| mailboxes.run(&OPEN, &users)).collect()
}

/// In milliseconds.
fn ten_times_p90(of: &Value) -> Result<f64> {
    ensure!(number(&of["latency"]["count"])? > 0.0, "not one was answered");
    Ok(10.0 * 1e3 * number(&of["latency"]["p90"])?)
}

/// Of some groups of a report that of this class and type.
pub(crate) fn group<'r>(
    groups: &'r Value,
    class: Option<&str>,
    request_type: Option<&str>,
) -> Result<&'r Value> {
    let groups = groups.as_array().context("the report has no groups")?;
    let is_it = |group: &&Value| {
        group["class"].as_str() == class && group["request_type"].as_str() == request_type
    };
    groups.iter().find(is_it).with_context(|| format!("no group {class:?} {request_type:?}"))
}
