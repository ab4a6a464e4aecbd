//! One stage against queueing theory.

use tamarisk_control::Ratio;
use tamarisk_model::queueing::Accuracy;
use tamarisk_model::sim::{
    Client, Discipline, Distribution, Load, Profile, Resource, Scenario, Speed, Stage, Step,
};

use super::*;

/// The probability that all of `workers` are busy, at an offered load in workers:
/// Erlang's loss formula by its recursion.
fn erlang_b(workers: u32, load: f64) -> f64 {
    (1..=workers).fold(1.0, |blocked, n| load * blocked / (f64::from(n) + load * blocked))
}

/// The probability of having to wait.
fn erlang_c(workers: u32, load: f64) -> f64 {
    let blocked = erlang_b(workers, load);
    let utilisation = load / f64::from(workers);
    blocked / (1.0 - utilisation * (1.0 - blocked))
}

#[test]
fn m_m_1_waits_as_known() {
    // ρ = 0.7, service 1 ms: W = ρ/(1 − ρ) ms.
    let scenario = single(700.0, 200_000.0, Stage::new("work", 1, exponential(MS)));
    let runs = replicate(&scenario);
    check("wait", &runs, mean_wait, 0.7 / 0.3 * 1e-3, 0.05);
    check("response", &runs, mean_response, 1.0 / 0.3 * 1e-3, 0.05);
    check("queued", &runs, |report| report.stages[0].queued, 0.7 * 0.7 / 0.3, 0.05);
    check("running", &runs, |report| report.stages[0].running, 0.7, 0.01);
    // The response time is exponential: its p90 is ln 10 times its mean.
    let p90 = |report: &Report| report.classes[0].response.quantile(0.9);
    check("p90", &runs, p90, 10f64.ln() / 0.3 * 1e-3, 0.05);
}

#[test]
fn m_m_m_waits_as_erlang_found() {
    // 8 workers of 8 ms: 1000/s are their capacity.
    let stage = Stage::new("work", 8, exponential(8 * MS));
    let scenario = single(800.0, 150_000.0, stage);
    let expected = erlang_c(8, 6.4) * 8e-3 / (8.0 - 6.4);
    let runs = replicate(&scenario);
    check("wait", &runs, mean_wait, expected, 0.08);
}

#[test]
fn m_g_1_waits_as_pollaczek_and_khinchine_found() {
    // W = ρ·(1 + C²)/2 ÷ (1 − ρ) services.
    let services = [
        ("M/D/1", Distribution::Constant(MS), 0.7, 0.03),
        ("M/E4/1", Distribution::Erlang { stages: 4, mean: MS }, 0.7, 0.03),
        ("M/H2/1", Distribution::hyper_exponential(MS, 4.0), 0.6, 0.1),
        ("M/lognormal/1", Distribution::LogNormal { mean: MS, variation: 1.0 }, 0.6, 0.07),
        ("M/U/1", Distribution::Uniform { from: MS / 2, to: 3 * MS / 2 }, 0.7, 0.03),
        ("M/bimodal/1", Distribution::bimodal(MS / 2, 5 * MS + MS / 2, 0.1), 0.6, 0.07),
    ];
    for (name, service, utilisation, tolerance) in services {
        assert_eq!(service.mean(), Ok(MS), "{name}");
        let variation = service.variation_squared().unwrap();
        let expected = utilisation * (1.0 + variation) / 2.0 / (1.0 - utilisation) * 1e-3;
        let scenario = single(1000.0 * utilisation, 200_000.0, Stage::new("work", 1, service));
        let runs = replicate(&scenario);
        check(name, &runs, mean_wait, expected, tolerance);
    }
}

