//! Experiments in which many users come at once.

use std::ops::Range;

use anyhow::{Context, Result};
use serde_json::{Value, json};
use tamarisk_bench::load::{in_target, number, p90, settled_after};
use tamarisk_bench::process::Scratch;
use tamarisk_bench::spread;
use tamarisk_plot::{Across, Scale, Unit};

use crate::Options;
use crate::mailboxes::{GOLD_SHARE, Mailboxes, OPEN, Targets, group};
use crate::report::{
    Points, figure, median_of_known, milliseconds, panel, percent, print_types, served, share,
    write,
};
use crate::steady::at_level;

/// When the crowd comes, and how long the run goes on after it has left.
const BEFORE_SECONDS: u32 = 10;

/// From users who leave the core idle at times to users of whom some wait for too long.
const CAPACITY_USERS: [u32; 3] = [96, 160, 256];

/// In the order of the load generator's accounts.
const CLASSES: [&str; 2] = ["bronze", "gold"];

/// A way to serve, and a run of it.
struct Run<'w> {
    name: &'w str,
    report: Value,
}

pub(crate) fn spike(options: &Options, mailboxes: &Mailboxes<'_>, targets: &Targets) -> Result<()> {
    let controlled = targets.serving();
    let controlled: Vec<_> = controlled.iter().map(String::as_str).collect();
    let ways = [("with control", controlled), ("without", OPEN.to_vec())];
    let runs = crowds(options, mailboxes, targets, &ways, &from_3_to_1000(options))?;
    let capacity = capacity(options, mailboxes, targets)?;
    let of = |value: &dyn Fn(&Value) -> Result<f64>| -> Result<_> {
        let runs = runs.iter().filter(|run| run.name == "with control");
        Ok(spread(runs.map(|run| value(&run.report)).collect::<Result<_>>()?))
    };
    println!(
        "flash crowd with control ÷ capacity ({capacity:.0} a second): median (least … greatest)"
    );
    println!(
        "  goodput               {}",
        of(&|r| Ok(number(&r["phases"][1]["goodput"])? / capacity))?
    );
    println!("  s until p90 in target {}", of(&|r| settled_after(r, crowd(options)))?);
    write_runs(options, "spike", "A flash crowd: 3 to 1000 users", &runs)
}

pub(crate) fn degradation(
    options: &Options,
    mailboxes: &Mailboxes<'_>,
    targets: &Targets,
) -> Result<()> {
    let admitting = targets.serving();
    let admitting: Vec<_> = admitting.iter().map(String::as_str).collect();
    let alone = [&admitting[..], &["--law", "open"]].concat();
    let ways =
        [("degradation alone", alone), ("with admission", admitting), ("neither", OPEN.to_vec())];
    let runs = crowds(options, mailboxes, targets, &ways, &from_3_to_1000(options))?;
    write_runs(options, "degradation", "Degradation alone and with admission", &runs)
}

pub(crate) fn classes(options: &Options, scratch: &Scratch, targets: &Targets) -> Result<()> {
    let each = options.class_users;
    // User n has account n: those who come later are the gold ones, or are taken for such.
    let differing = Mailboxes::prepare(scratch, "classes", 2 * each, GOLD_SHARE)?;
    let alike = Mailboxes::prepare(scratch, "one-class", 2 * each, "0")?;
    let serving = targets.serving();
    let serving: Vec<_> = serving.iter().map(String::as_str).collect();
    let users = gold_comes(options, each);
    let mut runs = Vec::new();
    for (name, mailboxes) in [("told apart", &differing), ("alike", &alike)] {
        let ways = [(name, serving.clone())];
        runs.extend(crowds(options, mailboxes, targets, &ways, &users)?);
    }
    for run in &runs {
        println!("{}, from a second after the gold users have come", run.name);
        for class in CLASSES {
            let group = group(&run.report["phases"][2]["groups"], Some(class), None)?;
            println!(
                "  {class:6} rejected {:5.1}%, of the answers in target {:>6}, failed {:4.1}%",
                100.0 * share(group, "rejected")?,
                percent(in_target(group)?),
                100.0 * share(group, "failed")?,
            );
        }
    }
    println!("served in target, of all that has a target: median (least … greatest)");
    for (when, phases) in
        [("while both classes are there", 1..=2), ("without the first second", 2..=2)]
    {
        println!("{when}");
        for (way, class) in [("told apart", 0), ("told apart", 1), ("alike", 0), ("alike", 1)] {
            let class = CLASSES[class];
            let of_way = runs.iter().filter(|run| run.name == way);
            let shares = of_way.map(|run| {
                let all = run.report["phases"].as_array().context("the report has no phases")?;
                Ok(100.0 * served(&all[phases.clone()], class)?)
            });
            println!("  {way}, {class:6} {} %", median_of_known(shares.collect::<Result<_>>()?));
        }
    }
    let lines = |value: fn(&Value) -> Result<f64>| -> Result<Vec<_>> {
        let of_class = |(run, class): (&Run<'_>, usize)| {
            let name = format!("{}, {}", CLASSES[class], run.name);
            Ok((name, over_time(run, &|interval| value(&interval["classes"][class]))?))
        };
        let each = |run| (0..CLASSES.len()).map(move |class| (run, class));
        last_runs(&runs).flat_map(each).map(of_class).collect()
    };
    let panels = vec![
        panel("90th percentile", Unit::Seconds, Scale::Log, lines(p90)?),
        panel("Share rejected", Unit::Count, Scale::Linear, lines(|c| share(c, "rejected"))?),
    ];
    let figure = figure(&format!("Two classes of {each} users"), lasting(options), panels);
    write(&options.out, "classes", &results(&runs), &figure)
}

