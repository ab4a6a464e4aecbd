//! Messages about targets that are out of reach: the service is slower than its target.

use std::collections::HashMap;

use tamarisk_observe::incident::{CALM, Change, Incident};
use tamarisk_stage::StageObservation;
use tokio::time::Instant;

/// More than the requests that a promise of a p90 leaves out.
const SHARE: f64 = 0.1;
/// What the law calls the share.
const READING: &str = "target_out_of_reach_ratio";

/// The upstreams whose targets are, or were, out of reach.
#[derive(Default)]
pub(super) struct OutOfReach {
    incidents: HashMap<String, Incident>,
}

impl OutOfReach {
    /// A line for each upstream that has news.
    pub(super) fn look(
        &mut self,
        now: Instant,
        gates: &[StageObservation],
        slowest: impl Fn(&str) -> Vec<String>,
    ) -> Vec<String> {
        let mut lines = Vec::new();
        for gate in gates {
            let share = gate.readings.iter().find(|reading| reading.name == READING);
            let share = share.map_or(0.0, |reading| reading.value);
            let incident = self.incidents.entry(gate.name.clone());
            let incident = incident.or_insert(Incident::ending_after(CALM));
            let change = incident.look(now, u64::from(share > SHARE));
            if let Some(Change::Begins { .. } | Change::Holds { .. }) = change {
                let slowest = slowest(&gate.name);
                let slowest = match slowest.is_empty() {
                    true => String::new(),
                    false => format!(", such as {}", slowest.join(", ")),
                };
                lines.push(format!(
                    "Target out of reach: {:.0} % of the requests to {:?} are of a kind that takes \
                     longer than its target on average, even without a queue{slowest}. They are \
                     answered as soon as possible; state a longer target for them (--p90, or `p90` \
                     of their route).",
                    100.0 * share,
                    gate.name
                ));
            }
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_is_said_at_growing_intervals() {
        let gate = tamarisk_stage::StageBuilder::new("app").gate().unwrap();
        let observed = |value: f64| {
            let mut seen = gate.observe();
            let name = READING.into();
            seen.readings = vec![tamarisk_stage::LawReading { name, class: None, value }];
            [seen]
        };
        let (mut told, start) = (OutOfReach::default(), Instant::now());
        let slowest = |name: &str| vec![format!("GET /{name}/1 (0.80 s)")];
        assert!(told.look(start, &observed(0.05), slowest).is_empty());
        let lines = told.look(start, &observed(0.13), slowest);
        assert!(lines[0].contains("13 % of the requests to \"app\""), "{lines:?}");
        assert!(lines[0].contains(", such as GET /app/1 (0.80 s). They"), "{lines:?}");
        let mut lines = |second| {
            let now = start + std::time::Duration::from_secs(second);
            told.look(now, &observed(0.13), slowest).len()
        };
        assert_eq!([30, 60, 120, 180].map(&mut lines), [0, 1, 0, 1]);
    }
}