/// M/D/m and M/G/m have no closed form: the model's approximation is within a tenth of the simulated mean,
/// and within a fifth of the simulated p90.
#[test]
fn m_g_m_takes_about_as_long_as_allen_and_cunneen_say() {
    let services = [
        ("M/D/1", "'20ms'", 1, 0.7),
        ("M/D/4", "'20ms'", 4, 0.8),
        ("M/U/4", "{ uniform = ['10ms', '30ms'] }", 4, 0.8),
        ("M/lognormal/2", "{ log_normal = '20ms', variation = 1.5 }", 2, 0.7),
        ("M/lognormal/8", "{ log_normal = '20ms', variation = 2 }", 8, 0.9),
        (
            "M/bimodal/4",
            "{ mixture = [{ constant = '10ms', share = 0.9 }, { constant = '110ms', share = 0.1 }] }",
            4,
            0.8,
        ),
    ];
    for (name, service, workers, utilisation) in services {
        let rate = utilisation * f64::from(workers) / 0.02;
        let seconds = (100_000.0 / rate).round();
        let text = format!(
            "duration = '{seconds}s'\nwarm_up = '20s'\np90 = '1s'\n[stages.work]\n\
             workers = {workers}\nservice = {service}\n[clients.crowd]\nopen = '{rate}/s'\n"
        );
        let file = tamarisk_model::scenario::parse(name, &text).unwrap();
        let solution = file.network(None).unwrap().solve().unwrap();
        let [stage] = &solution.stages[..] else { panic!("one stage") };
        let means = if workers == 1 { Accuracy::Exact } else { Accuracy::Approximate };
        assert_eq!((stage.equilibrium.means, solution.percentiles), (means, Accuracy::Approximate));
        let runs = replicate(&file.scenario);
        let near = |what: &str, of: &dyn Fn(&Report) -> f64, modelled: f64, tolerance: f64| {
            let simulated = estimate(&runs, of).mean;
            let off = (modelled / simulated - 1.0).abs();
            assert!(off < tolerance, "{name}: {what} {simulated:.5} s, modelled {modelled:.5} s");
        };
        near("mean", &mean_response, solution.mean().get(), 0.1);
        let p90 = |report: &Report| report.classes[0].response.quantile(0.9);
        near("p90", &p90, solution.response.quantile(Ratio::new(0.9).unwrap()).get(), 0.2);
    }
}

#[test]
fn two_steps_are_an_erlang_service() {
    let step = || Step::own(exponential(MS / 2));
    let stage = Stage::new("work", 1, exponential(MS)).steps([step(), step()]);
    let scenario = single(700.0, 200_000.0, stage);
    let runs = replicate(&scenario);
    check("M/E2/1", &runs, mean_wait, 0.7 * 0.75 / 0.3 * 1e-3, 0.05);
}

#[test]
fn g_m_1_waits_as_known() {
    // D/M/1 at ρ = 0.7: σ = exp(−(1 − σ)/ρ), W = σ/(1 − σ) services.
    let sigma = (0..200).fold(0.5f64, |sigma, _| (-(1.0 - sigma) / 0.7).exp());
    let mut scenario = single(700.0, 200_000.0, Stage::new("work", 1, exponential(MS)));
    let gaps = Distribution::Constant(SECOND);
    scenario.clients[0].load = Load::Open { rate: Profile::constant(700.0), gaps };
    let runs = replicate(&scenario);
    check("D/M/1", &runs, mean_wait, sigma / (1.0 - sigma) * 1e-3, 0.05);
}

#[test]
fn processor_sharing_does_not_mind_the_shape_of_the_service() {
    // M/G/1-PS: T = service/(1 − ρ), whatever the distribution.
    let services = [
        ("M/M/1-PS", exponential(MS)),
        ("M/D/1-PS", Distribution::Constant(MS)),
        ("M/H2/1-PS", Distribution::hyper_exponential(MS, 4.0)),
    ];
    for (name, service) in services {
        let stage = Stage::new("work", 100_000, service).speed(Speed::Cores(1.0));
        let scenario = single(700.0, 150_000.0, stage);
        let runs = replicate(&scenario);
        check(name, &runs, mean_response, 1.0 / 0.3 * 1e-3, 0.07);
    }
}

#[test]
fn processor_sharing_on_two_cores_takes_as_long_as_two_workers() {
    // M/M/2-PS has the numbers inside of M/M/2: T = s·(1 + C(2, a)/(2 − a)).
    let stage = Stage::new("work", 100_000, exponential(2 * MS)).speed(Speed::Cores(2.0));
    let scenario = single(700.0, 150_000.0, stage);
    let expected = 2e-3 * (1.0 + erlang_c(2, 1.4) / 0.6);
    let runs = replicate(&scenario);
    check("M/M/2-PS", &runs, mean_response, expected, 0.07);
}

