//! What a stage shows of itself.

use std::time::Duration;

use tamarisk_control::{ClassId, Ending, Reason, Rejection};
use tamarisk_stage::{Context, Entry, Envelope, Phase, Stage, TimeHistogram, stage_fn};
use tokio::time::sleep;

use crate::rig::{self, Law, at_desk, described, settle};

/// A stage whose events take as many milliseconds as they say.
fn timed(builder: tamarisk_stage::StageBuilder) -> Stage<u64> {
    builder
        .tasks(stage_fn(|millis: u64, _cx: Context| async move {
            sleep(Duration::from_millis(millis)).await;
            Ok(())
        }))
        .unwrap()
}

fn about(seen: Duration, millis: u64) {
    let ratio = seen.as_secs_f64() * 1000.0 / millis as f64;
    assert!((0.99..1.05).contains(&ratio), "{seen:?} for {millis} ms");
}

#[tokio::test(start_paused = true)]
async fn each_class_has_accounts_of_its_own() {
    let law = Law::default();
    let (stage, mut desk) =
        at_desk(described("classed").classes(rig::classes(&[1, 0])).law(law.clone()).batch(1));
    let of_class = |class| Envelope::new(0, Entry::new().class(ClassId::new(class)));
    stage.sink().send_many([of_class(0), of_class(1), of_class(1), of_class(0)]);
    law.script().rejects = Some(Rejection::new(Reason::RateExceeded));
    stage.sink().send_many([of_class(1), of_class(1)]);
    desk.next().await.complete();
    let second = desk.next().await;
    second.fail();
    let _third = desk.next().await;

    let observation = stage.observe();
    let [zero, one] = [0, 1].map(|class: usize| observation.classes[class].accounts);
    assert!(zero.balance() && one.balance());
    assert_eq!((one.offered, one.rejected, one.completed, one.failed), (4, 2, 1, 1));
    assert_eq!((zero.offered, zero.rejected, zero.running, zero.queued), (2, 0, 1, 1));
    assert_eq!(observation.total().offered, 6);
    assert_eq!(observation.rejections[&Reason::RateExceeded], 2);
    assert_eq!(observation.classes[1].name, "1");
    assert_eq!(observation.classes[1].target, Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn times_are_seen_from_the_queue_and_from_the_door() {
    let stage = timed(described("timed").batch(1));
    stage.sink().send_many([100, 100, 100]);
    sleep(Duration::from_secs(1)).await;
    let class = &stage.observe().classes[0];
    let (service, response) = (class.service.unwrap(), class.response.unwrap());
    assert_eq!((service.count, response.count), (3, 3));
    about(service.p50, 100);
    about(service.max, 100);
    about(response.p50, 200);
    about(response.max, 300);
}

#[tokio::test(start_paused = true)]
async fn the_law_learns_nothing_from_an_event_that_says_so_and_observations_count_it() {
    let law = Law::default();
    let mut earlier: Option<Context> = None;
    let handler = stage_fn(move |millis: u64, cx: Context| {
        // It has ended: what it says now is of no other event.
        if let Some(earlier) = earlier.replace(cx.clone()) {
            earlier.teach_nothing();
        }
        async move {
            sleep(Duration::from_millis(millis)).await;
            match millis {
                100 => Ok(()),
                200 => {
                    cx.teach_nothing();
                    Ok(())
                }
                _ => {
                    cx.teach_nothing();
                    Err("it waited for a lock".into())
                }
            }
        }
    });
    let stage = described("waiting").batch(4).law(law.clone()).tasks(handler).unwrap();
    stage.sink().send_many([100, 200, 300, 100]);
    sleep(Duration::from_secs(1)).await;
    let [completed, untimed] = [Ending::Completed, Ending::Untimed];
    assert_eq!(law.script().endings, [completed, untimed, untimed, completed]);
    let class = &stage.observe().classes[0];
    assert_eq!((class.accounts.completed, class.accounts.failed), (3, 1));
    let service = class.service.unwrap();
    assert_eq!(service.count, 3);
    about(service.max, 200);
}

#[tokio::test(start_paused = true)]
async fn histograms_count_every_completed_event_since_the_start() {
    let stage = timed(described("timed").batch(1));
    stage.sink().send_many([100, 100, 100]);
    sleep(Duration::from_secs(60)).await;
    let class = &stage.observe().classes[0];
    assert!(class.response.is_none(), "the percentiles have forgotten them");
    assert_eq!(class.response_at_percentile, None);
    // Queued for 0, 100 and 200 ms; the clock of tests stops a millisecond too late at times.
    let seen = |times: &TimeHistogram| {
        let until = |millis| {
            let bound = Duration::from_millis(millis);
            times.buckets().find(|bucket| bucket.0 == bound).unwrap().1
        };
        ([until(1), until(50), until(250), until(500)], times.count())
    };
    assert_eq!(seen(&class.queue_times), ([1, 1, 3, 3], 3));
    assert_eq!(seen(&class.service_times), ([0, 0, 3, 3], 3));
    assert_eq!(seen(&class.response_times), ([0, 0, 2, 3], 3));
    for (times, seconds) in
        [(&class.queue_times, 0.3), (&class.service_times, 0.3), (&class.response_times, 0.6)]
    {
        assert!((times.sum_seconds() - seconds).abs() < 0.02, "{times:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_response_time_is_shown_at_the_promised_percentile() {
    let stage = timed(described("timed").workers(100).batch(1));
    stage.sink().send_many((1..=100).map(|index| 10 * index));
    sleep(Duration::from_secs(2)).await;
    let class = &stage.observe().classes[0];
    // p90 by default: of 10, 20, … 1000 ms it is 900 ms.
    assert_eq!(class.percentile.get(), 0.9);
    about(class.response_at_percentile.unwrap(), 900);
}

#[tokio::test(start_paused = true)]
async fn times_of_long_ago_are_forgotten() {
    let stage = timed(described("timed"));
    stage.sink().try_send(100).unwrap();
    sleep(Duration::from_secs(4)).await;
    assert!(stage.observe().classes[0].service.is_some());
    sleep(Duration::from_secs(8)).await;
    assert!(stage.observe().classes[0].service.is_none());
    assert_eq!(stage.observe().total().completed, 1, "counts stay");
}

#[tokio::test(start_paused = true)]
async fn the_busy_share_is_that_of_the_workers_time() {
    let stage = timed(described("busy").workers(2).batch(1));
    stage.sink().send_many([1000, 500]);
    sleep(Duration::from_secs(2)).await;
    // 1.5 of 2 × 2 worker-seconds.
    let busy = stage.observe().busy.get();
    assert!((busy - 0.375).abs() < 0.01, "{busy}");
    sleep(Duration::from_secs(20)).await;
    assert_eq!(stage.observe().busy.get(), 0.0, "of late, nothing");
}

#[tokio::test(start_paused = true)]
async fn the_last_failure_is_shown_and_cut() {
    let stage = described("failing")
        .tasks(stage_fn(
            |length: usize, _cx: Context| async move { Err("é".repeat(length).into()) },
        ))
        .unwrap();
    assert_eq!(stage.observe().last_failure, None);
    stage.sink().send_many([3, 5000]);
    settle().await;
    assert_eq!(stage.observe().last_failure.unwrap(), "é".repeat(200));
}

#[tokio::test(start_paused = true)]
async fn the_law_shows_its_name_and_numbers_and_the_stage_its_knobs() {
    let (stage, _desk) = at_desk(described("shown").workers(3).queue_capacity(77));
    let observation = stage.observe();
    assert_eq!((observation.name.as_str(), observation.runs), ("shown", "tasks"));
    assert_eq!((observation.workers, observation.queue_capacity), (3, 77));
    assert_eq!((observation.phase, observation.phase.as_str()), (Phase::Open, "open"));
    assert_eq!(observation.law, "scripted");
    assert_eq!(
        (observation.readings[0].name.as_str(), observation.readings[0].value),
        ("answer_count", 42.0)
    );
    stage.close();
    assert_eq!(stage.observe().phase, Phase::Closed);
}

#[tokio::test(start_paused = true)]
async fn a_handler_sees_its_own_stage() {
    let seen = rig::Seen::new();
    let noted = seen.clone();
    let stage = described("self")
        .tasks(stage_fn(move |_event: u32, cx: Context| {
            let accounts = cx.observe().total();
            noted.push((accounts.balance(), accounts.running, accounts.queued));
            async { Ok(()) }
        }))
        .unwrap();
    stage.set_batch(1);
    stage.sink().send_many(0..3);
    settle().await;
    assert_eq!(seen.all(), [(true, 1, 2), (true, 1, 1), (true, 1, 0)]);
}
