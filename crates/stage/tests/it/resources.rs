//! Stages that are bounded by resources of this process, which really become scarce.

use std::fs::File;
use std::time::Duration;

use tamarisk_control::{Ratio, Reason};
use tamarisk_laws::ResourceBounds;
use tamarisk_stage::{BuildError, Clock, Context, Entry, Request, Stage, StageBuilder};
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// A reading of the guard, and a tick more.
const READING: Duration = Duration::from_millis(601);

type Ask = Stage<Request<u32, u32>>;

fn described(name: &str) -> StageBuilder {
    Stage::builder(name).clock(Clock::runtime()).classes(["gold", "bronze"])
}

/// Answers at once, but 0 never.
fn echoes(builder: StageBuilder) -> Ask {
    let handler = async |number: u32, _: Context| match number {
        0 => std::future::pending().await,
        _ => Ok(number),
    };
    builder.workers(2).handler(handler).unwrap()
}

/// Has the stage hold an event until it is terminated.
fn held(stage: &Ask) -> JoinHandle<()> {
    let stage = stage.clone();
    tokio::spawn(async move { drop(stage.call(0).await) })
}

/// Which of the classes are admitted: gold, bronze.
async fn admitted(stage: &Ask) -> [bool; 2] {
    let mut admitted = [false; 2];
    for (name, admitted) in ["gold", "bronze"].into_iter().zip(&mut admitted) {
        let entry = Entry::new().class(stage.class(name).unwrap());
        *admitted = match stage.call_as(1, entry).await {
            Ok(_) => true,
            Err(error) => {
                assert_eq!(error.rejection().unwrap().reason, Reason::ResourceScarce, "{error}");
                false
            }
        };
    }
    admitted
}

fn reading(stage: &Ask, name: &str) -> f64 {
    let seen = stage.observe();
    seen.readings.iter().find(|reading| reading.name == name).unwrap().value
}

/// The kernel's own numbers: how many descriptors are open, and may be.
fn descriptors() -> (f64, f64) {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().count() - 1;
    let limits = std::fs::read_to_string("/proc/self/limits").unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    (open as f64, line.split_whitespace().nth(3).unwrap().parse().unwrap())
}

/// The only test of this process that opens files, for it counts them.
#[tokio::test(start_paused = true)]
async fn a_stage_rejects_the_lowest_class_first_while_descriptors_are_scarce() {
    let (open, limit) = descriptors();
    let bound = Ratio::new((open + 200.0) / limit).unwrap();
    let guarded = echoes(described("guarded").resources(ResourceBounds::new().descriptors(bound)));
    let other = echoes(described("other"));
    let _inside = [held(&guarded), held(&other)];
    sleep(READING).await;
    assert_eq!(admitted(&guarded).await, [true, true]);
    let seen = reading(&guarded, "descriptors_in_use_ratio");
    assert!((seen * limit - open).abs() < 20.0, "{seen} of {limit}, {open} are open");

    let files: Vec<_> = (0..250).map(|_| File::open("/dev/null").unwrap()).collect();
    sleep(READING).await;
    assert_eq!(admitted(&guarded).await, [true, false]);
    sleep(READING).await;
    assert_eq!(admitted(&guarded).await, [false, false]);
    assert_eq!(admitted(&other).await, [true, true], "nobody has bounded it");

    // A little below the bound, all stays as it is for a while.
    let (open, _) = descriptors();
    let within = 0.95 * bound.get() * limit;
    let mut files = files;
    files.truncate(250 - (open - within) as usize);
    sleep(5 * READING).await;
    assert_eq!(admitted(&guarded).await, [false, false]);
    drop(files);
    sleep(READING).await;
    assert_eq!(admitted(&guarded).await, [true, false]);
    sleep(READING).await;
    assert_eq!(admitted(&guarded).await, [true, true]);
    let total = guarded.observe().total();
    assert!(
        total.balance() && total.rejected == guarded.observe().rejections[&Reason::ResourceScarce]
    );
}

/// A bound that is below what the process uses even when idle.
#[tokio::test(start_paused = true)]
async fn a_stage_that_holds_nothing_rejects_nobody_whatever_is_scarce() {
    let bounds = ResourceBounds::new().memory(Ratio::new(0.000_001).unwrap());
    let stage = echoes(described("idle").resources(bounds));
    sleep(3 * READING).await;
    assert_eq!(reading(&stage, "guard_rejected_priorities_count"), 2.0);
    assert_eq!(admitted(&stage).await, [true, true]);
    let _inside = held(&stage);
    sleep(Duration::from_millis(1)).await;
    assert_eq!(admitted(&stage).await, [false, false]);
    assert!(stage.terminate(stage.running()[0].id));
    sleep(Duration::from_millis(1)).await;
    assert_eq!(admitted(&stage).await, [true, true]);
}

#[tokio::test(start_paused = true)]
async fn memory_and_a_gate_are_bounded_alike() {
    let bounds = ResourceBounds::new().memory(Ratio::new(0.000_001).unwrap());
    let gate = described("gate").workers(2).resources(bounds).gate().unwrap();
    let inside = gate.try_enter(Entry::new()).unwrap();
    assert!(gate.try_enter(Entry::new()).is_ok(), "nothing has been read yet");
    sleep(Duration::from_millis(100)).await;
    let gold = Entry::new().class(gate.classes().named("gold").unwrap());
    assert!(gate.try_enter(gold).is_ok());
    let rejected = gate.try_enter(Entry::new()).err().unwrap();
    assert_eq!(rejected.reason, Reason::ResourceScarce);
    drop(inside);
    assert!(gate.try_enter(Entry::new()).is_ok(), "it holds nothing");
}

#[test]
fn an_inline_stage_cannot_be_bounded() {
    let bounds = ResourceBounds::new().cpu(Ratio::ONE);
    let built = StageBuilder::new("parse").resources(bounds).inline(|number: u32| number);
    assert_eq!(built.err(), Some(BuildError::InlineResources { stage: "parse".into() }));
}
