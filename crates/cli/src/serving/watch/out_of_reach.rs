//! Messages about targets that are out of reach: the service is slower than its target.

use std::collections::HashMap;
use std::time::Duration;

use tamarisk_stage::StageObservation;
use tokio::time::Instant;

/// Of one upstream the same is said again after so long.
const AGAIN: Duration = Duration::from_secs(600);
/// More than the requests that a promise of a p90 leaves out.
const SHARE: f64 = 0.1;
/// What the law calls the share.
const READING: &str = "target_out_of_reach_ratio";

/// What has been said, and when.
#[derive(Default)]
pub(super) struct OutOfReach {
    said: HashMap<String, Instant>,
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
            let Some(share) = share.map(|reading| reading.value).filter(|share| *share > SHARE)
            else {
                continue;
            };
            let said = self.said.get(&gate.name);
            if said.is_none_or(|said| now - *said >= AGAIN) {
                self.said.insert(gate.name.clone(), now);
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
    async fn it_is_said_once_in_ten_minutes() {
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
        assert!(told.look(start + AGAIN / 2, &observed(0.13), slowest).is_empty());
        assert_eq!(told.look(start + AGAIN, &observed(0.13), slowest).len(), 1);
    }
}