/// How many users there are when.
struct Users {
    /// Of the load generator.
    arguments: Vec<String>,
    /// The phase of the report that is shown.
    phase: usize,
}

fn leaving(options: &Options) -> u32 {
    BEFORE_SECONDS + options.seconds
}

fn from_3_to_1000(options: &Options) -> Users {
    let spike = format!("1000@{BEFORE_SECONDS}s..{}s", leaving(options));
    let arguments = ["--users", "3", "--spike", &spike].map(str::to_owned).into();
    Users { arguments, phase: 1 }
}

/// As many gold users come as there are bronze ones, all at once; the report has their first second
/// for itself.
fn gold_comes(options: &Options, each: u32) -> Users {
    let at = |level: u32, second: u32| format!("{level}@{second}s");
    let [come, settled, leave] = [
        at(2 * each, BEFORE_SECONDS),
        at(2 * each, BEFORE_SECONDS + 1),
        at(each, leaving(options)),
    ];
    let each = each.to_string();
    let arguments = [
        "--users",
        &each,
        "--step",
        &come,
        "--step",
        &settled,
        "--step",
        &leave,
        "--gold-share",
        GOLD_SHARE,
    ];
    Users { arguments: arguments.map(str::to_owned).into(), phase: 2 }
}

/// A run of each way in turn, as often as asked for.
fn crowds<'w>(
    options: &Options,
    mailboxes: &Mailboxes<'_>,
    targets: &Targets,
    ways: &[(&'w str, Vec<&str>)],
    users: &Users,
) -> Result<Vec<Run<'w>>> {
    let lasting = format!("{}s", leaving(options) + BEFORE_SECONDS);
    let targets = targets.loading();
    let mut loading: Vec<_> = targets.iter().map(String::as_str).collect();
    loading.extend(users.arguments.iter().map(String::as_str));
    loading.extend(["--for", &lasting]);
    let mut runs = Vec::new();
    for _ in 0..options.repetitions {
        for (name, serving) in ways {
            let report = mailboxes.run(serving, &loading)?;
            let crowd = &report["phases"][users.phase];
            println!(
                "{name}: {:.0} a second in target of {:.0}, p90 {} ms, in target {}, rejected {:.1}%",
                number(&crowd["goodput"])?,
                number(&crowd["throughput"])?,
                milliseconds(p90(crowd)?, 0),
                percent(in_target(crowd)?),
                100.0 * share(crowd, "rejected")?,
            );
            runs.push(Run { name, report });
        }
    }
    for (name, _) in ways {
        let of_way = runs.iter().filter(|run| run.name == *name);
        let crowds: Vec<_> = of_way.map(|run| &run.report["phases"][users.phase]).collect();
        print_types(&format!("{name}: the crowd"), &crowds)?;
    }
    Ok(runs)
}

/// Requests a second that are answered in time where as many users are there as is best.
fn capacity(options: &Options, mailboxes: &Mailboxes<'_>, targets: &Targets) -> Result<f64> {
    let mut most: f64 = 0.0;
    for users in CAPACITY_USERS {
        let phases = at_level(options, mailboxes, &OPEN, users, targets)?;
        let goodput = phases.iter().map(|phase| number(&phase["goodput"]));
        most = most.max(spread(goodput.collect::<Result<_>>()?).median);
    }
    Ok(most)
}

/// When the crowd is there, in seconds.
fn crowd(options: &Options) -> Range<f64> {
    f64::from(BEFORE_SECONDS)..f64::from(leaving(options))
}

fn write_runs(options: &Options, name: &str, title: &str, runs: &[Run<'_>]) -> Result<()> {
    let lines = |value: fn(&Value) -> Result<f64>| -> Result<Vec<_>> {
        last_runs(runs).map(|run| Ok((run.name.to_owned(), over_time(run, &value)?))).collect()
    };
    let panels = vec![
        panel("90th percentile", Unit::Seconds, Scale::Log, lines(p90)?),
        panel(
            "Answers a second within targets",
            Unit::Count,
            Scale::Linear,
            lines(|i| number(&i["good"]))?,
        ),
        panel("Share of answers within targets", Unit::Count, Scale::Linear, lines(in_target)?),
        panel("Share rejected", Unit::Count, Scale::Linear, lines(|i| share(i, "rejected"))?),
    ];
    write(&options.out, name, &results(runs), &figure(title, lasting(options), panels))
}

/// The last run of each way.
fn last_runs<'r, 'w>(runs: &'r [Run<'w>]) -> impl Iterator<Item = &'r Run<'w>> {
    let is_last = |(index, run): &(usize, &Run<'_>)| {
        runs[index + 1..].iter().all(|later| later.name != run.name)
    };
    runs.iter().enumerate().filter(is_last).map(|(_, run)| run)
}

fn over_time(run: &Run<'_>, value: &dyn Fn(&Value) -> Result<f64>) -> Result<Points> {
    let series = run.report["series"].as_array().context("the report has no series")?;
    series
        .iter()
        .map(|interval| {
            let value = value(interval)?;
            // Where nothing was answered there is no percentile.
            Ok((number(&interval["start"])?, value.is_finite().then_some(value)))
        })
        .collect()
}

fn lasting(options: &Options) -> Across {
    Across::seconds(f64::from(2 * BEFORE_SECONDS + options.seconds))
}

fn results(runs: &[Run<'_>]) -> Value {
    runs.iter().map(|run| json!({ "way": run.name, "report": run.report })).collect()
}