#[test]
fn threads_that_cost_are_a_birth_and_death_process() {
    // [Welsh02 eq. 4.12] with µ = 1/ms, α = 4, 20 threads of which 5 too many at 0.2
    // workers each: µ(n) = max(0, min(n, 4) − 1)/ms; nobody is served alone.
    let speed = Speed::Threads { parallelism: 4.0, threads: 20, free: 15, loss: 0.2 };
    let stage = Stage::new("work", 20, exponential(MS)).speed(speed.clone());
    let scenario = single(2100.0, 200_000.0, stage);
    // From n = 1 on: p(n)·µ(n) = p(n−1)·λ.
    let (mut probability, mut total, mut inside) = (1.0, 1.0, 1.0);
    for n in 2..2000 {
        probability *= 2.1 / speed.total(n.min(20));
        total += probability;
        inside += f64::from(n) * probability;
    }
    let runs = replicate(&scenario);
    check("response", &runs, mean_response, inside / total / 2.1 * 1e-3, 0.05);
}

#[test]
fn a_pool_of_connections_is_a_queue_of_its_own() {
    let step = Step::on("database", exponential(3 * MS));
    let scenario =
        single(700.0, 150_000.0, Stage::new("work", 100_000, exponential(MS)).steps([step]))
            .resource(Resource::pool("database", 3));
    let expected = 3e-3 * (1.0 + erlang_c(3, 2.1) / 0.9);
    let runs = replicate(&scenario);
    check("M/M/3", &runs, mean_response, expected, 0.05);
}

#[test]
fn where_nobody_waits_the_share_rejected_does_not_mind_the_shape_of_the_service() {
    for service in [Distribution::Constant(8 * MS), Distribution::hyper_exponential(8 * MS, 4.0)] {
        let scenario = single(1000.0, 100_000.0, Stage::new("work", 8, service).capacity(1));
        // A queue of one place is M/M/8/9; of none there is no such thing, so compare
        // with the loss system by a stage whose law rejects all who would wait.
        let simulation = Simulation::new(&scenario).unwrap();
        let share = |seed| {
            let law = Box::new(tamarisk_laws::Threshold::new(0));
            let report = simulation.start(seed).law("work", law).unwrap().finish();
            report.classes[0].rejected_share()
        };
        let shares: Vec<f64> = (1..=10).map(share).collect();
        let estimate = Estimate::of(&shares, 0.999).unwrap();
        assert!(estimate.covers(erlang_b(8, 8.0)), "{estimate:?} {}", erlang_b(8, 8.0));
        assert!(estimate.half_width < 0.01, "{estimate:?}");
    }
}

#[test]
fn the_more_important_wait_as_cobham_found() {
    // ρ = 0.3 + 0.4, exponential services of 1 ms: R = 0.7 ms, W₁ = R/(1 − 0.3),
    // W₂ = R/((1 − 0.3)(1 − 0.7)).
    let duration = 300 * SECOND;
    let stage = Stage::new("work", 1, exponential(MS)).discipline(Discipline::Priority);
    let client =
        Client::poisson("clients", "work", 700.0).class("gold", 3.0 / 7.0).class("lead", 4.0 / 7.0);
    let scenario = Scenario::new(classes(&["gold", "lead"]), duration)
        .warm_up(10 * SECOND)
        .stage(stage)
        .client(client);
    let wait = |class: usize| move |report: &Report| report.stages[0].classes[class].wait.mean();
    let runs = replicate(&scenario);
    check("gold", &runs, wait(0), 0.7 / 0.7 * 1e-3, 0.03);
    check("lead", &runs, wait(1), 0.7 / 0.7 / 0.3 * 1e-3, 0.05);
}

#[test]
fn intervals_from_batches_cover_the_true_mean_about_as_often_as_they_say() {
    let scenario = single(500.0, 40_000.0, Stage::new("work", 1, exponential(MS)));
    let simulation = Simulation::new(&scenario).unwrap();
    let covers = |seed: &u64| {
        let wait = &simulation.run(*seed).stages[0].classes[0].wait;
        wait.estimate(0.9).unwrap().covers(1e-3)
    };
    let covered = (1..=100).filter(covers).count();
    // 100 tries at 0.9: three standard deviations are 9.
    assert!((81..=99).contains(&covered), "{covered} of 100");
}
