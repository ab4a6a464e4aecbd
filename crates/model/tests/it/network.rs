//! Networks: what is rejected, where the bottleneck is, what patterns change.

use std::time::Duration;

use tamarisk_control::{Concurrency, PerSecond, Ratio, Target};
use tamarisk_model::capacity::{Unreachable, greatest_arrivals, least_workers, least_workers_of};
use tamarisk_model::network::{
    Evaluation, InvalidNetwork, InvalidPattern, Machines, Network, NetworkBuilder, Pattern,
    Station, Workers,
};
use tamarisk_model::queueing::{Accuracy, PhaseType, ThreadPenalty};

fn rate(value: f64) -> PerSecond {
    PerSecond::new(value).unwrap()
}

fn share(value: f64) -> Ratio {
    Ratio::new(value).unwrap()
}

fn count(workers: u32) -> Concurrency {
    Concurrency::new(workers)
}

fn stage(name: &str, service: f64, workers: u32) -> Station {
    Station::new(name, PhaseType::exponential(rate(service)).unwrap(), count(workers))
}

/// front → back, at 10 a second.
fn pair() -> NetworkBuilder {
    Network::builder()
        .stage(stage("front", 100.0, 1))
        .stage(stage("back", 20.0, 2))
        .arrivals("front", rate(10.0))
}

#[track_caller]
fn rejected(builder: NetworkBuilder, message: &str) {
    assert_eq!(builder.build().unwrap_err().to_string(), message);
}

#[test]
fn what_is_no_network_is_rejected_by_name() {
    rejected(Network::builder(), "a network of 0 stages: it has one to 64");
    rejected(pair().stage(stage("back", 1.0, 1)), "two stages are called `back`");
    rejected(
        pair().route("front", "bak", share(1.0)),
        "there is no stage `bak`; there are: front, back",
    );
    rejected(
        pair().arrivals("frnt", rate(1.0)),
        "there is no stage `frnt`; there are: front, back",
    );
    rejected(
        pair().route("front", "back", share(0.5)),
        "the ways out of `front` have probabilities that sum to 0.5, not to 1",
    );
    rejected(
        pair().route("front", "back", share(0.75)).exit("front", share(0.75)),
        "the ways out of `front` have probabilities that sum to 1.5, not to 1",
    );
    rejected(
        pair().route("front", "back", share(1.0)).route("back", "front", share(1.0)),
        "what comes to front, back never leaves the network",
    );
    rejected(Network::builder().stage(stage("only", 1.0, 1)), "no stage has arrivals from outside");
}

#[test]
fn a_cycle_that_is_never_entered_is_rejected_all_the_same() {
    let lonely = pair().stage(stage("loop", 1.0, 1)).route("loop", "loop", share(1.0));
    assert_eq!(lonely.build(), Err(InvalidNetwork::NoExit(vec!["loop".to_owned()])));
}

#[test]
fn retries_multiply_what_comes_to_a_stage() {
    // One in three tries again: 10 ÷ (1 − 1/3) = 15 a second.
    let network = Network::of_stage(stage("try", 30.0, 1), rate(10.0)).unwrap();
    assert_eq!(network.visits(), [1.0]);
    let network = Network::builder()
        .stage(stage("try", 30.0, 1))
        .arrivals("try", rate(10.0))
        .route("try", "try", share(1.0 / 3.0))
        .exit("try", share(2.0 / 3.0))
        .build()
        .unwrap();
    let solution = network.solve().unwrap();
    assert!((solution.stages[0].equilibrium.arrivals.get() - 15.0).abs() < 1e-12);
    // M/M/1 at ρ = 1/2, one and a half times: 1.5 · 1/15 s.
    assert!((solution.mean().get() - 0.1).abs() < 1e-12);
    assert!((network.limit().arrivals.get() - 20.0).abs() < 1e-12);
}

#[test]
fn an_overloaded_network_names_the_stage_that_is_most_so() {
    let network = pair().route("front", "back", share(1.0)).build().unwrap();
    let overloaded = network.with_arrivals(rate(120.0)).unwrap().solve().unwrap_err();
    assert_eq!(
        overloaded.to_string(),
        "stage `back` is unstable: 40/s is the most that can be served; 120/s arrive"
    );
    let limit = network.limit();
    assert_eq!((limit.stage.as_str(), limit.arrivals), ("back", rate(40.0)));
}

#[test]
fn a_tandem_of_single_workers_is_exact_to_its_percentiles() {
    let tandem = Network::builder()
        .stage(stage("first", 5.0, 1))
        .stage(stage("second", 4.0, 1))
        .arrivals("first", rate(3.0))
        .route("first", "second", share(1.0))
        .build()
        .unwrap();
    let solution = tandem.solve().unwrap();
    assert_eq!((solution.means, solution.percentiles), (Accuracy::Exact, Accuracy::Exact));
    // Exponentials of the rates 2 and 1 one after the other:
    // Pr[R > t] = 2·e⁻ᵗ − e⁻²ᵗ, which is 0.1 at e⁻ᵗ = 1 − √0.9.
    let expected = -(1.0 - 0.9f64.sqrt()).ln();
    let ours = solution.response.quantile(share(0.9)).get();
    assert!((ours - expected).abs() < 1e-12 * expected, "{ours} is not {expected}");
}

