//! A recorded trace of a live run, replayed in the simulator, gives the same decisions.
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use tamarisk_catalogue::admission;
use tamarisk_control::*;
use tamarisk_model::replay::{Replay, Workload, law_of, replay};
use tamarisk_model::sim::{Outcome, Seen, Simulation, Watch, What};
use tamarisk_stage::{Batch, BlockingHandler, BoxError, Entry, Envelope, StageBuilder};
use tamarisk_trace::{Close, End, Event, Reader, Recorder};

const MS: Duration = Duration::from_millis(1);
const WORKERS: u32 = 2;

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn classes() -> Classes {
    let class = |name: &str, millis: u32, priority| Class {
        name: name.to_owned(),
        target: Target::p90(millis * MS).unwrap(),
        priority: Priority(priority),
    };
    Classes::new(vec![class("gold", 20, 0), class("plain", 40, 1)]).unwrap()
}

/// Takes a millisecond for each event, on its own thread.
struct Work;

impl BlockingHandler<()> for Work {
    fn handle(&mut self, batch: &mut Batch<()>) -> Result<(), BoxError> {
        while batch.next().is_some() {
            std::thread::sleep(MS);
        }
        Ok(())
    }
}

/// A live stage of two threads under `law`, which several other threads offer some three
/// times of what it can do, for half a second of real time.
async fn recorded(law: &str, knobs: &[(&str, f64)], path: &Path) -> End {
    let recorder = Recorder::create(path, Recorder::BYTES_MAX).unwrap();
    let inner = admission(law).unwrap().law_with(&classes(), knobs).unwrap();
    let stage = StageBuilder::new("work")
        .classes(classes())
        .law(recorder.trace(inner, "work", &classes(), knobs))
        .workers(WORKERS)
        .batch(1)
        .threads(|| Work)
        .unwrap();
    let end = Instant::now() + 500 * MS;
    let senders = (0..3).map(|flow| {
        let sink = stage.sink();
        tokio::task::spawn_blocking(move || {
            for number in 0.. {
                if Instant::now() >= end {
                    return;
                }
                let class = ClassId::new(usize::from(number % 4 != 0));
                let entry = Entry::new().class(class).flow(flow);
                // A rejection is what is to be seen here.
                let _ = sink.try_send(Envelope::new((), entry));
                std::thread::sleep(MS / 4);
            }
        })
    });
    for sender in senders.collect::<Vec<_>>() {
        sender.await.unwrap();
    }
    stage.drain(5 * SECOND).await;
    recorder.finish().unwrap()
}

const SECOND: Duration = Duration::from_secs(1);

