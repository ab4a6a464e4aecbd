//! When something that a stage counts begins and when it has ended: rejections, failures.

use std::collections::VecDeque;
use std::time::Duration;

use tamarisk_observe::incident::{self, CALM, Incident};
use tokio::time::Instant;

/// The stages are looked at this often.
pub(crate) const EVERY: Duration = Duration::from_secs(1);

/// Fewer requests in [`CALM`] may be chance: a burst of a moment, one page that is broken.
const COUNT_MIN: u64 = 5;

/// What a stage has counted so far, of one class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Requests of the kind that is watched.
    pub(super) count: u64,
    /// All requests that it is a share of.
    pub(super) of: u64,
}

impl Counts {
    fn since(self, before: Self) -> Self {
        let count = self.count.saturating_sub(before.count);
        Self { count, of: self.of.saturating_sub(before.of) }
    }

    fn is_worth_a_line(self, ratio_min: f64) -> bool {
        self.count > 0 && self.count as f64 >= ratio_min * self.of as f64
    }
}

/// What a stage has counted when it was looked at.
#[derive(Clone)]
struct Look {
    at: Instant,
    classes: Vec<Counts>,
    /// How often for which reason.
    reasons: Vec<(&'static str, u64)>,
}

impl Look {
    /// What all classes have counted since `before`.
    fn since(&self, before: &Self) -> Counts {
        self.total().since(before.total())
    }

    fn total(&self) -> Counts {
        self.classes.iter().fold(Counts::default(), |total, class| Counts {
            count: total.count + class.count,
            of: total.of + class.of,
        })
    }

    fn class(&self, index: usize) -> Counts {
        self.classes.get(index).copied().unwrap_or_default()
    }

    /// What was counted since `before`, by reason, the most frequent first: ` (a 3, b 1)`.
    fn reasons_since(&self, before: &Self) -> String {
        let known = |why| before.reasons.iter().find(|(known, _)| *known == why);
        let new = self.reasons.iter().map(|(why, count)| {
            (count.saturating_sub(known(*why).map_or(0, |(_, count)| *count)), *why)
        });
        let mut new: Vec<_> = new.filter(|(count, _)| *count > 0).collect();
        new.sort_unstable_by(|a, b| b.cmp(a));
        let new: Vec<_> = new.into_iter().map(|(count, why)| format!("{why} {count}")).collect();
        if new.is_empty() { String::new() } else { format!(" ({})", new.join(", ")) }
    }
}

/// What has changed since the last look.
pub(super) enum Change {
    /// It has begun, as the counts of the last `within` show.
    Begins { within: Duration, counts: Counts, reasons: String },
    /// It still holds, `after` it began; the counts are those of that time.
    Holds { after: Duration, counts: Counts },
    /// It has ended, `after` it began; the counts are those of that time, by class.
    Ends { after: Duration, counts: Counts, classes: Vec<Counts> },
}

/// The time in which something goes on. It begins by what was seen in the last [`CALM`], so that it
/// cannot begin again by what it ended with.
pub(super) struct Episode {
    /// The looks of the last [`CALM`], or the last one: the latest stands last.
    looks: VecDeque<Look>,
    incident: Incident,
    /// The look before it began, if it holds.
    before: Option<Look>,
}

impl Default for Episode {
    fn default() -> Self {
        let incident = Incident::ending_after(CALM);
        Self { looks: VecDeque::new(), incident, before: None }
    }
}

impl Episode {
    /// What has changed, if `classes` and `reasons` are what was counted so far, and it takes this
    /// ratio of all requests to be worth a line.
    pub(super) fn look(
        &mut self,
        now: Instant,
        classes: Vec<Counts>,
        reasons: Vec<(&'static str, u64)>,
        ratio_min: f64,
    ) -> Option<Change> {
        if self.looks.is_empty() {
            // What a stage has counted before the first look, it has counted since it was made.
            let at = now.checked_sub(EVERY).unwrap_or(now);
            self.looks.push_back(Look { at, classes: Vec::new(), reasons: Vec::new() });
        }
        let look = Look { at: now, classes, reasons };
        // Looks are seldom a whole second apart.
        let is_old = |look: &Look| now.duration_since(look.at) > CALM + EVERY / 2;
        while self.looks.len() > 1 && self.looks.front().is_some_and(is_old) {
            self.looks.pop_front();
        }
        let change = match self.before.take() {
            None => {
                let before = self.before_it_began(&look, ratio_min).cloned();
                before.map(|before| self.begin(before, &look))
            }
            Some(before) => self.go_on(before, &look, ratio_min),
        };
        self.looks.push_back(look);
        change
    }

    /// The latest look since which enough was counted for a line, if it has begun.
    fn before_it_began(&self, now: &Look, ratio_min: f64) -> Option<&Look> {
        self.looks.iter().rev().find(|before| {
            let counts = now.since(before);
            counts.count >= COUNT_MIN && counts.is_worth_a_line(ratio_min)
        })
    }

    fn begin(&mut self, before: Look, now: &Look) -> Change {
        let (within, counts) = (now.at - before.at, now.since(&before));
        let reasons = now.reasons_since(&before);
        self.incident.look(now.at, counts.count);
        self.before = Some(before);
        Change::Begins { within, counts, reasons }
    }

    fn go_on(&mut self, before: Look, now: &Look, ratio_min: f64) -> Option<Change> {
        let new = now.since(self.looks.back().unwrap_or(&before));
        let new = if new.is_worth_a_line(ratio_min) { new.count } else { 0 };
        let (change, counts) = (self.incident.look(now.at, new), now.since(&before));
        let lasts = now.at - before.at;
        if let Some(incident::Change::Ends { after, lasted, .. }) = change {
            let of_class = |(index, class): (usize, &Counts)| class.since(before.class(index));
            let classes = now.classes.iter().enumerate().map(of_class).collect();
            // Without the calm at its end.
            return Some(Change::Ends { after: lasts - (after - lasted), counts, classes });
        }
        self.before = Some(before);
        change.map(|_| Change::Holds { after: lasts, counts })
    }
}