#[test]
fn percentiles_are_exact_only_where_nobody_overtakes() {
    let chain = |workers: [u32; 3]| {
        let [first, inner, last] = workers;
        let network = Network::builder()
            .stage(stage("a", 5.0, first))
            .stage(stage("b", 5.0, inner))
            .stage(stage("c", 5.0, last))
            .arrivals("a", rate(1.0))
            .route("a", "b", share(1.0))
            .route("b", "c", share(1.0));
        network.build().unwrap().solve().unwrap().percentiles
    };
    assert_eq!(chain([1, 1, 1]), Accuracy::Exact);
    assert_eq!(chain([3, 1, 2]), Accuracy::Exact);
    assert_eq!(chain([1, 2, 1]), Accuracy::Approximate);
}

#[test]
fn what_leaves_service_of_several_steps_is_not_poisson() {
    let steps = |name| Station::new(name, PhaseType::erlang(2, rate(10.0)).unwrap(), count(1));
    let alone = Network::of_stage(steps("only"), rate(1.0)).unwrap().solve().unwrap();
    assert_eq!((alone.means, alone.percentiles), (Accuracy::Exact, Accuracy::Approximate));
    let tandem = Network::builder()
        .stage(steps("first"))
        .stage(stage("second", 10.0, 1))
        .arrivals("first", rate(1.0))
        .route("first", "second", share(1.0));
    let tandem = tandem.build().unwrap().solve().unwrap();
    assert_eq!(tandem.means, Accuracy::Approximate);
}

#[test]
fn wrapping_makes_stable_what_threads_without_end_do_not() {
    let thread_per_event = Station {
        workers: Workers::ThreadPerEvent,
        parallelism: Some(count(4)),
        ..stage("all", 0.05, 1)
    };
    let network = Network::builder()
        .stage(thread_per_event)
        .arrivals("all", rate(0.1))
        .penalty(ThreadPenalty { per_thread: rate(0.01), free: 15 })
        .build()
        .unwrap();
    let wrap = Pattern::Wrap { stage: "all".to_owned(), workers: count(15) };
    let effect = network.effect(&wrap).unwrap();
    assert_eq!(effect.before.limit.arrivals, PerSecond::ZERO);
    assert!(effect.before.solution.is_err());
    assert!((effect.after.limit.arrivals.get() - 0.2).abs() < 1e-15);
    assert!(effect.after.solution.is_ok());
    assert_eq!(effect.added_seconds(), None);
}

#[test]
fn all_threads_of_a_machine_slow_down_each_of_its_stages() {
    let on = |name, workers, machine| Station { machine, ..stage(name, 1.0, workers) };
    let limit = |machine| {
        let network = Network::builder()
            .stage(on("a", 4, 0))
            .stage(on("b", 6, machine))
            .arrivals("a", rate(1.0))
            .route("a", "b", share(1.0))
            .penalty(ThreadPenalty { per_thread: rate(0.5), free: 8 });
        network.build().unwrap().limit().arrivals.get()
    };
    // Ten threads on one machine: 4 − 0.5 · 2. On two: four and six, which are free.
    assert_eq!(limit(0), 3.0);
    assert_eq!(limit(1), 4.0);
}

#[test]
fn combining_undoes_a_pipeline() {
    let service = PhaseType::sequence(&[rate(30.0), rate(50.0)]).unwrap();
    let whole = Network::of_stage(Station::new("work", service, count(2)), rate(20.0)).unwrap();
    let pipeline = Pattern::Pipeline { stage: "work".to_owned(), workers: vec![count(1); 2] };
    let cut = whole.apply(&pipeline).unwrap();
    assert_eq!(cut.limit().stage, "work.1");
    let stages = vec!["work.1".to_owned(), "work.2".to_owned()];
    let combine = Pattern::Combine { stages, name: "work".to_owned(), workers: count(2) };
    assert_eq!(cut.apply(&combine).unwrap(), whole);
    // The price of the cut, from both sides.
    let price = whole.effect(&pipeline).unwrap().added_seconds().unwrap();
    assert!(price > 0.0);
    assert_eq!(cut.effect(&combine).unwrap().added_seconds(), Some(-price));
}

#[test]
fn combining_undoes_a_partition_inside_a_network() {
    let choices = [(share(0.25), rate(5.0)), (share(0.75), rate(80.0))];
    let network = Network::builder()
        .stage(stage("before", 100.0, 1))
        .stage(Station::new("work", PhaseType::branch(rate(90.0), &choices).unwrap(), count(3)))
        .stage(stage("after", 200.0, 1))
        .arrivals("before", rate(12.0))
        .route("before", "work", share(1.0))
        .route("work", "after", share(0.5))
        .exit("work", share(0.5))
        .build()
        .unwrap();
    let partition = Pattern::Partition { stage: "work".to_owned(), workers: vec![count(1); 3] };
    let cut = network.apply(&partition).unwrap();
    let names: Vec<&str> = cut.stages().iter().map(|stage| stage.name.as_str()).collect();
    assert_eq!(names, ["before", "work.1", "work.2", "work.3", "after"]);
    assert_eq!(cut.visits(), [1.0, 1.0, 0.25, 0.75, 0.5]);
    let combine = Pattern::Combine {
        stages: vec!["work.1".to_owned(), "work.2".to_owned(), "work.3".to_owned()],
        name: "work".to_owned(),
        workers: count(3),
    };
    let back = cut.apply(&combine).unwrap();
    let before = network.solve().unwrap().mean().get();
    let after = back.solve().unwrap().mean().get();
    assert!((after - before).abs() < 1e-12 * before);
}

