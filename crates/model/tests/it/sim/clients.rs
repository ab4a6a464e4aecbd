//! Clients: when they come, how they come back.

use std::sync::Arc;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, ClassId, Decision, Ratio, Reason, Rejection, Timestamp,
};
use tamarisk_laws::Threshold;
use tamarisk_model::sim::{
    Client, Distribution, Heed, Load, Outcome, Profile, Retry, Scenario, Seen, Stage, TraceArrival,
    Watch, What,
};

use super::*;

/// Remembers when requests were offered.
#[derive(Default)]
struct Offers(Vec<(u64, u32)>);

impl Watch for Offers {
    fn see(&mut self, seen: &Seen) {
        if seen.what == What::Offered {
            self.0.push((seen.at.as_nanos(), seen.flow));
        }
    }
}

fn offers(scenario: &Scenario, seed: u64) -> Vec<(u64, u32)> {
    let mut offers = Offers::default();
    Simulation::new(scenario).unwrap().start(seed).watch(&mut offers).finish();
    offers.0
}

fn idle_stage() -> Stage {
    Stage::new("work", 100_000, Distribution::Constant(MS))
}

#[test]
fn a_load_that_varies_brings_as_many_as_the_area_under_its_rate() {
    // 100/s, a ramp to 500/s from 10 s to 20 s, a spike of 2000/s from 30 s to 31 s.
    let at = |seconds| seconds * SECOND;
    let rate = Profile::constant(100.0).ramp(at(10), at(20), 500.0).spike(at(30), at(31), 2000.0);
    let scenario = Scenario::new(one_class(), 40 * SECOND).stage(idle_stage()).client(Client::new(
        "clients",
        "work",
        Load::poisson(rate),
    ));
    let offers = offers(&scenario, 1);
    let expected =
        [(0, 10, 1000.0), (10, 20, 3000.0), (20, 30, 5000.0), (30, 31, 2000.0), (31, 40, 4500.0)];
    for (from, to, expected) in expected {
        let span = from * 1_000_000_000..to * 1_000_000_000;
        let count = offers.iter().filter(|(at, _)| span.contains(at)).count() as f64;
        // Poisson: three standard deviations.
        assert!((count - expected).abs() < 3.0 * expected.sqrt(), "{from} to {to}: {count}");
    }
}

#[test]
fn gaps_of_one_length_follow_the_rate_exactly() {
    let gaps = Distribution::Constant(SECOND);
    let rate = Profile::constant(10.0).step(SECOND, 20.0);
    let scenario = Scenario::new(one_class(), 2 * SECOND).stage(idle_stage()).client(Client::new(
        "clients",
        "work",
        Load::Open { rate, gaps },
    ));
    let at: Vec<_> = offers(&scenario, 1).into_iter().map(|offer| offer.0 / 1_000_000).collect();
    let expected: Vec<u64> =
        (1..=10).map(|n| 100 * n).chain((1..20).map(|n| 1000 + 50 * n)).collect();
    assert_eq!(at, expected);
}

/// Users who think for a second, served for so long, who send again after a second.
fn partly_open(users: u32, workers: u32, service: Duration, seconds: u32) -> Scenario {
    let think = Distribution::Constant(SECOND);
    let crowd = Client::new("users", "work", Load::users(users, think));
    Scenario::new(one_class(), seconds * SECOND)
        .stage(Stage::new("work", workers, Distribution::Constant(service)))
        .client(crowd.resend(SECOND))
}

#[test]
fn a_user_whose_answer_is_late_sends_again_and_again() {
    // Nobody is answered in time: one request a second, and all of them are inside.
    let scenario = partly_open(1, 100, 60 * SECOND, 30);
    let offers = offers(&scenario, 1);
    assert_eq!(offers.len(), 30);
    assert!(offers.windows(2).all(|pair| pair[1].0 - pair[0].0 == 1_000_000_000));
    let report = Simulation::new(&scenario).unwrap().start(1).finish();
    assert_eq!(report.classes[0].inside.1, 30);
}

#[test]
fn the_answer_to_the_newest_request_counts_and_later_ones_change_nothing() {
    // Served in 1.5 s by many: the second request goes out at 1 s, the answer to the first
    // comes at 1.5 s, that to the second would come at 2.5 s, after the third at 2 s.
    let offers = offers(&partly_open(1, 100, 1500 * MS, 20), 1);
    assert_eq!(offers.len(), 20);
}

