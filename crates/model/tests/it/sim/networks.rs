//! Stages in networks against theory: Jackson, mean value analysis, shared cores.

use tamarisk_model::sim::{Client, Load, Resource, Route, Scenario, Stage, Step};

use super::*;

#[test]
fn a_network_with_a_way_back_is_as_jackson_found() {
    // 300/s come; of those done at the third 30 in 100 come back to the first, so each
    // sees 300/0.7 = 428.6/s. Each is as if alone: inside = ρ/(1 − ρ).
    let duration = 200 * SECOND;
    let scenario = Scenario::new(one_class(), duration)
        .warm_up(duration / 10)
        .stage(Stage::new("first", 1, exponential(MS)).route("second", 1.0))
        .stage(Stage::new("second", 1, exponential(3 * MS / 2)).route("third", 1.0))
        .stage(Stage::new("third", 1, exponential(MS / 2)).route("first", 0.3))
        .client(Client::poisson("clients", "first", 300.0));
    let rate = 0.3 / 0.7;
    let inside = |service: f64| rate * service / (1.0 - rate * service);
    let expected = (inside(1.0) + inside(1.5) + inside(0.5)) / 300.0;
    let runs = replicate(&scenario);
    check("whole way", &runs, mean_response, expected, 0.05);
    let wait = |report: &Report| report.stages[1].classes[0].wait.mean();
    check("second", &runs, wait, inside(1.5) / rate * 1e-3 - 1.5e-3, 0.08);
}

#[test]
fn stages_on_one_processor_share_it() {
    // Two stages of 0.3 and 0.4 of one core in turn: one processor-sharing server,
    // of which the mean number inside is 0.7/0.3.
    let duration = 200 * SECOND;
    let step = |mean| [Step::on("processor", exponential(mean))];
    let stage = |name: &str, mean| Stage::new(name, 10_000, exponential(MS)).steps(step(mean));
    let scenario = Scenario::new(one_class(), duration)
        .warm_up(duration / 10)
        .resource(Resource::cores("processor", 1.0))
        .stage(stage("first", MS * 3 / 10).route("second", 1.0))
        .stage(stage("second", MS * 4 / 10))
        .client(Client::poisson("clients", "first", 1000.0));
    let runs = replicate(&scenario);
    check("whole way", &runs, mean_response, 0.7 / 0.3 / 1000.0, 0.07);
    let first = |report: &Report| report.stages[0].classes[0].response.mean();
    check("first", &runs, first, 0.3 / 0.3 / 1000.0, 0.07);
}

/// Throughput and response time of a closed network of queues with these service
/// demands and one place to think at, by exact mean value analysis.
fn mean_value_analysis(users: u32, think: f64, demands: &[f64]) -> (f64, f64) {
    let mut queues = vec![0.0; demands.len()];
    let mut answer = (0.0, 0.0);
    for n in 1..=users {
        let responses: Vec<f64> =
            demands.iter().zip(&queues).map(|(demand, queue)| demand * (1.0 + queue)).collect();
        let response: f64 = responses.iter().sum();
        let throughput = f64::from(n) / (think + response);
        queues = responses.iter().map(|response| throughput * response).collect();
        answer = (throughput, response);
    }
    answer
}

#[test]
fn a_closed_network_is_as_mean_value_analysis_finds() {
    // The second stage is visited 1/(1 − 0.5) = 2 times each.
    let duration = 100 * SECOND;
    let scenario = Scenario::new(one_class(), duration)
        .warm_up(duration / 10)
        .stage(Stage::new("first", 1, exponential(5 * MS)).route("second", 1.0))
        .stage(Stage::new("second", 1, exponential(4 * MS)).route("second", 0.5))
        .client(Client::new("users", "first", Load::users(12, exponential(60 * MS))));
    let (throughput, response) = mean_value_analysis(12, 0.06, &[0.005, 0.008]);
    let runs = replicate(&scenario);
    check("response", &runs, mean_response, response, 0.03);
    let completed = |report: &Report| report.classes[0].counts.completed as f64 / 100.0;
    check("throughput", &runs, completed, throughput, 0.02);
}

#[test]
fn classes_go_their_own_ways() {
    let route = |to: &str, probability| Route { to: to.to_owned(), probability };
    let scenario = Scenario::new(classes(&["read", "write"]), 100 * SECOND)
        .stage(
            Stage::new("door", 4, exponential(MS))
                .route("cache", 1.0)
                .routes_of("write", [route("disk", 0.5), route("cache", 0.25)]),
        )
        .stage(Stage::new("cache", 4, exponential(MS)))
        .stage(
            Stage::new("disk", 4, exponential(MS))
                .steps_of("write", [Step::own(exponential(5 * MS))]),
        )
        .client(Client::poisson("clients", "door", 400.0).class("read", 0.5).class("write", 0.5));
    let report = Simulation::new(&scenario).unwrap().run(1);
    let offered = |stage: usize, class: usize| {
        report.stages[stage].classes[class].counts.offered as f64 / 100.0
    };
    // Poisson: three standard deviations of a count n over 100 s are 3·√n ÷ 100.
    for (stage, class, expected) in
        [(0, 0, 200.0), (0, 1, 200.0), (1, 0, 200.0), (1, 1, 50.0), (2, 0, 0.0), (2, 1, 100.0)]
    {
        let slack = 3.0 * (expected * 100.0f64).sqrt() / 100.0;
        let offered = offered(stage, class);
        assert!((offered - expected).abs() <= slack, "{stage} {class}: {offered}");
    }
    let disk = &report.stages[2].classes[1];
    assert!((disk.response.mean() - disk.wait.mean() - 5e-3).abs() < 2e-4);
}
