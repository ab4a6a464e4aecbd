//! Kinds of work: the service time of each, and how many of each are inside.
//!
//! Events of one class may differ in work a hundredfold. A kind is a class and the number
//! that the event brought along ([`Arrival::kind`](tamarisk_control::Arrival::kind)); events whose kind
//! is not known, or finds no room here, are of one kind for each class.

use std::time::Duration;

use tamarisk_control::{ClassId, Classes, Timestamp};

use super::place_share::Share;
use super::service::Service;
use super::streams::Streams;

/// Kinds beside one for each class. Each costs some 200 bytes here, one of streams up to 1.5 KB, and as much in the
/// windows; a proxy folds the paths of an application into a few dozen.
const KINDS_MAX: usize = 64;

/// A kind of which nobody has come for so long gives its row to a new one.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(60);

/// All kinds that are known. The first rows are for events of no known kind, one a class.
#[derive(Clone, Debug)]
pub(crate) struct Kinds {
    rows: Vec<Kind>,
    /// What each row is found by, close together.
    keys: Vec<u64>,
    classes: usize,
}

/// One kind of work.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) class: ClassId,
    used: Timestamp,
    pub(crate) service: Service,
    pub(crate) queued: u32,
    /// Those that hold a place.
    pub(crate) running: u32,
    /// The instants, in seconds, at which these started, added up.
    starts: f64,
    /// `None` if they are no streams.
    pub(super) streams: Option<Box<Streams>>,
    pub(crate) share: Share,
    /// How long the recent ones waited for a place, in seconds.
    pub(crate) waited: f64,
}

impl Kinds {
    pub(crate) fn new(classes: &Classes) -> Self {
        let rows = classes.iter().map(|(class, _)| Kind::new(class)).collect();
        Self { rows, keys: vec![0; classes.len()], classes: classes.len() }
    }

    /// How many rows there can be.
    pub(crate) fn rows_max(classes: usize) -> usize {
        classes + KINDS_MAX
    }

    /// The row of a kind that has just come; it gets one if there is room.
    pub(crate) fn arrive(&mut self, now: Timestamp, class: ClassId, key: u64) -> usize {
        let class = self.resolve(class);
        let row = self.find(class, key);
        self.rows[row].used = now;
        if key == 0 || row >= self.classes || self.rows[row].inside() > 0 {
            return row;
        }
        let fresh = Kind { used: now, ..Kind::new(class) };
        let key = own_key(class, key);
        if self.rows.len() < Self::rows_max(self.classes) {
            self.rows.push(fresh);
            self.keys.push(key);
            return self.rows.len() - 1;
        }
        let forgotten = |kind: &Kind| kind.inside() == 0 && now.since(kind.used) >= FORGOTTEN_AFTER;
        let Some(free) = self.rows[self.classes..].iter().position(forgotten) else { return row };
        let free = free + self.classes;
        (self.rows[free], self.keys[free]) = (fresh, key);
        free
    }

    /// The row of a kind, or of its class if it has none.
    pub(crate) fn find(&self, class: ClassId, key: u64) -> usize {
        let class = self.resolve(class);
        let class_row = class.index();
        if key == 0 {
            return class_row;
        }
        let own = own_key(class, key);
        let found = self.keys[self.classes..].iter().position(|key| *key == own);
        found.map_or(class_row, |at| at + self.classes)
    }

    /// `class` if the stage has it, else the default one.
    fn resolve(&self, class: ClassId) -> ClassId {
        if class.index() < self.classes { class } else { ClassId::DEFAULT }
    }

    pub(crate) fn row(&self, row: usize) -> &Kind {
        &self.rows[row]
    }