#[test]
fn while_answers_come_in_time_partly_open_users_are_closed_ones() {
    let partly = partly_open(20, 4, 20 * MS, 30);
    let mut closed = partly.clone();
    closed.clients[0].resend = None;
    assert_eq!(offers(&partly, 3), offers(&closed, 3));
}

#[test]
fn a_user_without_any_answer_stops_at_a_hundred() {
    let offers = offers(&partly_open(2, 1, 1000 * SECOND, 500), 1);
    assert_eq!(offers.len(), 200);
}

#[test]
fn users_come_and_go_as_they_are_told() {
    let users = vec![(Duration::ZERO, 3), (10 * SECOND, 100), (20 * SECOND, 5)];
    let think = Distribution::Constant(SECOND);
    let scenario = Scenario::new(one_class(), 30 * SECOND).stage(idle_stage()).client(Client::new(
        "users",
        "work",
        Load::Closed { users, think },
    ));
    let offers = offers(&scenario, 1);
    // One request a user and 1.001 s: 10 in the first ten seconds, and so on.
    let in_flows = |from: u64, to: u64| {
        let span = from * 1_000_000_000..to * 1_000_000_000;
        let mut flows: Vec<_> =
            offers.iter().filter(|(at, _)| span.contains(at)).map(|offer| offer.1).collect();
        let count = flows.len();
        flows.sort_unstable();
        flows.dedup();
        (flows.len(), count)
    };
    assert_eq!(in_flows(0, 10), (3, 30));
    assert_eq!(in_flows(10, 20).0, 100);
    assert!((970..=1000).contains(&in_flows(10, 20).1));
    assert_eq!(in_flows(22, 30).0, 5);
}

#[test]
fn sessions_last_as_long_as_their_clients_stay() {
    // 100 sessions a second of 1/(1 − 0.75) = 4 requests each.
    let load = Load::Sessions {
        rate: Profile::constant(100.0),
        gaps: exponential(SECOND),
        stay: Ratio::new(0.75).unwrap(),
        think: exponential(100 * MS),
    };
    let scenario = Scenario::new(one_class(), 100 * SECOND)
        .warm_up(10 * SECOND)
        .stage(idle_stage())
        .client(Client::new("sessions", "work", load));
    let per_second = |report: &Report| report.classes[0].counts.offered as f64 / 100.0;
    let runs = replicate(&scenario);
    check("requests a second", &runs, per_second, 400.0, 0.03);
}

#[test]
fn who_is_rejected_tries_again_and_gives_up_after_as_often_as_stated() {
    // Nothing is ever admitted.
    struct Shut;
    impl AdmissionLaw for Shut {
        fn name(&self) -> &'static str {
            "shut"
        }

        fn on_arrival(&mut self, _: Timestamp, _: &Arrival, _: &Backlog<'_>) -> Decision {
            Decision::Reject(Rejection::new(Reason::RateExceeded).retry_after(500 * MS))
        }
    }
    let once =
        TraceArrival { at: SECOND, class: ClassId::DEFAULT, kind: 0, flow: 0, service: None };
    let attempts = |heed, pause_max| {
        let pause = Distribution::Constant(100 * MS);
        let retry = Retry { heed, pause_max, ..Retry::backoff(3, pause, 2.0) };
        let load = Load::Trace([once].into());
        let scenario = Scenario::new(one_class(), 10 * SECOND)
            .stage(idle_stage())
            .client(Client::new("client", "work", load).retry(retry));
        let simulation = Simulation::new(&scenario).unwrap();
        let mut offers = Offers::default();
        let run = simulation.start(1).law("work", Box::new(Shut)).unwrap();
        let report = run.watch(&mut offers).finish();
        let class = &report.classes[0];
        assert_eq!((class.counts.offered, class.retried, class.given_up), (4, 3, 1));
        assert_eq!(report.stages[0].rejections, [(Reason::RateExceeded, 4)]);
        assert_eq!(report.stages[0].classes[0].rejected_idle, 4);
        offers.0.into_iter().map(|offer| offer.0 / 1_000_000).collect::<Vec<_>>()
    };
    // Pauses of 100, 200, 400 ms; or of the half second that the rejection names.
    assert_eq!(attempts(Heed::Nothing, SECOND), [1000, 1100, 1300, 1700]);
    assert_eq!(attempts(Heed::Nothing, 300 * MS), [1000, 1100, 1300, 1600]);
    assert_eq!(attempts(Heed::RetryAfter, SECOND), [1000, 1500, 2000, 2500]);
    assert_eq!(attempts(Heed::RetryAfter, 300 * MS), [1000, 1500, 2000, 2500]);
}

