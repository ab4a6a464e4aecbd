//! What cannot be simulated is rejected with the place and the reason.

use tamarisk_control::Ratio;
use tamarisk_model::sim::{
    Client, Distribution, Load, Profile, Resource, Retry, Route, Scenario, Speed, Stage, Step,
};

use super::*;

fn sound() -> Scenario {
    Scenario::new(classes(&["gold", "lead"]), SECOND)
        .resource(Resource::cores("processor", 2.0))
        .stage(stage("front").route("back", 1.0))
        .stage(stage("back").route("front", 0.1))
        .client(Client::poisson("crowd", "front", 10.0))
}

fn stage(name: &str) -> Stage {
    Stage::new(name, 1, exponential(MS))
}

/// `spoil` makes the sound scenario one that is rejected with this message.
fn check(spoil: impl FnOnce(&mut Scenario), message: &str) {
    let mut scenario = sound();
    spoil(&mut scenario);
    let rejected = Simulation::new(&scenario).unwrap_err();
    assert_eq!(rejected.to_string(), message);
}

#[test]
fn a_sound_scenario_is_accepted() {
    Simulation::new(&sound()).unwrap();
}

#[test]
fn the_stage_that_is_wrong_is_named() {
    check(|scenario| scenario.stages.clear(), "a scenario has between 1 and 1000 stages, not 0");
    check(
        |scenario| scenario.stages.push(stage("back")),
        "two of a kind (stage) are named \"back\"",
    );
    check(|scenario| scenario.stages[1].workers = 0, "stage \"back\": it has no workers");
    check(
        |scenario| scenario.stages[1].service.clear(),
        "stage \"back\": for class \"gold\" it has 0 steps; between 1 and 100 are possible",
    );
    check(
        |scenario| {
            let pareto = Distribution::Pareto { least: MS, shape: 0.9 };
            scenario.stages[0].service = vec![Step::own(pareto)];
        },
        "stage \"front\": the service of class \"gold\": a Pareto distribution of shape 0.9 \
         has no mean; its shape must be above 1",
    );
    check(
        |scenario| scenario.stages[0].service = vec![Step::on("disk", exponential(MS))],
        "stage \"front\": there is no resource \"disk\"",
    );
    check(
        |scenario| scenario.stages[0].speed = Speed::Cores(-1.0),
        "stage \"front\": its speed: a speed of -1 is not a positive number",
    );
    check(
        |scenario| scenario.stages[0].stretch = Profile::constant(f64::INFINITY),
        "stage \"front\": its stretch: inf is not a finite number of zero or more",
    );
    check(
        |scenario| scenario.stages[0].service_of = vec![("tin".to_owned(), vec![])],
        "stage \"front\": there is no class \"tin\"",
    );
}

#[test]
fn ways_that_lead_nowhere_are_rejected() {
    check(
        |scenario| scenario.stages[0].routes[0].to = "bank".to_owned(),
        "stage \"front\": it routes to \"bank\", and there is no such stage",
    );
    check(
        |scenario| scenario.stages[1].routes[0].probability = 1.2,
        "stage \"back\": the routes of class \"gold\" have probabilities that add up to 1.2",
    );
    check(
        |scenario| scenario.stages[1].routes[0].probability = f64::NAN,
        "stage \"back\": the routes of class \"gold\" have probabilities that add up to NaN",
    );
    check(
        |scenario| {
            let back = Route { to: "front".to_owned(), probability: 1.0 };
            scenario.stages[1].routes_of.push(("lead".to_owned(), vec![back]));
        },
        "stage \"front\": events of class \"lead\" never get out of it: no way leads to the exit",
    );
}

#[test]
fn the_resource_that_is_wrong_is_named() {
    check(
        |scenario| scenario.resources[0] = Resource::pool("database", 0),
        "resource \"database\": it has no connections",
    );
    check(
        |scenario| scenario.resources[0] = Resource::cores("processor", f64::NAN),
        "resource \"processor\": its speed: a speed of NaN is not a positive number",
    );
}

#[test]
fn the_client_that_is_wrong_is_named() {
    let client = |scenario: &mut Scenario, load| scenario.clients[0].load = load;
    check(
        |scenario| scenario.clients[0].entry = "bank".to_owned(),
        "client \"crowd\": it enters by \"bank\", and there is no such stage",
    );
    check(
        |scenario| scenario.clients[0].mix = vec![("gold".to_owned(), 0.5)],
        "client \"crowd\": the shares of its classes add up to 0.5, not to 1",
    );
    check(
        |scenario| client(scenario, Load::poisson(Profile::constant(-3.0))),
        "client \"crowd\": its rate: -3 is not a finite number of zero or more",
    );
    check(
        |scenario| {
            let gaps = Distribution::Constant(Duration::ZERO);
            client(scenario, Load::Open { rate: Profile::constant(1.0), gaps });
        },
        "client \"crowd\": the mean of its gaps is zero",
    );
    check(
        |scenario| {
            let load = Load::Sessions {
                rate: Profile::constant(1.0),
                gaps: exponential(SECOND),
                stay: Ratio::ONE,
                think: exponential(SECOND),
            };
            client(scenario, load);
        },
        "client \"crowd\": its sessions never leave: they are users of a closed load",
    );
    check(
        |scenario| {
            let users = vec![(SECOND, 3), (SECOND, 4)];
            client(scenario, Load::Closed { users, think: exponential(MS) });
        },
        "client \"crowd\": its counts of users must be at least one, in order of time",
    );
    check(
        |scenario| scenario.clients[0].retry = Retry::backoff(3, exponential(MS), 0.5),
        "client \"crowd\": a growth of 0.5 is not a finite number of 1 or more",
    );
    check(
        |scenario| scenario.clients[0].flows = 0,
        "client \"crowd\": 0 flows; at least 1, and about a million in all, are possible",
    );
}

#[test]
fn time_without_end_and_time_without_anything_in_it_are_rejected() {
    check(
        |scenario| scenario.duration = Duration::ZERO,
        "a warm-up and a duration of 0ns together: there must be something to measure, \
         and no more than 833 days of it",
    );
    check(|scenario| scenario.tick = Duration::ZERO, "a tick of 0ns is not between 1ms and 1s");
    check(|scenario| scenario.batches = 0, "a scenario has between 1 and 1000 batches, not 0");
    let mut scenario = sound();
    scenario.warm_up = Duration::MAX;
    assert!(Simulation::new(&scenario).is_err());
}
