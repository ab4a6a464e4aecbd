//! Who sends to a stage, and how much: the edges that end there, traced as events cross them
//! [Welsh02 §5.3.5].

use std::sync::Arc;
use std::time::Duration;

use parking_lot::RwLock;
use tamarisk_control::{PerSecond, Timestamp};

use super::edge::EdgeCounters;

/// How many senders are told apart. A service has tens of stages, and few of them send to one.
const SENDERS_MAX: usize = 64;

/// Under this name stand all senders beyond those.
const OTHERS: &str = "(others)";

/// Under this name stands what stages have sent that are no longer in the graph.
const REMOVED: &str = "(removed)";

/// Rates look back over at least one window and at most two.
const WINDOW: Duration = Duration::from_secs(5);

/// What one stage has sent to another, in handlers that use a [`Context`](crate::Context) or an
/// edge of a graph for it.
#[derive(Clone, Debug, PartialEq)]
pub struct SenderObservation {
    /// Name of the stage that sends.
    pub stage: String,
    /// Events that the receiver has admitted so far.
    pub crossed: u64,
    /// Events that it has rejected so far.
    pub rejected: u64,
    /// Both together, in the last 5 to 10 seconds.
    pub rate: PerSecond,
}

/// The senders of a stage.
pub(crate) struct Senders(RwLock<SenderTable>);

struct SenderTable {
    senders: Vec<NamedSender>,
    /// When the earlier window began, and when the later one did.
    since: [Timestamp; 2],
}

struct NamedSender {
    name: Arc<str>,
    /// An edge counts by itself.
    is_edge: bool,
    counters: Arc<EdgeCounters>,
    /// What had been sent when the earlier window began, and when the later one did.
    before: [u64; 2],
}

impl Senders {
    pub(crate) fn new(now: Timestamp) -> Self {
        Self(RwLock::new(SenderTable { senders: Vec::new(), since: [now; 2] }))
    }

    /// Counts what the stage of this name has sent without an edge; `true` if it is the first.
    pub(crate) fn count(&self, name: &Arc<str>, taken: usize, rejected: usize) -> bool {
        let add = |sender: &NamedSender| {
            sender.counters.taken(taken);
            sender.counters.rejected(rejected);
        };
        if self.0.read().counting(name).map(add).is_some() {
            return false;
        }
        let mut state = self.0.write();
        // Another thread may have been here before.
        let is_new = state.counting(name).map(add).is_none();
        if is_new {
            let is_full = state.senders.len() >= SENDERS_MAX;
            let sender = NamedSender::new(
                if is_full { OTHERS.into() } else { name.clone() },
                false,
                Arc::default(),
            );
            add(&sender);
            state.senders.push(sender);
        }
        is_new
    }

    /// Shows an edge, which counts by itself, if it is not shown already.
    pub(crate) fn show_edge(&self, name: &str, counters: &Arc<EdgeCounters>) {
        let mut state = self.0.write();
        if !state.senders.iter().any(|sender| Arc::ptr_eq(&sender.counters, counters)) {
            state.senders.push(NamedSender::new(name.into(), true, Arc::clone(counters)));
        }
    }

    /// The stage of this name has been removed: what it has sent stands with that of all such.
    pub(crate) fn forget(&self, name: &str) {
        let mut state = self.0.write();
        let mut removed = NamedSender::new(REMOVED.into(), false, Arc::default());
        state.senders.retain(|sender| {
            let is_removed = *sender.name == *name || *sender.name == *REMOVED;
            if is_removed {
                removed.add(sender);
            }
            !is_removed
        });
        if removed.sent() > 0 {
            state.senders.push(removed);
        }
    }

    /// Begins a new window if it is time.
    pub(crate) fn tick(&self, now: Timestamp) {
        if now < self.0.read().since[1] + WINDOW {
            return;
        }
        let mut state = self.0.write();
        state.since = [state.since[1], now];
        for sender in &mut state.senders {
            sender.before = [sender.before[1], sender.sent()];
        }
    }