    pub(crate) fn row_mut(&mut self, row: usize) -> &mut Kind {
        &mut self.rows[row]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &Kind)> {
        self.rows.iter().enumerate()
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Kind> {
        self.rows.iter_mut()
    }

    /// How much the number of requests understates the spread of work: the square of the
    /// coefficient of variation, of those in flight, from 1 to 6. So many times as many
    /// completions are needed to be as sure as with exponential service.
    pub(crate) fn spread(&self) -> f64 {
        /// Heavier tails than log-normal with a coefficient of 2.5 would need minutes.
        const SPREAD_MAX: f64 = 6.0;
        /// If none of them are in flight, each counts for this little.
        const IDLE: f64 = 0.01;
        let known = self.rows.iter().filter_map(|kind| Some((kind, kind.service.spread()?)));
        let (weights, sum) = known.fold((0.0, 0.0), |(weights, sum), (kind, spread)| {
            let weight = f64::from(kind.running) + IDLE;
            (weights + weight, sum + weight * spread.min(SPREAD_MAX))
        });
        if weights > 0.0 { (sum / weights).max(1.0) } else { 1.0 }
    }
}

/// A kind of one class is another one than that of another class.
fn own_key(class: ClassId, key: u64) -> u64 {
    key ^ (class.index() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Kind {
    fn new(class: ClassId) -> Self {
        Self {
            class,
            used: Timestamp::ZERO,
            service: Service::default(),
            queued: 0,
            running: 0,
            starts: 0.0,
            streams: None,
            share: Share::default(),
            waited: 0.0,
        }
    }

    fn inside(&self) -> u32 {
        self.queued + self.running
    }

    /// Streams whose first data is out.
    fn flowing(&self) -> u32 {
        self.streams.as_ref().map_or(0, |streams| streams.flowing)
    }

    fn set_flowing(&mut self, flowing: u32) {
        if let Some(streams) = &mut self.streams {
            streams.flowing = flowing.min(self.running);
        }
    }

    /// One of them starts to hold a place, or did so at `start`, in seconds.
    pub(crate) fn start(&mut self, start: f64) {
        self.running += 1;
        self.starts += start;
    }

    /// One of them has waited so many seconds for its place.
    pub(crate) fn wait(&mut self, seconds: f64) {
        /// The recent mean reaches back over so many.
        const RECENT: f64 = 24.0;
        self.waited += (seconds - self.waited) / RECENT;
    }

    /// One that started at `start` holds its place no longer; a stream has had data, or has not.
    pub(crate) fn stop(&mut self, start: f64, has_data: bool) {
        self.running = self.running.saturating_sub(1);
        let flowing = self.flowing();
        if has_data && flowing > 0 {
            self.set_flowing(flowing - 1);
        } else {
            self.starts -= start;
        }
        self.correct();
    }

    /// One that flowed has its place again.
    pub(crate) fn resume_flowing(&mut self) {
        self.running += 1;
        self.set_flowing(self.flowing() + 1);
    }

    /// The first data of a stream that started at `start` is out: it is among those that flow.
    pub(crate) fn begin_flowing(&mut self, start: f64) {
        self.set_flowing(self.flowing() + 1);
        self.starts -= start;
        self.correct();
    }

    /// Whether a stream had data when it ended is not known where others have overtaken it, and
    /// events may outlive their row. What that is off by ends here.
    fn correct(&mut self) {
        self.set_flowing(self.flowing());
        if self.running == self.flowing() {
            self.starts = 0.0;
        }
    }

    /// How long those that hold a place, and do not flow, have done so, added up, in seconds.
    pub(crate) fn ages(&self, now: f64) -> f64 {
        (f64::from(self.running - self.flowing().min(self.running)) * now - self.starts).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A kind of streams, one of which flows since its start at `start`.
    fn streams(start: f64) -> Kind {
        let mut kind = Kind::new(ClassId::DEFAULT);
        kind.streams = Some(Box::default());
        kind.start(start);
        kind.begin_flowing(start);
        kind
    }

    #[test]
    fn a_stream_whose_client_is_slow_leaves_no_trace_in_the_ages_of_others() {
        let mut kind = streams(1000.0);
        kind.stop(1000.0, true);
        kind.start(1002.0);
        kind.resume_flowing();
        assert_eq!(kind.ages(1005.0), 3.0);
        kind.begin_flowing(1002.0);
        assert_eq!((kind.ages(1005.0), kind.flowing()), (0.0, 2));
    }

    #[test]
    fn what_is_taken_for_a_flowing_stream_by_mistake_is_off_until_nobody_waits() {
        let mut kind = streams(1000.0);
        kind.stop(1000.0, false);
        assert_eq!((kind.running, kind.ages(1005.0)), (0, 0.0));
        kind.start(1006.0);
        assert_eq!(kind.ages(1007.0), 1.0);
    }
}
