//! `tamarisk sim` and `tamarisk model` on the example scenarios.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tamarisk_control::{PerSecond, Target};
use tamarisk_model::capacity::least_workers;

fn tamarisk(args: &[&str]) -> Output {
    command(args).output().unwrap()
}

/// Where the scenarios are.
fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tamarisk"));
    command.current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).args(args);
    command
}

fn json(args: &[&str]) -> Value {
    let output = tamarisk(&[args, &["--json", "-"]].concat());
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn stdout(output: &Output) -> &str {
    std::str::from_utf8(&output.stdout).unwrap()
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

fn scratch(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// That the simulated `measure` holds `value` within its confidence interval.
fn assert_covers(measure: &Value, value: f64) {
    let [mean, half_width] = ["mean", "half_width"].map(|key| measure[key].as_f64().unwrap());
    assert!(half_width > 0.0 && half_width < 0.1 * mean, "{measure}");
    assert!((mean - value).abs() <= half_width, "{measure} is not {value}");
}

#[test]
fn the_simulator_and_the_closed_form_agree_on_three_stages() {
    let scenario = "scenarios/slow-database.toml";
    let model = json(&["model", scenario]);
    let run = json(&["sim", "run", scenario, "--seeds", "4"]);
    let law = &run["laws"][0];
    let class = &law["classes"][0];
    assert_eq!(law["name"], "open");
    assert_eq!(run["capacity_per_second"], model["greatest_stable_rate"]);
    assert_covers(&class["offered"], 200.0);
    assert_covers(&class["response_mean_seconds"], model["end_to_end"]["mean"].as_f64().unwrap());
    assert_covers(&class["response_at_seconds"], model["end_to_end"]["p90"].as_f64().unwrap());
    for (simulated, solved) in
        law["stages"].as_array().unwrap().iter().zip(model["stages"].as_array().unwrap())
    {
        assert_eq!(simulated["name"], solved["name"]);
        let workers = solved["workers"].as_f64().unwrap();
        assert_covers(&simulated["running"], workers * solved["utilisation"].as_f64().unwrap());
    }
}

#[test]
fn a_law_keeps_the_target_where_none_loses_everything() {
    let laws = "open,predict-gate-trim";
    let run = json(&["sim", "compare", "scenarios/ten-fold.toml", "--laws", laws, "--seeds", "2"]);
    let goodput = |law: usize| run["laws"][law]["classes"][0]["goodput"]["mean"].as_f64().unwrap();
    assert_eq!(run["capacity_per_second"], 400.0);
    assert!(goodput(0) < 4.0 && goodput(1) > 360.0, "{run}");
}

#[test]
fn what_falls_to_each_stage_under_a_global_law_is_shown() {
    let scenario = "scenarios/three-stages.toml";
    let law = &json(&["sim", "run", scenario])["laws"][0];
    assert_eq!(law["name"], "predict-gate-trim + global-controller");
    assert!(law["classes"][0]["response_at_seconds"]["mean"].as_f64().unwrap() < 0.3);
    let shares: Vec<_> =
        law["stages"].as_array().unwrap().iter().map(|stage| &stage["share"]).collect();
    let promised = |share: &Value| share["target_seconds"][0].as_f64().unwrap();
    assert!(shares.iter().all(|share| promised(share) > 0.05 && promised(share) < 0.25));
    assert!(shares.iter().all(|share| (share["visits"].as_f64().unwrap() - 1.0).abs() < 0.1));
    let output = tamarisk(&["sim", "run", scenario, "--quiet"]);
    assert!(stdout(&output).contains("asked of it/s"), "{}", stdout(&output));
}

#[test]
fn what_goes_first_is_served_first() {
    let run = json(&[
        "sim",
        "compare",
        "scenarios/two-classes.toml",
        "--laws",
        "predict-gate-trim",
        "--seeds",
        "2",
    ]);
    let classes = &run["laws"][0]["classes"];
    let mean = |index: usize, key: &str| classes[index][key]["mean"].as_f64().unwrap();
    assert_eq!(classes[0]["name"], "gold");
    assert!(mean(0, "goodput") > 0.95 * mean(0, "offered"), "{run}");
    assert!(mean(1, "goodput") < 0.2 * mean(1, "offered"), "{run}");
}

#[test]
fn laws_that_did_not_act_are_said_to_be_alike() {
    let compared = |rate: &str| {
        let file = scratch(&format!("alike-{rate}.toml"));
        let text = format!(
            "duration = '20s'\np90 = '200ms'\n[stages.web]\nworkers = 4\n\
             service = {{ exponential = '20ms' }}\n[clients.crowd]\nopen = '{rate}/s'\n"
        );
        std::fs::write(&file, text).unwrap();
        let laws = ["--laws", "open,codel,predict-gate-trim", "--seeds", "2"];
        let output = tamarisk(&[&["sim", "compare", file.to_str().unwrap()][..], &laws].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output).to_owned()
    };
    let calm = compared("20");
    assert!(calm.contains("\nNo law acted: ") && calm.contains("Raise the load"), "{calm}");
    let overload = compared("400");
    assert!(!overload.contains("No law acted"), "{overload}");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let run = |name: &str| {
        let [csv, svg] = ["csv", "svg"].map(|ending| scratch(&format!("{name}.{ending}")));
        let [csv, svg] = [csv.to_str().unwrap(), svg.to_str().unwrap()];
        let args = ["sim", "run", "scenarios/spike.toml", "--seed", "7", "--json", "-"];
        let output = tamarisk(&[&args[..], &["--csv", csv, "--plot", svg]].concat());
        assert!(output.status.success(), "{}", stderr(&output));
        (output.stdout, std::fs::read(csv).unwrap(), std::fs::read(svg).unwrap())
    };
    let first = run("first");
    assert!(first == run("second"));
    let rows = String::from_utf8(first.1).unwrap();
    assert_eq!(rows.lines().count(), 1 + 60);
    assert!(first.2.starts_with(b"<svg"));
    assert!(!scratch("first.csv.partial").exists());
    let other = json(&["sim", "run", "scenarios/spike.toml", "--seed", "8"]);
    assert!(serde_json::from_slice::<Value>(&first.0).unwrap()["laws"] != other["laws"]);
}

#[test]
fn what_slow_laws_set_is_shown_where_there_are_any() {
    let [csv, svg] = ["composed.csv", "composed.svg"].map(scratch);
    let files = ["--csv", csv.to_str().unwrap(), "--plot", svg.to_str().unwrap()];
    let scenario = "scenarios/composition.toml";
    let run = json(&[&["sim", "run", scenario][..], &files].concat());
    let (stage, class) = (&run["laws"][0]["stages"][0], &run["laws"][0]["classes"][0]);
    assert_eq!(stage["slow_laws"]["quality"], "degradation");
    let mean = |knob: &str| stage["set"][knob]["mean"].as_f64().unwrap();
    assert!(mean("workers") > 12.0 && mean("batch") < 50.0 && mean("quality") < 0.95, "{stage}");
    assert!(class["share_terminated"]["mean"].as_f64().unwrap() > 0.0, "{class}");

    let rows = std::fs::read_to_string(csv).unwrap();
    let rows: Vec<Vec<&str>> = rows.lines().map(|line| line.split(',').collect()).collect();
    let column = |name: &str| rows[0].iter().position(|head| *head == name).unwrap();
    let workers = column("web.workers_count");
    let at = |second: usize, column: usize| rows[1 + second][column].parse::<f64>().unwrap();
    // The spike lasts from 40 to 140 s.
    assert_eq!((at(39, workers), at(139, workers)), (8.0, 32.0));
    assert_eq!(
        (at(39, column("web.quality_ratio")), at(39, column("web.batch_events_count"))),
        (1.0, 50.0)
    );
    let terminated: f64 = (0..250).map(|second| at(second, column("terminated"))).sum();
    assert!(terminated > 100.0, "{terminated}");
    let figure = std::fs::read_to_string(svg).unwrap();
    for panel in ["Workers", "Quality", "Terminated"] {
        assert!(figure.contains(panel), "{panel}");
    }

    let text = tamarisk(&["sim", "run", scenario]);
    assert!(stdout(&text).contains("terminated") && stdout(&text).contains("quality"));
    let plain = tamarisk(&["sim", "run", "scenarios/spike.toml"]);
    assert!(!stdout(&plain).contains("terminated") && !stdout(&plain).contains("quality"));
    // Another admission law takes the place of theirs; what rules the rest stays.
    let compared = json(&["sim", "compare", scenario, "--laws", "codel", "--seeds", "1"]);
    let stage = &compared["laws"][0]["stages"][0];
    assert_eq!(
        (&stage["law"], &stage["slow_laws"]["workers"]),
        (&"codel".into(), &"pool-sizing".into())
    );
}

#[test]
fn the_least_workers_are_those_of_the_formula() {
    let scenario = "scenarios/ten-fold.toml";
    let answers = json(&["model", scenario, "--at", "500/s", "--workers-for", "p90=200ms"]);
    let target = Target::p90(Duration::from_millis(200)).unwrap();
    let rate = |rate| PerSecond::new(rate).unwrap();
    let least = least_workers(rate(500.0), rate(50.0), target).unwrap();
    assert_eq!(answers["workers_for"]["workers"], least.get());
    assert_eq!(answers["stages"][0]["workers"], least.get());
    assert!(answers["workers_for"]["bearable_per_second"].as_f64().unwrap() >= 500.0);
}

#[test]
fn splitting_a_stage_in_two_halves_makes_it_slower() {
    let output = tamarisk(&["model", "scenarios/slow-database.toml", "--split", "db"]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stdout(&output).contains("The bottleneck is db: stable below 267/s."));
    assert!(stdout(&output).contains("With db split into db.1 and db.2, of 4 workers together"));
    let answers = json(&["model", "scenarios/slow-database.toml", "--split", "db"]);
    assert!(answers["split"]["added_seconds"].as_f64().unwrap() > 0.0);
    assert_eq!(answers["split"]["greatest_stable_rate"], answers["greatest_stable_rate"]);
}

#[test]
fn mistakes_are_shown_where_they_stand() {
    let check = |args: &[&str], code: i32, expected: &str| {
        let output = tamarisk(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert!(stderr(&output).contains(expected), "{args:?}: {}", stderr(&output));
    };
    let rejected = |name: &str| format!("crates/model/tests/rejected/{name}.toml");
    check(&["sim", "run", &rejected("no-such-stage")], 1, "no-such-stage.toml:7:8");
    check(&["sim", "run", "scenarios/none.toml"], 1, "cannot read scenarios/none.toml");
    check(&["model", "scenarios/ten-fold.toml"], 1, "expected at least 81 workers");
    check(&["model", "scenarios/spike.toml"], 1, "ask at a rate");
    let compare = ["sim", "compare", "scenarios/spike.toml", "--laws"];
    check(
        &[&compare[..], &["open,closed"]].concat(),
        2,
        "known laws: predict-gate-trim, work-limit, open,",
    );
    let split = ["model", "scenarios/slow-database.toml", "--split"];
    check(&[&split[..], &["dp"]].concat(), 2, "unknown stage \"dp\"; known stages: front");
    let at = ["model", "scenarios/spike.toml", "--at"];
    check(&[&at[..], &["500"]].concat(), 2, "write for example `500/s`");
    let both = ["sim", "run", "scenarios/spike.toml", "--json", "-", "--csv", "-"];
    check(&both, 2, "are both `-`");
    std::fs::write(scratch("no-folder"), "").unwrap();
    let nowhere = scratch("no-folder/result");
    let nowhere = ["sim", "run", "scenarios/spike.toml", "--csv", nowhere.to_str().unwrap()];
    check(&nowhere, 1, "error: cannot write");
}

#[cfg(unix)]
#[test]
fn ctrl_c_leaves_nothing_behind() {
    let csv = scratch("interrupted-run.csv");
    let partial = scratch("interrupted-run.csv.partial");
    let args = ["sim", "compare", "scenarios/slow-database.toml", "--laws", "open"];
    let child = command(&args)
        .args(["--seeds", "10000", "--csv", csv.to_str().unwrap()])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    // Ctrl-C is watched for before the file appears.
    while !partial.exists() {
        std::thread::yield_now();
    }
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupt.unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    assert!(!csv.exists() && !partial.exists());
}