fn replayed(path: &Path) -> Replay {
    let mut trace = Reader::open(path).unwrap();
    let law = law_of(trace.head()).unwrap();
    replay(&mut trace, law).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_live_run_replayed_gives_the_same_decisions_under_every_kind_of_law() {
    let laws: [(&str, &[(&str, f64)]); 10] = [
        ("predict-gate-trim", &[]),
        ("predict-gate-trim", &[("standing_wait_ratio", 0.3)]),
        ("vegas", &[]),
        ("response-time", &[("requests_count", 20.0)]),
        ("multiclass", &[("requests_count", 20.0)]),
        ("codel", &[]),
        ("red", &[]),
        ("gradient2", &[]),
        ("pi-shedding", &[]),
        ("adaptive-lifo", &[]),
    ];
    for (index, (law, knobs)) in laws.into_iter().enumerate() {
        let path = scratch(&format!("live-{index}.trace"));
        let end = recorded(law, knobs, &path).await;
        assert_eq!((end.close, end.lost), (Close::Finished, 0));
        let replay = replayed(&path);
        assert!(replay.agrees(), "{law}: {:#?}", replay.first);
        assert_eq!(replay.compared, end.records, "{law}");
        assert!(replay.records > 500, "{law}: {} records", replay.records);
        assert_eq!((replay.gap, replay.end), (None, Some(end)));
    }
}

#[test]
fn a_recording_that_begins_without_a_time_lasts_no_longer_for_it() {
    let path = scratch("untimed.trace");
    let recorder = Recorder::create(&path, Recorder::BYTES_MAX).unwrap();
    let mut law =
        recorder.trace(admission("codel").unwrap().law(&classes()), "work", &classes(), &[]);
    let backlog = Backlog {
        queued: &[0, 0],
        running: &[0, 0],
        queued_total: 0,
        running_total: 0,
        workers: Concurrency::ONE,
    };
    law.set_targets(&classes());
    let uptime = 10 * 86_400 * SECOND;
    for second in 0..=3 {
        law.on_tick(Timestamp::ZERO + uptime + second * SECOND, &backlog);
    }
    drop(law);
    recorder.finish().unwrap();
    let replay = replayed(&path);
    assert_eq!((replay.span, replay.records), (3 * SECOND, 6));
}

/// One worker of 10 ms a job, always 4 in the queue; after half of the arrivals what is
/// promised to both classes changes to `then`.
fn with_new_targets(law: &str, then: &Classes, path: &Path) -> Replay {
    let recorder = Recorder::create(path, Recorder::BYTES_MAX).unwrap();
    let inner = admission(law).unwrap().law(&classes());
    let mut law = recorder.trace(inner, "work", &classes(), &[]);
    let backlog = Backlog {
        queued: &[2, 2],
        running: &[1, 0],
        queued_total: 4,
        running_total: 1,
        workers: Concurrency::ONE,
    };
    for number in 0..200_u32 {
        if number == 100 {
            law.set_targets(then);
        }
        let now = Timestamp::ZERO + number * 10 * MS;
        let class = ClassId::new((number % 2) as usize);
        law.on_arrival(now, &Arrival { class, deadline: None, flow: 0, kind: 0 }, &backlog);
        let (service, ending) = (10 * MS, Ending::Completed);
        let finished = Finished {
            class,
            service,
            response: 5 * service,
            ending,
            kind: 0,
            together: Together::ALONE,
        };
        law.on_finish(now, &finished, &backlog);
        law.on_tick(now, &backlog);
    }
    drop(law);
    recorder.finish().unwrap();
    replayed(path)
}

#[test]
fn targets_that_change_are_part_of_the_trace() {
    let mut then = classes();
    then.set_target(ClassId::new(0), Target::p90(5 * SECOND).unwrap());
    then.set_target(ClassId::new(1), Target::p90(9 * SECOND).unwrap());
    for law in ["predict-gate-trim", "response-time", "pi-shedding", "bouncer"] {
        let path = scratch(&format!("targets-{law}.trace"));
        let replay = with_new_targets(law, &then, &path);
        assert!(replay.agrees(), "{law}: {:#?}", replay.first);
        // An arrival, an end and a tick each, and the target of each class.
        assert_eq!(replay.records, 3 * 200 + 2, "{law}");
    }
    // A queue of 40 ms is too long for the first targets, and not for the second.
    let mut trace = Reader::open(&scratch("targets-predict-gate-trim.trace")).unwrap();
    let (mut before, mut after, mut changed) = (0, 0, false);
    while let Some(record) = trace.next().unwrap() {
        match record.event {
            Event::Target { .. } => changed = true,
            Event::Arrival { decision: Decision::Reject(_), .. } if changed => after += 1,
            Event::Arrival { decision: Decision::Reject(_), .. } => before += 1,
            _ => {}
        }
    }
    assert!(before > 40 && after == 0, "{before} rejected before, {after} after");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_law_changed_by_one_constant_gives_a_difference_and_its_place() {
    let path = scratch("changed.trace");
    recorded("predict-gate-trim", &[], &path).await;
    let mut trace = Reader::open(&path).unwrap();
    let entry = admission("predict-gate-trim").unwrap();
    let changed = entry.law_with(&classes(), &[("shrinkage_count", 50.0)]).unwrap();
    let replay = replay(&mut trace, changed).unwrap();
    let first = replay.first.as_ref().unwrap();
    assert!(!replay.agrees() && replay.differences < replay.compared);
    assert!((1..=replay.records).contains(&first.record) && first.at <= replay.span);
    assert_ne!(first.recorded, first.replayed);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_came_is_offered_to_another_law_in_the_simulator() {
    let path = scratch("workload.trace");
    recorded("predict-gate-trim", &[], &path).await;
    let workload = Workload::read(&mut Reader::open(&path).unwrap()).unwrap();
    assert_eq!((workload.workers, workload.flows, workload.cut), (WORKERS, 3, false));
    assert!(workload.served > 200, "{} served", workload.served);
    // Threads that sleep for a millisecond sleep for somewhat longer.
    let mean = workload.times(None).mean().unwrap();
    assert!((MS..10 * MS).contains(&mean), "{mean:?}");

    let simulation = Simulation::new(&workload.scenario(workload.workers)).unwrap();
    let offered = |law: &str| {
        let law = admission(law).unwrap().law(&classes());
        let report = simulation.start(1).law("work", law).unwrap().finish();
        let [gold, plain] = [0, 1].map(|class| report.classes[class].counts);
        assert_eq!(gold.offered + plain.offered, workload.arrivals.len() as u64);
        gold.completed + plain.completed
    };
    // A law that sees no workers may not have more of them than there are.
    let most = 1.1 * f64::from(WORKERS) * workload.span.as_secs_f64() / mean.as_secs_f64();
    for law in ["predict-gate-trim", "codel", "work-limit", "gradient2"] {
        let done = offered(law);
        assert!(done > 0 && (done as f64) < most, "{law}: {done} of {most}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scenario_names_a_trace_as_its_arrivals_and_times() {
    let path = scratch("named.trace");
    recorded("threshold", &[], &path).await;
    let text = |class: &str| {
        format!(
            "duration = '500ms'\np90 = '20ms'\n[classes.gold]\n[classes.{class}]\n\
             [clients.then]\ntrace = 'named.trace'\n\
             [stages.work]\nworkers = 2\nservice = {{ measured = 'named.trace' }}"
        )
    };
    let name = scratch("named.toml").display().to_string();
    let file = tamarisk_model::scenario::parse(&name, &text("plain")).unwrap();
    let report = Simulation::new(&file.scenario).unwrap().run(1);
    assert!(report.classes.iter().all(|class| class.counts.offered > 50), "{report:?}");
    let error = tamarisk_model::scenario::parse(&name, &text("lead")).unwrap_err();
    assert_eq!(error.to_string(), "the trace has a class \"plain\", the scenario none");
}

/// Which kinds come, and which end.
#[derive(Default)]
struct Kinds {
    arrived: BTreeSet<u64>,
    completed: u64,
}

impl Watch for Kinds {
    fn see(&mut self, seen: &Seen) {
        self.arrived.insert(seen.kind);
        self.completed += u64::from(seen.what == What::Left(Outcome::Completed));
    }
}

/// A gate tells its law of pages of 5 ms and reports of 400 ms: ten pages for each report. Every
/// second page waits for its client for a second, and so holds no place meanwhile; reports are
/// parked after 200 ms, and a page that nobody waits for any more leaves the queue.
#[test]
fn kinds_are_kept_and_all_that_were_served_are_known() {
    const PAGE: u64 = 0xabcd;
    const REPORT: u64 = 0x1234_5678_9abc;
    let path = scratch("kinds.trace");
    let recorder = Recorder::create(&path, Recorder::BYTES_MAX).unwrap();
    let inner = admission("open").unwrap().law(&classes());
    let mut law = recorder.trace(inner, "gate", &classes(), &[]);
    let (class, flow, deadline) = (ClassId::new(1), 0, None);
    let backlog = Backlog {
        queued: &[0, 0],
        running: &[0, 2],
        queued_total: 0,
        running_total: 2,
        workers: Concurrency::new(2),
    };
    // What the law is told, in order of time.
    let mut told: Vec<(Duration, Told)> = Vec::new();
    let mut ended = 0;
    for number in 0..220_u32 {
        let kind = if number % 11 == 10 { REPORT } else { PAGE };
        let at = number * 20 * MS;
        told.push((at, Told::Arrival(Arrival { class, deadline, flow, kind })));
        let moved = |change, time| Told::Move(Moved { class, flow: 0, kind, change, time });
        let finished = |service| {
            let (response, ending) = (service, Ending::Completed);
            Told::Finish(Finished {
                class,
                service,
                response,
                ending,
                kind,
                together: Together::ALONE,
            })
        };
        if kind == REPORT {
            told.push((at + 200 * MS, moved(Change::Parked, 200 * MS)));
            told.push((at + 400 * MS, moved(Change::ParkedEnded, 400 * MS)));
        } else if number % 11 == 0 {
            told.push((at + 30 * MS, moved(Change::Abandoned, 30 * MS)));
            continue;
        } else if number % 2 == 0 {
            told.push((at + 2 * MS, moved(Change::Suspended, 2 * MS)));
            told.push((at + SECOND, moved(Change::Resumed, 2 * MS)));
            told.push((at + SECOND + 3 * MS, finished(5 * MS)));
        } else {
            told.push((at + 5 * MS, finished(5 * MS)));
        }
        ended += 1;
    }
    told.sort_by_key(|(at, _)| *at);
    for (at, what) in told {
        let now = Timestamp::ZERO + at;
        match what {
            Told::Arrival(arrival) => {
                law.on_arrival(now, &arrival, &backlog);
            }
            Told::Finish(finished) => law.on_finish(now, &finished, &backlog),
            Told::Move(moved) => law.on_move(now, &moved, &backlog),
        }
    }
    drop(law);
    recorder.finish().unwrap();

    let workload = Workload::read(&mut Reader::open(&path).unwrap()).unwrap();
    assert_eq!((workload.served, workload.kinds.len()), (ended, 2));
    for arrival in &workload.arrivals {
        let expected = if arrival.kind == 1 { 5 * MS } else { 400 * MS };
        assert!(arrival.service.is_none_or(|service| service == expected), "{arrival:?}");
    }
    let mut kinds = Kinds::default();
    let simulation = Simulation::new(&workload.scenario(4)).unwrap();
    let law = admission("open").unwrap().law(&classes());
    simulation.start(1).law("gate", law).unwrap().watch(&mut kinds).finish();
    assert_eq!(kinds.arrived, BTreeSet::from([1, 2]));
    assert!(kinds.completed > 200, "{} completed", kinds.completed);
}

/// What a law is told.
enum Told {
    Arrival(Arrival),
    Finish(Finished),
    Move(Moved),
}

/// Arrivals that end after 5 ms, a law told of each; from event number `first` on.
fn rule(law: &mut dyn AdmissionLaw, first: u64, count: u64) {
    let none = [0; 2];
    let backlog = Backlog {
        queued: &none,
        running: &none,
        queued_total: 0,
        running_total: 0,
        workers: Concurrency::new(4),
    };
    for number in first..first + count {
        let (class, now) = (ClassId::DEFAULT, Timestamp::from_nanos(number * 7_000_000));
        law.on_arrival(now, &Arrival { class, deadline: None, flow: number, kind: 0 }, &backlog);
        let service = 5 * MS;
        let finished = Finished {
            class,
            service,
            response: service,
            ending: Ending::Completed,
            kind: 0,
            together: Together::ALONE,
        };
        law.on_finish(now + service, &finished, &backlog);
    }
}

#[test]
fn a_recording_that_a_full_disk_cut_off_is_replayed_to_there() {
    let path = scratch("full-disk.trace");
    let recorder = Recorder::create(&path, Recorder::BYTES_MAX).unwrap();
    let law = || admission("predict-gate-trim").unwrap().law(&classes());
    let mut traced = recorder.trace(law(), "work", &classes(), &[]);
    rule(&mut traced, 0, 10_000);
    drop(traced);
    let end = recorder.finish().unwrap();
    let bytes = std::fs::read(&path).unwrap();
    // Within the last block of records, which is before the one that ends the trace.
    let cut = &bytes[..bytes.len() - 60];
    let replay = replay(&mut Reader::new(cut).unwrap(), law()).unwrap();
    assert!(replay.agrees() && replay.end.is_none(), "{:?}", replay.first);
    assert!((1..end.records).contains(&replay.records), "{} of {}", replay.records, end.records);
    let workload = Workload::read(&mut Reader::new(cut).unwrap()).unwrap();
    assert!(workload.served > 1000 && !workload.cut, "{} served", workload.served);
}

/// A pipe that nobody empties is a disk that stands still.
#[test]
fn a_disk_that_stands_still_costs_records_and_the_replay_says_from_where() {
    let pipe = scratch("pipe.trace");
    let _ = std::fs::remove_file(&pipe);
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let (go, wait) = std::sync::mpsc::channel();
    let written = std::thread::spawn({
        let pipe = pipe.clone();
        move || {
            let mut file = File::open(pipe).unwrap();
            wait.recv().unwrap();
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            bytes
        }
    });
    let recorder = Recorder::create(&pipe, Recorder::BYTES_MAX).unwrap();
    let law = || admission("predict-gate-trim").unwrap().law(&classes());
    let mut traced = recorder.trace(law(), "work", &classes(), &[]);
    const STANDING: u64 = 600_000;
    rule(&mut traced, 0, STANDING);
    go.send(()).unwrap();
    for more in 0..200 {
        rule(&mut traced, STANDING + more, 1);
        std::thread::sleep(MS);
    }
    let end = recorder.finish().unwrap();
    let bytes = written.join().unwrap();

    assert!(end.lost > 0 && end.records + end.lost == 2 * (STANDING + 200), "{end:?}");
    let replay = replay(&mut Reader::new(&*bytes).unwrap(), law()).unwrap();
    let gap = replay.gap.unwrap();
    assert_eq!((replay.records, gap.lost), (end.records, end.lost));
    assert!(replay.agrees() && replay.compared == gap.after && gap.after < replay.records);
}
