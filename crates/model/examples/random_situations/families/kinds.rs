//! One pool of workers with requests of several kinds.

use std::fmt::Write as _;

use super::Family;
use super::pool::CAPACITY_MAX;
use crate::draw::Draw;
use crate::situation::{Service, Situation, Times, rate};

/// Mean service of the longest kind at most, in seconds.
const LONGEST_MAX: f64 = 8.0;
/// The target at most, in seconds, if that leaves 2.5 times the longest kind.
const TARGET_MAX: f64 = 60.0;

pub(super) fn situation(family: Family, draw: &mut Draw) -> Situation {
    let (workers, shortest, longest) = workers_and_means(draw);
    let count = 2 + draw.below(3);
    let means: Vec<f64> = (0..count)
        .map(|index| match index {
            0 => shortest,
            1 => longest,
            _ => draw.log_between(shortest, longest),
        })
        .collect();
    let shares = shares_of_requests(draw, &means);
    let mean: f64 = shares.iter().zip(&means).map(|(share, mean)| share * mean).sum();
    let capacity = f64::from(workers) / mean;
    let times_longest = draw.log_between(2.5, 40.0).min(TARGET_MAX / longest).max(2.5);
    let target = longest * times_longest;
    let services: Vec<_> = means.iter().map(|mean| Service::draw(draw, *mean)).collect();
    let load = draw.log_between(0.8, 8.0);

    let mut text = Times::new(capacity, target).head();
    let mut own = String::new();
    let mut mix = String::new();
    let service = match family {
        Family::Kinds => {
            for (index, (service, share)) in services.iter().zip(&shares).enumerate() {
                let _ = writeln!(text, "[kinds.k{index}]");
                let _ = writeln!(own, "kinds.k{index}.service = {}", service.text);
                let comma = if index == 0 { "" } else { ", " };
                let _ = write!(mix, "{comma}k{index} = {share}");
            }
            mix = format!("mix = {{ {mix} }}\n");
            services[0].text.clone()
        }
        _ => mixture(&services, &shares),
    };
    let _ = write!(
        text,
        "\n[stages.upstream]\nworkers = {workers}\ndiscipline = \"earliest-due\"\n\
         service = {service}\n{own}\n[clients.users]\nopen = \"{}\"\n{mix}",
        rate(load * capacity)
    );
    let described: Vec<_> = services
        .iter()
        .zip(&shares)
        .map(|(service, share)| format!("{:.1} % {service}", 100.0 * share))
        .collect();
    let description = format!(
        "workers: {workers}, service {}, target {times_longest:.1} × the longest, load {load:.2} ×",
        described.join(" and "),
    );
    Situation::of_one_stage(description, text)
}

/// How many workers there are, and the mean service of the shortest and the longest kind.
fn workers_and_means(draw: &mut Draw) -> (u32, f64, f64) {
    loop {
        let workers = draw.log_between(1.0, 121.0) as u32;
        let shortest = draw.log_between(0.002, 0.2);
        let longest = shortest * draw.log_between(4.0, 200.0);
        if f64::from(workers) / shortest <= CAPACITY_MAX && longest < LONGEST_MAX {
            return (workers, shortest, longest);
        }
    }
}

/// What share of the requests each kind has. The work of each is drawn: were it the requests, the
/// longest kind would be nearly all of the work.
fn shares_of_requests(draw: &mut Draw, means: &[f64]) -> Vec<f64> {
    let work: Vec<f64> = means.iter().map(|_| draw.between(0.1, 1.0)).collect();
    let requests: Vec<f64> = work.iter().zip(means).map(|(work, mean)| work / mean).collect();
    let all: f64 = requests.iter().sum();
    requests.iter().map(|it| it / all).collect()
}

/// The service of a request of any kind.
fn mixture(services: &[Service], shares: &[f64]) -> String {
    let of_kinds = services.iter().zip(shares);
    let of_kinds = of_kinds.map(|(service, share)| service.text_with(&format!("share = {share}")));
    format!("{{ mixture = [{}] }}", of_kinds.collect::<Vec<_>>().join(", "))
}