#[test]
fn retries_bring_through_what_a_loss_system_rejects() {
    // 8 workers, no queue, half the capacity offered: 4 % or so are lost; who tries again
    // after a long pause finds a system as any newcomer does.
    let run = |attempts| {
        let stage = Stage::new("work", 8, exponential(8 * MS));
        let mut scenario = single(500.0, 50_000.0, stage);
        scenario.clients[0].retry = Retry::backoff(attempts, exponential(SECOND), 1.0);
        let law = Box::new(Threshold::new(0));
        let simulation = Simulation::new(&scenario).unwrap();
        simulation.start(1).law("work", law).unwrap().finish().classes.remove(0)
    };
    let (never, often) = (run(0), run(5));
    let lost = never.rejected_share();
    assert!(lost > 0.02, "{lost}");
    // Of six attempts all fail: a few in a hundred million.
    assert!(often.given_up < 5, "{}", often.given_up);
    let first_attempts = often.counts.offered - often.retried;
    let served = often.counts.completed as f64 / first_attempts as f64;
    assert!((served - 1.0).abs() < 2e-3, "{served}");
    assert!(often.counts.offered > never.counts.offered);
}

#[test]
fn a_recorded_trace_is_played_as_it_was() {
    struct Ends(Vec<(u64, u32, usize)>);
    impl Watch for Ends {
        fn see(&mut self, seen: &Seen) {
            if seen.what == What::Left(Outcome::Completed) {
                self.0.push((seen.at.as_nanos() / 1_000_000, seen.flow, seen.class.index()));
            }
        }
    }
    let arrival = |at: u32, class, flow, service: u32| TraceArrival {
        at: at * MS,
        class: ClassId::new(class),
        kind: 0,
        flow,
        service: Some(service * MS),
    };
    let trace: Arc<[_]> =
        [arrival(10, 0, 2, 30), arrival(20, 1, 0, 5), arrival(20, 0, 1, 7), arrival(90, 1, 2, 0)]
            .into();
    let client = Client::new("recorded", "work", Load::Trace(trace)).flows(3);
    let stage = Stage::new("work", 1, exponential(SECOND)).route("then", 1.0);
    let scenario = Scenario::new(classes(&["a", "b"]), SECOND)
        .stage(stage)
        .stage(Stage::new("then", 9, Distribution::Constant(100 * MS)))
        .client(client);
    let mut ends = Ends(Vec::new());
    Simulation::new(&scenario).unwrap().start(1).watch(&mut ends).finish();
    assert_eq!(ends.0, [(140, 2, 0), (145, 0, 1), (152, 1, 0), (190, 2, 1)]);
}

#[test]
fn who_has_waited_too_long_is_not_served() {
    // One worker of 10 ms, 20 come at once with 45 ms of patience: the queue is looked
    // through as places become free, and those of 10, 20, 30, 40 ms are in time.
    let once =
        TraceArrival { at: SECOND, class: ClassId::DEFAULT, kind: 0, flow: 0, service: None };
    let load = Load::Trace(vec![once; 20].into());
    let scenario = Scenario::new(one_class(), 10 * SECOND)
        .stage(Stage::new("work", 1, Distribution::Constant(10 * MS)))
        .client(Client::new("client", "work", load).patience(45 * MS));
    let counts = Simulation::new(&scenario).unwrap().run(1).classes[0].counts;
    assert_eq!((counts.completed, counts.dropped), (5, 15));
}

