//! Every formula against an evaluation at 50 digits, see `reference/make.py`.

use tamarisk_control::{Concurrency, PerSecond, Ratio};
use tamarisk_model::Seconds;
use tamarisk_model::network::{Network, Station};
use tamarisk_model::queueing::{Accuracy, LoadDependent, MultiServer, PhaseServer, PhaseType};

const VALUES: &str = include_str!("reference/values.tsv");

/// The arguments and values of each line of a kind.
fn lines(kind: &str) -> Vec<Vec<&'static str>> {
    let cells = VALUES.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let lines: Vec<_> = cells.filter(|c| c[0] == kind).map(|c| c[1..].to_vec()).collect();
    assert!(!lines.is_empty(), "values.tsv has lines of {kind}");
    lines
}

fn numbers(cells: &[&str]) -> Vec<f64> {
    cells.iter().map(|cell| cell.parse().unwrap()).collect()
}

fn rate(value: f64) -> PerSecond {
    PerSecond::new(value).unwrap()
}

fn count(value: f64) -> Concurrency {
    Concurrency::new(value as u32)
}

fn at(seconds: f64) -> Seconds {
    Seconds::new(seconds).unwrap()
}

#[track_caller]
fn close(what: &str, ours: f64, theirs: f64) {
    let error = (ours - theirs).abs();
    // What is below the least double is zero here.
    assert!(error <= 1e-9 * theirs.abs() || error < 1e-300, "{what}: {ours} is not {theirs}");
}

#[test]
fn m_m_m_agrees() {
    for cells in lines("multi_server") {
        let [arrivals, service, servers, empty, waiting, number, variance, mean] =
            numbers(&cells)[..]
        else {
            panic!("{cells:?}")
        };
        let centre = MultiServer::new(rate(service), count(servers)).unwrap();
        let occupancy = centre.occupancy(rate(arrivals)).unwrap();
        let equilibrium = centre.at(rate(arrivals)).unwrap();
        let what = format!("{cells:?}");
        close(&what, occupancy.probability(0).get(), empty);
        close(&what, equilibrium.waiting.get(), waiting);
        close(&what, equilibrium.number, number);
        close(&what, occupancy.variance(), variance);
        close(&what, equilibrium.response.mean().get(), mean);
        assert_eq!(
            (equilibrium.means, equilibrium.percentiles),
            (Accuracy::Exact, Accuracy::Exact)
        );
    }
}

#[test]
fn response_time_quantiles_of_m_m_m_agree() {
    for cells in lines("quantile") {
        let [arrivals, service, servers, percentile, quantile] = numbers(&cells)[..] else {
            panic!("{cells:?}")
        };
        let centre = MultiServer::new(rate(service), count(servers)).unwrap();
        let response = centre.at(rate(arrivals)).unwrap().response;
        let ours = response.quantile(Ratio::new(percentile).unwrap());
        close(&format!("{cells:?}"), ours.get(), quantile);
    }
}

#[test]
fn response_time_tails_of_m_m_m_agree() {
    for cells in lines("tail") {
        let [arrivals, service, servers, time, tail] = numbers(&cells)[..] else {
            panic!("{cells:?}")
        };
        let centre = MultiServer::new(rate(service), count(servers)).unwrap();
        let response = centre.at(rate(arrivals)).unwrap().response;
        let what = format!("{cells:?}");
        close(&what, response.exceeds(at(time)).get(), tail);
        assert!((response.within(at(time)).get() - (1.0 - tail)).abs() < 1e-12, "{what}");
    }
}

#[test]
fn erlang_b_agrees() {
    for cells in lines("blocking") {
        let [arrivals, service, servers, blocking] = numbers(&cells)[..] else {
            panic!("{cells:?}")
        };
        let centre = MultiServer::new(rate(service), count(servers)).unwrap();
        close(&format!("{cells:?}"), centre.blocking(rate(arrivals)).get(), blocking);
    }
}

