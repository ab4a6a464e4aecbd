//! One pool of workers with requests of one kind.

use std::fmt::Write as _;

use super::Family;
use crate::draw::Draw;
use crate::situation::{Service, Situation, Times, rate, short, time};

/// Requests a second that a pool serves at most: more take long to simulate and show nothing else.
pub(super) const CAPACITY_MAX: f64 = 3000.0;
/// Pauses of a run at most.
const PAUSES_MAX: usize = 8;
/// Users of a closed load at most.
const USERS_MAX: f64 = 20_000.0;

/// A pool that a situation is made for.
struct Pool {
    workers: u32,
    /// Seconds.
    mean: f64,
    /// Seconds.
    target: f64,
    /// Requests a second.
    capacity: f64,
    times: Times,
}

pub(super) fn situation(family: Family, draw: &mut Draw) -> Situation {
    let (workers, mean) = workers_and_mean(draw);
    let service = Service::draw(draw, mean);
    let target = mean * draw.log_between(2.5, 40.0);
    let capacity = f64::from(workers) / mean;
    let times = Times::new(capacity, target);
    let mut pool = Pool { workers, mean, target, capacity, times };
    let mut stage = format!(
        "[stages.upstream]\nworkers = {workers}\ndiscipline = \"earliest-due\"\n\
         service = {}\n",
        service.text
    );
    let mut description =
        format!("workers: {workers}, service {service}, target {:.1} × that", target / mean);
    let special = match family {
        Family::Cores => Some(pool.with_cores(draw)),
        Family::Pause => Some(pool.pauses(draw)),
        Family::Slowdown => Some(pool.slowdown(draw)),
        _ => None,
    };
    if let Some((line, what)) = special {
        let _ = writeln!(stage, "{line}");
        let _ = write!(description, ", {what}");
    }
    let (clients, load) = pool.clients(family, draw);
    let _ = write!(description, ", {load}");
    let text = format!("{}\n{stage}\n[clients.users]\n{clients}", pool.times.head());
    Situation::of_one_stage(description, text)
}

/// How many workers there are, and the mean service in seconds.
fn workers_and_mean(draw: &mut Draw) -> (u32, f64) {
    loop {
        let workers = draw.log_between(1.0, 121.0) as u32;
        let mean = draw.log_between(0.002, 1.0);
        if f64::from(workers) / mean <= CAPACITY_MAX {
            return (workers, mean);
        }
    }
}

/// A line of the scenario, and a part of the description.
type Special = (String, String);

impl Pool {
    /// Lets the workers share fewer cores than there are workers.
    fn with_cores(&mut self, draw: &mut Draw) -> Special {
        let workers = f64::from(self.workers);
        let cores = (workers * draw.between(0.1, 0.8)).max(1.0);
        self.capacity *= cores / workers;
        (format!("cores = {cores:.2}"), format!("{cores:.1} cores"))
    }

    fn pauses(&self, draw: &mut Draw) -> Special {
        let measured = self.times.measured;
        let mut at = self.times.at(draw.between(0.05, 0.3));
        let mut pauses = Vec::new();
        let mut lengths = Vec::new();
        while at < self.times.at(0.8) && pauses.len() < PAUSES_MAX {
            let until = at + draw.log_between(0.3, 3.0).min(0.1 * measured);
            pauses.push(format!("{{ from = \"{}\", until = \"{}\" }}", time(at), time(until)));
            lengths.push(short(until - at));
            at = until + draw.between(0.1, 0.4) * measured;
        }
        let line = format!("pauses = [{}]", pauses.join(", "));
        (line, format!("pauses of {}", lengths.join(", ")))
    }

    fn slowdown(&self, draw: &mut Draw) -> Special {
        let times = draw.log_between(1.3, 6.0);
        let from = self.times.at(draw.between(0.1, 0.4));
        let is_for_good = draw.below(2) == 0;
        let until = self.times.at(if is_for_good { 1.0 } else { draw.between(0.6, 0.8) });
        let line = format!(
            "slow = [{{ from = \"{}\", until = \"{}\", times = {times:.3} }}]",
            time(from),
            time(until)
        );
        let lasting = if is_for_good { "for good" } else { "for a while" };
        (line, format!("{times:.1} × slower {lasting}"))
    }

    /// The lines of the clients, and what they ask for.
    fn clients(&self, family: Family, draw: &mut Draw) -> (String, String) {
        let load = match family {
            Family::Light => draw.between(0.1, 0.6),
            Family::Pause => draw.log_between(0.5, 4.0),
            Family::Slowdown => draw.log_between(0.3, 4.0),
            _ => draw.log_between(0.8, 8.0),
        };
        match family {
            Family::Crowd => self.crowd(draw, load),
            Family::Steps => self.steps(draw),
            _ => {
                let lines = format!("open = \"{}\"\n", rate(load * self.capacity));
                (lines, format!("load {load:.2} ×"))
            }
        }
    }

    fn crowd(&self, draw: &mut Draw, load: f64) -> (String, String) {
        let think = self.target * draw.log_between(0.2, 10.0);
        let users = load * self.capacity * (think + self.mean);
        let users = users.clamp(1.0, USERS_MAX).round();
        let lines = format!("closed = {users}\nthink = {{ exponential = \"{}\" }}\n", time(think));
        (lines, format!("users: {users}, who think for {}", short(think)))
    }

    fn steps(&self, draw: &mut Draw) -> (String, String) {
        let first = draw.log_between(0.1, 8.0);
        let mut loads = vec![format!("{first:.2}")];
        let steps = 2 + draw.below(4);
        let changes: Vec<_> = (1..=steps)
            .map(|step| {
                let at = self.times.at(f64::from(step) / f64::from(steps + 1));
                let to = draw.log_between(0.1, 8.0);
                loads.push(format!("{to:.2}"));
                format!("{{ step = \"{}\", at = \"{}\" }}", rate(to * self.capacity), time(at))
            })
            .collect();
        let lines = format!(
            "open = \"{}\"\nchanges = [{}]\n",
            rate(first * self.capacity),
            changes.join(", ")
        );
        (lines, format!("loads {} ×", loads.join(", ")))
    }
}
