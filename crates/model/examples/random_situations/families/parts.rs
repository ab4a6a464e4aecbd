//! Several pools behind one port, such as shards or the services behind a gateway, each with a kind
//! of its own.

use std::fmt::Write as _;

use super::Family;
use crate::draw::Draw;
use crate::situation::{Service, Situation, Times, rate, short};

/// A pool behind the port.
#[derive(Clone, Copy)]
struct Part {
    workers: u32,
    /// Mean service in seconds.
    mean: f64,
}

impl Part {
    fn draw(draw: &mut Draw) -> Self {
        Self { workers: draw.log_between(1.0, 17.0) as u32, mean: draw.log_between(0.005, 0.5) }
    }

    /// Requests a second.
    fn capacity(self) -> f64 {
        f64::from(self.workers) / self.mean
    }
}

pub(super) fn situation(family: Family, draw: &mut Draw) -> Situation {
    let count = 2 + draw.below(11);
    // Shards are alike; the services behind a gateway are not.
    let are_alike = draw.below(2) == 0;
    let first = Part::draw(draw);
    let parts: Vec<_> =
        (0..count).map(|_| if are_alike { first } else { Part::draw(draw) }).collect();
    let longest = parts.iter().map(|part| part.mean).fold(0.0, f64::max);
    let target = longest * draw.log_between(2.5, 40.0);
    let loads = loads(family, draw, count);

    let total = parts.iter().map(|part| part.capacity()).sum();
    let head = Times::new(total, target).head();
    let (mut tried, mut stated) = (head.clone(), head);
    let mut stage = "[stages.upstream]\nworkers = \"unlimited\"\ndiscipline = \"earliest-due\"\n\
                     service = \"1us\"\n"
        .to_owned();
    let (mut stages, mut clients, mut stated_clients) =
        (String::new(), String::new(), String::new());
    for (index, (part, load)) in parts.iter().zip(&loads).enumerate() {
        let workers = part.workers;
        let service = Service::draw(draw, part.mean);
        let kind = format!("[kinds.k{index}]\n");
        let _ = write!(tried, "{kind}[resources.part{index}]\nconnections = {workers}\n");
        let _ = write!(stated, "{kind}");
        let on = service.text_with(&format!("on = \"part{index}\""));
        let _ = writeln!(stage, "kinds.k{index}.service = {on}");
        let _ = writeln!(
            stages,
            "[stages.part{index}]\nworkers = {workers}\ndiscipline = \"earliest-due\"\n\
             service = {}",
            service.text
        );
        let client =
            format!("open = \"{}\"\nmix = {{ k{index} = 1 }}\n", rate(load * part.capacity()));
        let _ = writeln!(clients, "[clients.c{index}]\n{client}");
        let _ = writeln!(stated_clients, "[clients.c{index}]\nenter = \"part{index}\"\n{client}");
    }
    let _ = write!(tried, "\n{stage}\n{clients}");
    let _ = write!(stated, "\n{stages}\n{stated_clients}");
    Situation {
        description: description(&parts, are_alike, target / longest, &loads),
        tried,
        stated,
        stages: (0..count).map(|index| format!("part{index}")).collect(),
    }
}

/// Of each part, in multiples of its capacity.
fn loads(family: Family, draw: &mut Draw, count: u32) -> Vec<f64> {
    let hot = 1 + draw.below(count);
    let is_hot = draw.some(hot, count);
    is_hot
        .iter()
        .map(|is_hot| match (family.is_light(), is_hot) {
            (true, _) => draw.between(0.1, 0.6),
            (false, true) => draw.log_between(1.05, 4.0),
            (false, false) => draw.between(0.2, 0.85),
        })
        .collect()
}

fn description(parts: &[Part], are_alike: bool, times: f64, loads: &[f64]) -> String {
    let worker_counts: Vec<_> = parts.iter().map(|part| part.workers.to_string()).collect();
    let services: Vec<_> = parts.iter().map(|part| short(part.mean)).collect();
    let loads: Vec<_> = loads.iter().map(|load| format!("{load:.2}")).collect();
    let (worker_counts, services) = match are_alike {
        true => (worker_counts[0].clone() + " each", services[0].clone()),
        false => (worker_counts.join(", "), services.join(", ")),
    };
    format!(
        "parts: {}, workers: {worker_counts}, service {services}, target {times:.1} × the longest, \
         loads {} ×",
        parts.len(),
        loads.join(", ")
    )
}