    /// Each sender, those of one name together.
    pub(crate) fn observe(&self, now: Timestamp) -> Vec<SenderObservation> {
        let state = self.0.read();
        let seconds = now.since(state.since[0]).as_secs_f64();
        let mut seen: Vec<SenderObservation> = Vec::new();
        for sender in &state.senders {
            let (crossed, rejected) = sender.counters.counts();
            let recent = (crossed + rejected).saturating_sub(sender.before[0]);
            let rate = PerSecond::new(recent as f64 / seconds).unwrap_or(PerSecond::ZERO);
            match seen.iter_mut().find(|other| *other.stage == *sender.name) {
                Some(same) => {
                    same.crossed += crossed;
                    same.rejected += rejected;
                    let both = same.rate.get() + rate.get();
                    same.rate = PerSecond::new(both).unwrap_or(PerSecond::ZERO);
                }
                None => seen.push(SenderObservation {
                    stage: sender.name.to_string(),
                    crossed,
                    rejected,
                    rate,
                }),
            }
        }
        seen
    }
}

impl SenderTable {
    /// Where what the stage of this name sends without an edge is counted.
    fn counting(&self, name: &str) -> Option<&NamedSender> {
        let of = |name: &str| {
            self.senders.iter().find(|sender| !sender.is_edge && *sender.name == *name)
        };
        of(name).or_else(|| if self.senders.len() < SENDERS_MAX { None } else { of(OTHERS) })
    }
}

impl NamedSender {
    fn new(name: Arc<str>, is_edge: bool, counters: Arc<EdgeCounters>) -> Self {
        Self { name, is_edge, counters, before: [0; 2] }
    }

    fn add(&mut self, other: &Self) {
        let (taken, rejected) = other.counters.counts();
        self.counters.taken(taken as usize);
        self.counters.rejected(rejected as usize);
        self.before = [0, 1].map(|window| self.before[window] + other.before[window]);
    }

    fn sent(&self) -> u64 {
        let (taken, rejected) = self.counters.counts();
        taken + rejected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn senders_are_told_apart_by_name_and_their_rates_forget() {
        let senders = Senders::new(at(0));
        let (a, b) = ("a".into(), "b".into());
        senders.count(&a, 8, 2);
        senders.count(&b, 1, 0);
        senders.count(&a, 10, 0);
        let edge = Arc::<EdgeCounters>::default();
        senders.show_edge("b", &edge);
        senders.show_edge("b", &edge);
        edge.taken(4);
        let seen = senders.observe(at(2));
        let row = |name: &str, crossed, rejected, rate| SenderObservation {
            stage: name.into(),
            crossed,
            rejected,
            rate: PerSecond::new(rate).unwrap(),
        };
        assert_eq!(seen, [row("a", 18, 2, 10.0), row("b", 5, 0, 2.5)]);
        for second in [3, 5, 10] {
            senders.tick(at(second));
        }
        senders.count(&b, 20, 0);
        // Of the last five seconds and those before, that is.
        assert_eq!(senders.observe(at(15))[1], row("b", 25, 0, 2.0));
        senders.forget("b");
        assert_eq!(senders.observe(at(15))[1], row("(removed)", 25, 0, 2.0));
        senders.forget("a");
        let seen = senders.observe(at(15));
        assert_eq!((seen.len(), seen[0].crossed, seen[0].rejected), (1, 43, 2));
    }

    #[test]
    fn there_is_a_bound_and_what_is_beyond_is_counted_together() {
        let senders = Senders::new(at(0));
        for index in 0..SENDERS_MAX + 10 {
            senders.count(&index.to_string().into(), 1, 0);
        }
        let seen = senders.observe(at(1));
        assert_eq!(seen.len(), SENDERS_MAX + 1);
        let last = &seen[SENDERS_MAX];
        assert_eq!((&*last.stage, last.crossed), (OTHERS, 10));
        assert_eq!(seen.iter().map(|sender| sender.crossed).sum::<u64>(), 74);
    }
}