#[test]
fn load_dependent_centres_agree() {
    for cells in lines("load_dependent") {
        let [arrivals, service, threads, parallelism, lost, waiting, number, variance, mean, p5] =
            numbers(&cells)[..]
        else {
            panic!("{cells:?}")
        };
        let centre =
            LoadDependent::new(rate(service), count(threads), count(parallelism), rate(lost));
        let centre = centre.unwrap();
        let occupancy = centre.occupancy(rate(arrivals)).unwrap();
        let equilibrium = centre.at(rate(arrivals)).unwrap();
        let what = format!("{cells:?}");
        close(&what, equilibrium.waiting.get(), waiting);
        close(&what, equilibrium.number, number);
        close(&what, occupancy.variance(), variance);
        close(&what, equilibrium.response.mean().get(), mean);
        close(&what, occupancy.probability(5).get(), p5);
    }
}

fn service(name: &str) -> PhaseType {
    let half = Ratio::new(0.5).unwrap();
    match name {
        "erlang2" => PhaseType::erlang(2, rate(1.0)),
        "erlang3" => PhaseType::erlang(3, rate(2.0)),
        "choice" => PhaseType::choice(&[(half, rate(0.02)), (half, rate(0.07))]),
        "branch" => PhaseType::branch(rate(0.9), &[(half, rate(0.02)), (half, rate(0.07))]),
        other => panic!("there is no service {other}"),
    }
    .unwrap()
}

#[test]
fn service_of_several_steps_agrees() {
    for cells in lines("phase_server") {
        let [arrivals, workers, waiting, number, mean] = numbers(&cells[1..])[..] else {
            panic!("{cells:?}")
        };
        let centre = PhaseServer::new(service(cells[0]), count(workers));
        let equilibrium = centre.at(rate(arrivals)).unwrap();
        let what = format!("{cells:?}");
        assert_eq!(equilibrium.means, Accuracy::Exact, "{what}");
        close(&what, equilibrium.waiting.get(), waiting);
        close(&what, equilibrium.number, number);
        close(&what, equilibrium.response.mean().get(), mean);
    }
}

#[test]
fn one_worker_of_several_steps_is_as_pollaczek_and_khinchine_say() {
    for cells in lines("pollaczek_khinchine") {
        let [steps, arrivals, mean] = numbers(&cells)[..] else { panic!("{cells:?}") };
        let service = PhaseType::erlang(steps as usize, rate(1.0)).unwrap();
        let equilibrium = PhaseServer::new(service, Concurrency::ONE).at(rate(arrivals)).unwrap();
        close(&format!("{cells:?}"), equilibrium.response.mean().get(), mean);
    }
}

#[test]
fn a_network_with_a_way_back_agrees() {
    for cells in lines("network") {
        let values = numbers(&cells);
        let share = |value| Ratio::new(value).unwrap();
        let stage = |name, service, workers| {
            let service = PhaseType::exponential(rate(service)).unwrap();
            Station::new(name, service, Concurrency::new(workers))
        };
        let network = Network::builder()
            .stage(stage("read", 500.0, 1))
            .stage(stage("parse", 120.0, 2))
            .stage(stage("disk", 30.0, 4))
            .stage(stage("send", 300.0, 1))
            .arrivals("read", rate(values[0]))
            .route("read", "parse", share(1.0))
            .route("parse", "disk", share(0.3))
            .route("parse", "send", share(0.7))
            .route("disk", "parse", share(0.1))
            .route("disk", "send", share(0.9))
            .build()
            .unwrap();
        let solution = network.solve().unwrap();
        let what = format!("{cells:?}");
        close(&what, solution.mean().get(), values[1]);
        close(&what, solution.response.mean().get(), values[1]);
        for (stage, flow) in solution.stages.iter().zip(&values[2..6]) {
            close(&what, stage.equilibrium.arrivals.get(), *flow);
        }
        for (percentile, quantile) in [0.5, 0.9, 0.99].into_iter().zip(&values[6..9]) {
            close(&what, solution.response.quantile(share(percentile)).get(), *quantile);
        }
        assert_eq!(solution.means, Accuracy::Exact);
        assert_eq!(solution.percentiles, Accuracy::Approximate, "events overtake on the way back");
    }
}