#[test]
fn each_flow_has_its_accounts() {
    let scenario = Scenario::new(one_class(), 10 * SECOND)
        .stage(idle_stage())
        .client(Client::poisson("many", "work", 1000.0).flows(10))
        .client(Client::poisson("one", "work", 1000.0));
    let report = Simulation::new(&scenario).unwrap().run(1);
    assert_eq!(report.flows.len(), 11);
    let offered: u64 = report.flows.iter().map(|flow| flow.offered).sum();
    assert_eq!(offered, report.classes[0].counts.offered);
    let in_time: u64 = report.flows.iter().map(|flow| flow.in_time).sum();
    assert_eq!(in_time, report.classes[0].in_time);
    let many = &report.flows[..10];
    assert!(Report::fairness(many) > 0.98, "{many:?}");
    // Ten of 1 and one of 10: (20)² ÷ (11·(10 + 100)) = 0.33.
    assert!((Report::fairness(&report.flows) - 0.33).abs() < 0.03);
}

#[test]
fn a_page_is_of_use_only_with_all_of_its_calls() {
    // One arrival of twenty is rejected.
    #[derive(Default)]
    struct OneOfTwenty(u64);
    impl AdmissionLaw for OneOfTwenty {
        fn name(&self) -> &'static str {
            "one-of-twenty"
        }

        fn on_arrival(&mut self, _: Timestamp, _: &Arrival, _: &Backlog<'_>) -> Decision {
            self.0 += 1;
            if self.0.is_multiple_of(20) {
                return Decision::Reject(Rejection::new(Reason::RateExceeded));
            }
            Decision::Admit
        }
    }
    let pages = |calls, retry: Retry| {
        let mut client = Client::poisson("reader", "work", 5.0).calls(calls).retry(retry);
        client.flows = 7;
        let scenario = Scenario::new(one_class(), 100 * SECOND).stage(idle_stage()).client(client);
        let simulation = Simulation::new(&scenario).unwrap();
        let law = Box::new(OneOfTwenty::default());
        let report = simulation.start(1).law("work", law).unwrap().finish();
        let class = &report.classes[0];
        let first_attempts = class.counts.offered - class.retried;
        assert!(first_attempts / u64::from(calls) - class.pages.ended <= 1, "all but the last");
        class.pages.in_time_share()
    };
    // Every other page of ten calls is broken, every page of twenty, and none that asks again.
    assert!((pages(10, Retry::never()) - 0.5).abs() < 0.005);
    assert!(pages(20, Retry::never()) < 0.005);
    let again = Retry::backoff(3, Distribution::Constant(MS), 1.0);
    assert!(pages(20, again) > 0.995);
}

#[test]
fn a_page_is_late_if_its_last_call_is() {
    // One worker, 20 ms a call, target 100 ms: pages of 5 calls are in time, of 6 they are not.
    let in_time = |calls| {
        let service = Distribution::Constant(20 * MS);
        let client = Client::poisson("reader", "work", 0.1).calls(calls);
        let target = Target::p90(100 * MS).unwrap();
        let scenario = Scenario::new(Classes::single(target), 1000 * SECOND)
            .stage(Stage::new("work", 1, service))
            .client(client);
        Simulation::new(&scenario).unwrap().run(1).classes[0].pages.in_time_share()
    };
    assert!(in_time(5) > 0.97, "{}", in_time(5));
    assert_eq!(in_time(6), 0.0);
}

#[test]
fn a_page_is_of_the_class_of_its_first_call() {
    /// Rejects a class, whose calls so end before the others.
    #[derive(Debug)]
    struct Without(ClassId);

    impl AdmissionLaw for Without {
        fn name(&self) -> &'static str {
            "without"
        }

        fn on_arrival(&mut self, _: Timestamp, arrival: &Arrival, _: &Backlog<'_>) -> Decision {
            if arrival.class == self.0 {
                return Decision::Reject(Rejection::new(Reason::RateExceeded));
            }
            Decision::Admit
        }
    }
    let client = Client::poisson("reader", "work", 20.0).calls(20);
    let client = client.class("gold", 0.7).class("lead", 0.3);
    let scenario =
        Scenario::new(classes(&["gold", "lead"]), 100 * SECOND).stage(idle_stage()).client(client);
    let lead = scenario.classes.named("lead").unwrap();
    let simulation = Simulation::new(&scenario).unwrap();
    let report = simulation.start(1).law("work", Box::new(Without(lead))).unwrap().finish();
    let [gold, lead] = [0, 1].map(|class| report.classes[class].pages.ended as f64);
    assert!((lead / (gold + lead) - 0.3).abs() < 0.04, "{gold} {lead}");
}
