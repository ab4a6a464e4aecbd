//! Whom the default law refuses when not all can be served: shares of clients and of
//! classes.

mod simulated_stage;

use simulated_stage::report::summarise;
use simulated_stage::scenarios::{self, Scenario};
use simulated_stage::workload::Clients;
use simulated_stage::{Outcome, Record, run};
use tamarisk_control::{AdmissionLaw, ClassId, Reason};
use tamarisk_laws::{OpaqueUpstream, PredictGateTrim};

const SHARE_EXCEEDED: Outcome = Outcome::Rejected(Reason::ShareExceeded);

const SEEDS: [u64; 5] = [1, 2, 3, 4, 5];

/// Answers within their target, of each of `count` clients.
fn goodput_of_clients(scenario: &Scenario, records: &[Record], count: u64) -> Vec<f64> {
    let (from, to) = scenario.measured;
    let mut good = vec![0.0; count as usize];
    for record in records {
        let target = scenario.workload.classes.at(record.class).target.response_time();
        let in_time = record.response() <= target.as_secs_f64();
        let measured = (from..to).contains(&record.ended);
        if record.outcome == Outcome::Completed && in_time && measured {
            good[record.flow as usize - 1] += 1.0;
        }
    }
    good
}

/// (Σx)² ÷ (n · Σx²): 1 if all have the same, 1 ÷ n if one has all.
fn jain(goodput: &[f64]) -> f64 {
    let sum: f64 = goodput.iter().sum();
    let squares: f64 = goodput.iter().map(|each| each * each).sum();
    sum * sum / (goodput.len() as f64 * squares)
}

type MakeLaw = fn(&Scenario) -> Box<dyn AdmissionLaw>;

const FORMS: [MakeLaw; 2] = [
    |scenario| Box::new(PredictGateTrim::new(&scenario.workload.classes)),
    |scenario| Box::new(OpaqueUpstream::new(&scenario.workload.classes)),
];

/// One client asks for a hundred times its share. Jain's index of the others, and
/// what they have of what they would have without it, are at least these.
fn check_others(count: u64, times: f64, jain_min: f64, kept_min: f64) {
    let greedy = scenarios::clients(count, times, 100.0);
    let peaceful = scenarios::clients(count, times, 1.0);
    for (form, make) in FORMS.iter().enumerate() {
        for seed in SEEDS {
            let others = |scenario: &Scenario| {
                let records = run(&mut *make(scenario), scenario, seed);
                goodput_of_clients(scenario, &records, count).split_off(1)
            };
            let (with, without) = (others(&greedy), others(&peaceful));
            let kept = with.iter().sum::<f64>() / without.iter().sum::<f64>();
            let index = jain(&with);
            assert!(
                index >= jain_min && kept >= kept_min,
                "form {form}, {count} clients at {times}, seed {seed}: {index:.4}, kept {kept:.3}"
            );
        }
    }
}

#[test]
fn a_client_that_asks_for_a_hundred_times_its_share_takes_little_from_others() {
    // Twenty whose share is a twentieth each. What the others lose, they lose in
    // the first second, to a queue that now is never empty, and to chance.
    check_others(20, 0.95, 0.99, 0.91);
    check_others(20, 2.0, 0.99, 0.9);
    check_others(20, 10.0, 0.99, 0.94);
}

#[test]
fn many_others_are_protected_as_well_as_few() {
    // A hundred have 76 answers each in 20 s: chance alone makes an index of 0.987.
    check_others(100, 0.95, 0.98, 0.92);
    check_others(100, 10.0, 0.98, 0.92);
    check_others(5, 0.95, 0.99, 0.87);
}

#[test]
fn what_others_leave_over_is_the_greedy_ones() {
    let scenario = scenarios::clients(20, 0.5, 100.0);
    for make in FORMS {
        for seed in SEEDS {
            let records = run(&mut *make(&scenario), &scenario, seed);
            let all: f64 = goodput_of_clients(&scenario, &records, 20).iter().sum();
            let (from, to) = scenario.measured;
            let share = all / (to - from) / scenario.capacity();
            assert!(share >= 0.94, "seed {seed}: {share:.3} of the capacity");
        }
    }
}