#[test]
fn partitioning_spares_the_fast_the_wait_behind_the_slow() {
    let choices = [(share(0.1), rate(1.0)), (share(0.9), rate(100.0))];
    let service = PhaseType::branch(rate(1000.0), &choices).unwrap();
    let whole = Network::of_stage(Station::new("all", service, count(3)), rate(8.0)).unwrap();
    let workers = vec![count(1), count(2), count(1)];
    let partition = Pattern::Partition { stage: "all".to_owned(), workers };
    let effect = whole.effect(&partition).unwrap();
    let median = |evaluation: &Evaluation| {
        evaluation.solution.as_ref().unwrap().response.quantile(share(0.5)).get()
    };
    assert!(median(&effect.after) < median(&effect.before));
    assert_eq!((effect.before.workers(), effect.after.workers()), (3, 4));
}

#[test]
fn patterns_that_do_not_apply_say_why() {
    let network = pair().route("front", "back", share(1.0)).build().unwrap();
    let front = || "front".to_owned();
    let why = |pattern| network.apply(&pattern).unwrap_err();
    assert_eq!(
        why(Pattern::Pipeline { stage: front(), workers: vec![] }),
        InvalidPattern::NoSequence(front())
    );
    assert_eq!(
        why(Pattern::Partition { stage: front(), workers: vec![] }),
        InvalidPattern::NoBranch(front())
    );
    assert_eq!(
        why(Pattern::Combine { stages: vec![front(), front()], name: front(), workers: count(1) }),
        InvalidPattern::Few
    );
    assert!(matches!(
        why(Pattern::Replicate {
            stage: front(),
            copies: count(100),
            workers: count(1),
            machines: Machines::Own
        }),
        InvalidPattern::Network(InvalidNetwork::Stages(_))
    ));
}

#[test]
fn replicas_on_machines_of_their_own_leave_the_penalty_behind() {
    let network = Network::builder()
        .stage(stage("work", 1.0, 8))
        .arrivals("work", rate(4.0))
        .penalty(ThreadPenalty { per_thread: rate(0.5), free: 4 })
        .build()
        .unwrap();
    let limit = |machines| {
        let replicate = Pattern::Replicate {
            stage: "work".to_owned(),
            copies: count(2),
            workers: count(4),
            machines,
        };
        network.effect(&replicate).unwrap().after.limit.arrivals.get()
    };
    assert_eq!(network.limit().arrivals.get(), 6.0);
    assert_eq!(limit(Machines::Own), 8.0);
    // Each of the two loses what all eight threads cost.
    assert_eq!(limit(Machines::Shared), 4.0);
}

#[test]
fn capacity_of_one_stage_is_that_of_its_closed_form() {
    let target = Target::p90(Duration::from_millis(200)).unwrap();
    let network = Network::of_stage(stage("only", 20.0, 1), rate(500.0)).unwrap();
    let least = least_workers(rate(500.0), rate(20.0), target).unwrap();
    assert_eq!(least_workers_of(&network, "only", target), Ok(least));
    let enough = network.with_workers("only", least).unwrap();
    assert!(greatest_arrivals(&enough, target).unwrap() > rate(500.0));
}

#[test]
fn workers_at_one_stage_do_not_help_another() {
    let network = pair().route("front", "back", share(1.0)).build().unwrap();
    let target = Target::p90(Duration::from_millis(200)).unwrap();
    let at_50 = network.with_arrivals(rate(50.0)).unwrap();
    assert_eq!(least_workers_of(&at_50, "back", target), Ok(count(4)));
    let Err(Unreachable::Overloaded(overloaded)) = least_workers_of(&at_50, "front", target) else {
        panic!("the other stage is overloaded")
    };
    assert_eq!(overloaded.stage, "back");
}

#[test]
fn threads_that_cost_something_are_not_added_without_end() {
    let network = Network::builder()
        .stage(Station { parallelism: Some(count(4)), ..stage("work", 0.05, 1) })
        .arrivals("work", rate(0.15))
        .penalty(ThreadPenalty { per_thread: rate(0.01), free: 3 })
        .build()
        .unwrap();
    let within = |seconds| Target::p90(Duration::from_secs(seconds)).unwrap();
    // Three threads can serve 0.15, the fourth costs less than it brings, the next more.
    assert_eq!(least_workers_of(&network, "work", within(200)), Ok(count(4)));
    assert!(matches!(
        least_workers_of(&network, "work", within(50)),
        Err(Unreachable::TooSlow { .. })
    ));
}
