//! `tamarisk sim tune` as a user or a script meets it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::support::said::Said;
use serde_json::Value;

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn command(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tamarisk"));
    command.args(["sim", "tune"]).args(args);
    command
}

fn stderr(output: &Output) -> &str {
    std::str::from_utf8(&output.stderr).unwrap()
}

/// Ten times what four workers can do, under `law`.
fn scenario(name: &str, law: &str) -> String {
    let path = scratch(name);
    let text = format!(
        "duration = '8s'\nwarm_up = '2s'\np90 = '200ms'\n\
         [stages.web]\nworkers = 4\nservice = {{ exponential = '20ms' }}\nadmission = {law}\n\
         [clients.crowd]\nopen = '2000/s'\n"
    );
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

fn tuned(scenario: &str, args: &[&str]) -> Value {
    let output = command(&[&[scenario, "--json", "-"], args].concat()).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The mean of the objective under seeds that the search has not seen.
fn held_out(tuned: &Value, law: &str) -> f64 {
    tuned[law]["mean"].as_f64().unwrap()
}

#[test]
fn a_mistuned_law_comes_to_what_its_published_constants_reach() {
    // A rate of 5/s that rises by little; the published ones begin at 100/s, up to 5000.
    let law = "{ law = 'response-time', rate_max_per_second = 5, increase_per_second = 0.01 }";
    let file = scenario("mistuned.toml", law);
    let knobs = "rate_max_per_second,increase_per_second,requests_count,decrease_ratio";
    let tuned = tuned(&file, &["--law", "response-time", "--knobs", knobs, "--budget", "150"]);
    let [before, after, published] =
        ["before", "after", "published"].map(|law| held_out(&tuned, law));
    assert!(before < 10.0, "{tuned}");
    assert!(after >= published && after > 100.0, "{tuned}");
    assert!(tuned["runs"].as_u64().unwrap() <= 150);
    // What was not to be changed was not.
    let kept = &tuned["constants"]["filter_ratio"];
    assert_eq!((&kept["searched"], &kept["after"]), (&false.into(), &kept["published"]));
}

#[test]
fn a_search_leaves_the_law_working_and_is_judged_on_other_capacities() {
    let file = scenario("working.toml", "'response-time'");
    let tuned = tuned(&file, &["--law", "response-time", "--budget", "40"]);
    // A greatest rate at the capacity would be a fixed rate, and so would an error that is never
    // reached.
    for fixed in ["rate_max_per_second", "rate_min_per_second", "rate_initial_per_second"] {
        let constant = &tuned["constants"][fixed];
        assert_eq!(
            (&constant["searched"], &constant["after"]),
            (&false.into(), &constant["published"])
        );
    }
    let late = tuned["constants"]["error_decrease_ratio"]["after"].as_f64().unwrap();
    assert!((0.0..=0.5).contains(&late), "{late}");
    let others = tuned["other_capacities"].as_array().unwrap();
    let times: Vec<_> = others.iter().map(|other| other["times"].as_f64().unwrap()).collect();
    assert_eq!(times, [0.5, 2.0]);
    // Four workers of 20 ms do 200 a second.
    let [half, twice] = [0, 1].map(|index| others[index]["after"]["mean"].as_f64().unwrap());
    assert!(half < 100.0 && twice < 400.0 && half < twice, "{half} {twice}");
}

#[test]
fn the_result_can_be_pasted_drawn_and_is_the_same_each_time() {
    let file = scenario("threshold.toml", "{ law = 'threshold', queued_count = 100000 }");
    let [toml, plot] = ["tuned.toml", "tuned.svg"].map(scratch);
    let [toml, plot] = [&toml, &plot].map(|path| path.to_str().unwrap());
    let args = ["--law", "threshold", "--maximise", "goodput - 20*over-target", "--budget", "60"];
    let first = tuned(&file, &[&args[..], &["--toml", toml, "--plot", plot]].concat());
    assert_eq!(first, tuned(&file, &args));
    assert!(held_out(&first, "after") > held_out(&first, "before"), "{first}");

    let text = std::fs::read_to_string(toml).unwrap();
    let law = text.lines().find_map(|line| line.strip_prefix("admission = ")).unwrap();
    let file = tamarisk_model::scenario::load(Path::new(&scenario("pasted.toml", law))).unwrap();
    let law = file.laws[0].1.admission.as_ref().unwrap();
    assert_eq!(
        law.knobs().next().unwrap().1,
        first["constants"]["queued_count"]["after"].as_f64().unwrap()
    );
    assert!(std::fs::read_to_string(plot).unwrap().starts_with("<svg"));
}

#[test]
fn a_result_that_is_no_better_is_not_recommended() {
    // Half of what four workers can do: no constant makes a difference.
    let path = scratch("calm.toml");
    let text = std::fs::read_to_string(scenario("busy.toml", "'red'")).unwrap();
    std::fs::write(&path, text.replace("2000/s", "50/s")).unwrap();
    let toml = scratch("calm-tuned.toml");
    let args = [path.to_str().unwrap(), "--law", "red", "--budget", "20"];
    let output = command(&args).args(["--toml", toml.to_str().unwrap()]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let verdict = "No better than before (goodput 0 ± 0): keep what you have.";
    assert!(said.contains(verdict) && !said.contains("To use it"), "{said}");
    assert!(std::fs::read_to_string(toml).unwrap().starts_with(&format!("# {verdict}\n")));
    let tuned = tuned(args[0], &args[1..]);
    assert_eq!((&tuned["is_better"], &tuned["is_recommended"]), (&false.into(), &false.into()));
}

#[test]
fn what_is_better_at_one_capacity_only_is_not_recommended() {
    // Fixed rates: the best one for four workers is too much for two.
    let file = scenario("one-capacity.toml", "{ law = 'rate-limit', rate_per_second = 20 }");
    let args = ["--law", "rate-limit", "--knobs", "rate_per_second", "--budget", "60"];
    let output = command(&[&[file.as_str()], &args[..]].concat()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("Better than before (goodput +"), "{said}");
    assert!(said.contains(" at this capacity only, and worse at half the capacity (−"), "{said}");
    assert!(said.contains("): keep what you have.") && !said.contains("To use it"), "{said}");
}

#[test]
fn a_law_that_is_not_at_the_door_is_tuned_beside_the_one_that_is() {
    // Fifty a second is what one worker does; the pool may have no more.
    let path = scratch("pool.toml");
    let text = "duration = '20s'\nwarm_up = '5s'\np90 = '200ms'\n\
         [stages.web]\nservice = { exponential = '20ms' }\nadmission = 'predict-gate-trim'\n\
         workers = { law = 'pool-sizing', workers_max_count = 1, queued_count = 2 }\n\
         coordination = 'composition'\n\
         [clients.crowd]\nopen = '150/s'\n";
    std::fs::write(&path, text).unwrap();
    let toml = scratch("pool-tuned.toml");
    let args = ["--rules", "workers", "--law", "pool-sizing", "--knobs", "workers_max_count"];
    let more = ["--budget", "60", "--toml", toml.to_str().unwrap()];
    let tuned = tuned(path.to_str().unwrap(), &[&args[..], &more].concat());
    assert_eq!(tuned["rules"], "workers");
    let [before, after] = ["before", "after"].map(|law| held_out(&tuned, law));
    assert!(before < 60.0 && after > 120.0, "{tuned}");

    let text = std::fs::read_to_string(toml).unwrap();
    assert!(text.contains("workers = { law = \"pool-sizing\", "), "{text}");
    assert!(text.contains("queued_count = 2"), "what is not searched stays: {text}");
}

#[test]
fn what_cannot_be_tuned_is_rejected_with_what_can() {
    let file = scenario("rejected.toml", "'open'");
    let rejected = |args: &[&str], expected: &str| {
        let output = command(&[&[&*file], args].concat()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(stderr(&output).contains(expected), "{}", stderr(&output));
    };
    rejected(&["--law", "open"], "law open has no constants to tune; laws that have some: ");
    rejected(&["--law", "red", "--knobs", "weight"], "it has queue_min_count, ");
    rejected(&["--law", "nobody"], "unknown admission law \"nobody\"");
    rejected(&["--law", "red", "--rules", "quality"], "unknown quality law \"red\"; known laws: ");
    rejected(&["--law", "red", "--rules", "all"], "possible values: admission, dropping, ");
    let last = u64::MAX.to_string();
    rejected(&["--law", "red", "--seed", &last], "--held-out exceeds the largest seed");
    rejected(&["--law", "red", "--maximise", "speed"], "`speed` is no term of an objective");
    rejected(&["--law", "red", "--maximise", "goodput", "--minimise", "over-target"], "cannot be");
}

#[test]
fn ctrl_c_gives_the_best_so_far() {
    let file = scenario("long.toml", "'red'");
    let mut child = command(&[&file, "--law", "red", "--budget", "1000000", "--seeds", "1"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let said = Said::by(child.stderr.take().unwrap());
    // As soon as something is known, far too soon for all.
    let first = said.line();
    assert!(first.contains("best"), "{first}");
    let interrupt = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(interrupt.unwrap().success());
    let rest = said.rest();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{rest}");
    assert!(rest.contains("Ended early"), "{rest}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("etter than before"));
}