#[test]
fn without_an_overload_nobody_is_refused_for_its_share() {
    // One client makes most of 80 % load, or all of it.
    let most = scenarios::clients(20, 0.8 * 20.0 / 119.0, 100.0);
    let all = scenarios::clients(1, 0.8, 1.0);
    for scenario in [most, all] {
        for (form, make) in FORMS.iter().enumerate() {
            let mut refused = 0;
            for seed in 1..=20 {
                let records = run(&mut *make(&scenario), &scenario, seed);
                refused += records.iter().filter(|r| r.outcome == SHARE_EXCEEDED).count();
            }
            // Of 140 000 requests. The form that has to find the number of workers
            // takes one of the twenty runs for overloaded, for a tenth of a second.
            assert!(refused <= [0, 10][form], "form {form}: {refused}");
        }
    }
}

#[test]
fn one_client_alone_and_many_unknown_ones_have_all_of_the_capacity() {
    let alone = scenarios::clients(1, 10.0, 1.0);
    let mut unknown = alone.clone();
    unknown.workload.clients = Clients::Unknown;
    for scenario in [alone, unknown] {
        for make in FORMS {
            for seed in SEEDS {
                let records = run(&mut *make(&scenario), &scenario, seed);
                let (from, to) = scenario.measured;
                let sum = summarise(&records, &scenario.workload.classes, None, from, to);
                let share = sum.goodput / scenario.capacity();
                assert!(share >= 0.95, "seed {seed}: {share:.3} of the capacity");
            }
        }
    }
}

/// The work of each class in answers within its target, in parts of the capacity.
fn work_of_classes(scenario: &Scenario, records: &[Record]) -> [f64; 2] {
    let (from, to) = scenario.measured;
    [0, 1].map(|index| {
        let class = Some(ClassId::new(index));
        let sum = summarise(records, &scenario.workload.classes, class, from, to);
        sum.good_work / f64::from(scenario.upstream.workers)
    })
}

/// The form that cannot see workers charges classes with the time that they spend
/// upstream, where short and long ones wait alike.
const GIVE: [f64; 2] = [0.05, 0.12];

/// What classes get that ask for `times` the capacity each is `expected`, give or take.
fn check_shares(scenario: &Scenario, expected: [f64; 2]) {
    for (form, make) in FORMS.iter().enumerate() {
        for seed in SEEDS {
            let records = run(&mut *make(scenario), scenario, seed);
            let got = work_of_classes(scenario, &records);
            let close = got.iter().zip(expected).all(|(got, to)| (got - to).abs() <= GIVE[form]);
            assert!(close, "form {form}, seed {seed}: {got:.3?} where {expected:?} is expected");
        }
    }
}

#[test]
fn classes_of_one_priority_share_by_their_weights() {
    check_shares(&scenarios::weighted([5.0, 5.0], [3, 1]), [0.75, 0.25]);
    check_shares(&scenarios::weighted([2.0, 2.0], [1, 4]), [0.2, 0.8]);
    // One asks for much more than the other; a weight of one is what is not stated.
    check_shares(&scenarios::weighted([9.0, 1.0], [1, 1]), [0.5, 0.5]);
}

#[test]
fn what_a_class_does_not_ask_for_is_the_others() {
    check_shares(&scenarios::weighted([0.2, 5.0], [3, 1]), [0.2, 0.8]);
    check_shares(&scenarios::weighted([5.0, 0.1], [1, 20]), [0.9, 0.1]);
}

#[test]
fn without_weights_classes_are_served_as_they_come() {
    check_shares(&scenarios::two_kinds([5.0, 5.0]), [0.5, 0.5]);
    check_shares(&scenarios::two_kinds([6.0, 2.0]), [0.75, 0.25]);
}

#[test]
fn weights_refuse_nobody_where_all_can_be_served() {
    let scenario = scenarios::weighted([0.6, 0.1], [1, 9]);
    for make in FORMS {
        for seed in SEEDS {
            let records = run(&mut *make(&scenario), &scenario, seed);
            assert!(records.iter().all(|record| record.outcome != SHARE_EXCEEDED), "seed {seed}");
        }
    }
}
