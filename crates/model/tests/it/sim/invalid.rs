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
    check(|scenario| scenario.stages.clear(), "0 stages; a scenario has 1 to 1000");
    check(
        |scenario| scenario.stages.push(stage("back")),
        "stage name \"back\" is used twice; give each its own",
    );
    check(|scenario| scenario.stages[1].workers = 0, "stage \"back\": no workers; set at least 1");
    check(
        |scenario| scenario.stages[1].service.clear(),
        "stage \"back\": class \"gold\" has 0 service steps; use 1 to 100",
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
        "stage \"front\": speed: a speed of -1 is not a positive number",
    );
    check(
        |scenario| scenario.stages[0].stretch = Profile::constant(f64::INFINITY),
        "stage \"front\": slow-down: inf is not a finite number of zero or more",
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
        "stage \"front\": route to unknown stage \"bank\"; name a stage of the scenario",
    );
    check(
        |scenario| scenario.stages[1].routes[0].probability = 1.2,
        "stage \"back\": route probabilities of class \"gold\" add up to 1.2; each must be positive, their sum at most 1",
    );
    check(
        |scenario| scenario.stages[1].routes[0].probability = f64::NAN,
        "stage \"back\": route probabilities of class \"gold\" add up to NaN; each must be positive, their sum at most 1",
    );
    check(
        |scenario| {
            let back = Route { to: "front".to_owned(), probability: 1.0 };
            scenario.stages[1].routes_of.push(("lead".to_owned(), vec![back]));
        },
        "stage \"front\": events of class \"lead\" never leave: no route leads to the exit; lower a route probability below 1",
    );
}

#[test]
fn the_resource_that_is_wrong_is_named() {
    check(
        |scenario| scenario.resources[0] = Resource::pool("database", 0),
        "resource \"database\": no connections; set at least 1",
    );
    check(
        |scenario| scenario.resources[0] = Resource::cores("processor", f64::NAN),
        "resource \"processor\": speed: a speed of NaN is not a positive number",
    );
}

#[test]
fn the_client_that_is_wrong_is_named() {
    let client = |scenario: &mut Scenario, load| scenario.clients[0].load = load;
    check(
        |scenario| scenario.clients[0].entry = "bank".to_owned(),
        "client \"crowd\": entry is unknown stage \"bank\"; name a stage of the scenario",
    );
    check(
        |scenario| scenario.clients[0].mix = vec![("gold".to_owned(), 0.5)],
        "client \"crowd\": class shares add up to 0.5; they must add up to 1",
    );
    check(
        |scenario| client(scenario, Load::poisson(Profile::constant(-3.0))),
        "client \"crowd\": rate: -3 is not a finite number of zero or more",
    );
    check(
        |scenario| {
            let gaps = Distribution::Constant(Duration::ZERO);
            client(scenario, Load::Open { rate: Profile::constant(1.0), gaps });
        },
        "client \"crowd\": the mean gap is 0s; it must be longer",
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
        "client \"crowd\": sessions never leave; use a closed load, or a probability to stay below 1",
    );
    check(
        |scenario| {
            let users = vec![(SECOND, 3), (SECOND, 4)];
            client(scenario, Load::Closed { users, think: exponential(MS) });
        },
        "client \"crowd\": user counts are empty or out of order; give at least one, in order of time",
    );
    check(
        |scenario| scenario.clients[0].retry = Retry::backoff(3, exponential(MS), 0.5),
        "client \"crowd\": retry growth 0.5 is invalid; use a finite number of at least 1",
    );
    check(
        |scenario| scenario.clients[0].resend = Some(SECOND),
        "client \"crowd\": `resend` is for closed clients, and longer than 0s",
    );
    check(
        |scenario| scenario.clients[0].flows = 0,
        "client \"crowd\": 0 flows; use at least 1, and about a million in all",
    );
}

#[test]
fn time_without_end_and_time_without_anything_in_it_are_rejected() {
    check(
        |scenario| scenario.duration = Duration::ZERO,
        "warm-up and duration are 0ns together; the duration must be longer than 0s, and both at most \
         833 days",
    );
    check(|scenario| scenario.tick = Duration::ZERO, "tick 0ns is out of range; use 1ms to 1s");
    check(|scenario| scenario.batches = 0, "0 batches; a scenario has 1 to 1000");
    let mut scenario = sound();
    scenario.warm_up = Duration::MAX;
    assert!(Simulation::new(&scenario).is_err());
}
