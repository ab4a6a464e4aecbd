//! Experiments at constant levels of load.

use anyhow::Result;
use serde_json::{Value, json};
use tamarisk_bench::load::{in_target, number, p90};
use tamarisk_bench::spread_of_numbers;
use tamarisk_plot::{Across, Scale, Unit};

use crate::Options;
use crate::mailboxes::{Mailboxes, OPEN, Targets};
use crate::report::{figure, median_of_known, panel, print_types, share, write};

/// What comes before is not judged.
const SETTLED_SECONDS: u32 = 10;

/// Options of the service, and what they are called.
type Way<'w> = (&'w str, Vec<&'w str>);

/// The part of a run at this level that is judged, of each repetition.
pub(crate) fn at_level(
    options: &Options,
    mailboxes: &Mailboxes<'_>,
    serving: &[&str],
    users: u32,
    targets: &Targets,
) -> Result<Vec<Value>> {
    let (level, again) = (users.to_string(), format!("{users}@{SETTLED_SECONDS}s"));
    let lasting = format!("{}s", SETTLED_SECONDS + options.seconds);
    let targets = targets.loading();
    let mut loading: Vec<_> = targets.iter().map(String::as_str).collect();
    // The same level once more: the report then has a phase that begins here.
    loading.extend(["--users", &level, "--step", &again, "--for", &lasting]);
    let run = |_| Ok(mailboxes.run(serving, &loading)?["phases"][1].take());
    (0..options.repetitions).map(run).collect()
}

pub(crate) fn users(options: &Options, mailboxes: &Mailboxes<'_>, targets: &Targets) -> Result<()> {
    let controlled = targets.serving();
    let controlled: Vec<_> = controlled.iter().map(String::as_str).collect();
    let ways: [Way<'_>; 2] = [("with control", controlled), ("without", OPEN.to_vec())];
    println!("1 to 1024 users: median of {} (least … greatest)", options.repetitions);
    let mut results = Vec::new();
    for &level in &options.users {
        for (name, serving) in &ways {
            let phases = at_level(options, mailboxes, serving, level, targets)?;
            print_level(&format!("{level} users, {name}"), &phases)?;
            if matches!(level, 16 | 1024) {
                print_types("  by type", &phases.iter().collect::<Vec<_>>())?;
            }
            results.push(json!({ "users": level, "way": name, "runs": phases }));
        }
    }
    let lines = |value: fn(&Value) -> Result<f64>| -> Result<Vec<_>> {
        let points = |name: &str| -> Result<_> {
            let of_way = results.iter().filter(|result| result["way"] == name);
            of_way
                .map(|result| {
                    let runs = result["runs"].as_array().into_iter().flatten();
                    let found = spread_of_numbers(runs.map(value).collect::<Result<_>>()?);
                    Ok((number(&result["users"])?, found.map(|found| found.median)))
                })
                .collect::<Result<_>>()
        };
        ways.iter().map(|(name, _)| Ok(((*name).to_owned(), points(name)?))).collect()
    };
    let panels = vec![
        panel(
            "Requests a second",
            Unit::Count,
            Scale::Linear,
            lines(|r| number(&r["throughput"]))?,
        ),
        panel("90th percentile", Unit::Seconds, Scale::Log, lines(p90)?),
        panel("Share within targets", Unit::Count, Scale::Linear, lines(in_target)?),
        panel("Share rejected", Unit::Count, Scale::Linear, lines(|r| share(r, "rejected"))?),
    ];
    let [from, to] = [options.users.iter().min(), options.users.iter().max()];
    let [from, to] = [from, to].map(|users| f64::from(*users.unwrap_or(&1)));
    let across = Across { label: "users".into(), from, to: to.max(from + 1.0), scale: Scale::Log };
    write(
        &options.out,
        "users",
        &json!(results),
        &figure("Load of 1 to 1024 users", across, panels),
    )
}

fn print_level(title: &str, phases: &[Value]) -> Result<()> {
    let all = |value: fn(&Value) -> Result<f64>| -> Result<_> {
        Ok(median_of_known(phases.iter().map(value).collect::<Result<_>>()?))
    };
    println!("{title}");
    println!("  answered a second     {}", all(|r| number(&r["throughput"]))?);
    println!("  in target a second    {}", all(|r| number(&r["goodput"]))?);
    println!("  p90, ms               {}", all(|r| Ok(1e3 * p90(r)?))?);
    println!("  answers in target, %  {}", all(|r| Ok(100.0 * in_target(r)?))?);
    println!("  rejected, %           {}", all(|r| Ok(100.0 * share(r, "rejected")?))?);
    println!("  failed, %             {}", all(|r| Ok(100.0 * share(r, "failed")?))?);
    println!("  generator late, p99 ms{}", all(|r| Ok(1e3 * number(&r["generator_lag"]["p99"])?))?);
    Ok(())
}

pub(crate) fn stages(options: &Options, mailboxes: &Mailboxes<'_>) -> Result<()> {
    const USERS: u32 = 128;
    let targets = Targets::measure_one(mailboxes)?;
    let each = targets.serving();
    let each: Vec<_> = each.iter().map(String::as_str).chain(["--no-degradation"]).collect();
    let one = [&each[..], &["--single-stage"]].concat();
    let mut results = Vec::new();
    for (name, serving) in [("a stage a type", each), ("a single stage", one)] {
        let phases = at_level(options, mailboxes, &serving, USERS, &targets)?;
        print_level(&format!("{USERS} users, {name}"), &phases)?;
        print_types("  by type", &phases.iter().collect::<Vec<_>>())?;
        results.push(json!({ "way": name, "runs": phases }));
    }
    std::fs::write(options.out.join("stages.json"), serde_json::to_string_pretty(&results)?)?;
    Ok(())
}

pub(crate) fn throughput(
    options: &Options,
    mailboxes: &Mailboxes<'_>,
    targets: &Targets,
) -> Result<()> {
    let mut results = Vec::new();
    for users in [32, 64, 128] {
        let phases = at_level(options, mailboxes, &OPEN, users, targets)?;
        print_level(&format!("{users} users, without control"), &phases)?;
        print_types("  by type", &phases.iter().collect::<Vec<_>>())?;
        results.push(json!({ "users": users, "runs": phases }));
    }
    std::fs::write(options.out.join("throughput.json"), serde_json::to_string_pretty(&results)?)?;
    Ok(())
}
