//! Kinds of work: the service time of each, and how many of each are inside.
//!
//! Events of one class may differ in work a hundredfold. A kind is a class and the number
//! that the event brought along ([`Arrival::kind`](tamarisk_control::Arrival::kind)); events whose kind
//! is not known, or finds no room here, are of one kind for each class.

use std::collections::BTreeMap;
use std::time::Duration;

use tamarisk_control::{ClassId, Classes, Timestamp};

use super::place_share::Share;
use super::service::Service;
use super::streams::Streams;

/// Kinds beside one for each class: more than the routes of most applications. Each costs some 250 bytes
/// here, one of streams up to 1.5 KB, and up to 1 KB in the windows.
const KINDS_MAX: usize = 1000;

/// Once all rows are taken a new kind gets one no more often than this: it takes a look at all of them.
const REPLACED_EVERY: Duration = Duration::from_millis(10);
/// What a kind has done is forgotten from tick to tick; this share is kept, so half after a minute.
const KEPT: f64 = 0.999;

/// All kinds that are known. The first rows are for events of no known kind, one a class.
#[derive(Clone, Debug)]
pub(crate) struct Kinds {
    rows: Vec<Kind>,
    /// The key of each row of a known kind, and where the row of a key is.
    keys: Vec<u64>,
    found: BTreeMap<u64, usize>,
    classes: usize,
    /// When a kind gave its row to another one.
    replaced: Timestamp,
    /// The rows of those that wait in the queue, in ascending order.
    waiting: Vec<usize>,
}

/// One kind of work.
#[derive(Clone, Debug)]
pub(crate) struct Kind {
    pub(crate) class: ClassId,
    /// Seconds of work that were done, of late.
    work: f64,
    pub(crate) service: Service,
    queued: u32,
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
        Self {
            rows: classes.iter().map(|(class, _)| Kind::new(class)).collect(),
            keys: vec![0; classes.len()],
            found: BTreeMap::new(),
            classes: classes.len(),
            replaced: Timestamp::ZERO,
            waiting: Vec::new(),
        }
    }

    /// Whether all rows are taken.
    pub(crate) fn is_full(&self) -> bool {
        self.rows.len() >= self.classes + KINDS_MAX
    }

    /// The row of a kind that has just come. If all are taken, the one of which least work was done
    /// gives its row to it.
    pub(crate) fn arrive(&mut self, now: Timestamp, class: ClassId, key: u64) -> usize {
        let class = self.resolve(class);
        let row = self.find(class, key);
        if key == 0 || row >= self.classes || self.rows[row].inside() > 0 {
            return row;
        }
        let key = own_key(class, key);
        if !self.is_full() {
            self.rows.push(Kind::new(class));
            self.keys.push(key);
            self.found.insert(key, self.rows.len() - 1);
            return self.rows.len() - 1;
        }
        if now.since(self.replaced) < REPLACED_EVERY {
            return row;
        }
        self.replaced = now;
        let idle = (self.classes..self.rows.len()).filter(|row| self.rows[*row].inside() == 0);
        let least = idle.min_by(|a, b| self.rows[*a].work.total_cmp(&self.rows[*b].work));
        let Some(least) = least else { return row };
        self.found.remove(&self.keys[least]);
        (self.rows[least], self.keys[least]) = (Kind::new(class), key);
        self.found.insert(key, least);
        least
    }

    /// One of the kind in `row` is put into the queue.
    pub(crate) fn queue(&mut self, row: usize) {
        self.rows[row].queued += 1;
        if let Err(at) = self.waiting.binary_search(&row) {
            self.waiting.insert(at, row);
        }
    }

    /// One of the kind in `row` leaves the queue.
    pub(crate) fn unqueue(&mut self, row: usize) {
        let kind = &mut self.rows[row];
        kind.queued = kind.queued.saturating_sub(1);
        if kind.queued == 0
            && let Ok(at) = self.waiting.binary_search(&row)
        {
            self.waiting.remove(at);
        }
    }

    /// The kinds that wait in the queue.
    pub(crate) fn waiting(&self) -> impl Iterator<Item = &Kind> {
        self.waiting.iter().map(|row| &self.rows[*row])
    }

    /// Forgets, from tick to tick, what was done.
    pub(crate) fn on_tick(&mut self) {
        self.rows.iter_mut().for_each(|kind| kind.work *= KEPT);
    }

    /// The row of a kind, or of its class if it has none.
    pub(crate) fn find(&self, class: ClassId, key: u64) -> usize {
        let class = self.resolve(class);
        if key == 0 {
            return class.index();
        }
        self.found.get(&own_key(class, key)).copied().unwrap_or_else(|| class.index())
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
            work: 0.0,
            service: Service::default(),
            queued: 0,
            running: 0,
            starts: 0.0,
            streams: None,
            share: Share::default(),
            waited: 0.0,
        }
    }

    /// How many wait in the queue.
    pub(crate) fn queued(&self) -> u32 {
        self.queued
    }

    /// One of them has done so many seconds of work.
    pub(crate) fn worked(&mut self, seconds: f64) {
        self.work += seconds;
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
    use tamarisk_control::Target;

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
    fn once_all_rows_are_taken_the_kind_of_least_work_gives_its_row_to_a_new_one() {
        let target = Target::p90(Duration::from_secs(1)).expect("it is a target");
        let mut kinds = Kinds::new(&Classes::single(target));
        let arrive = |kinds: &mut Kinds, second, key| {
            kinds.arrive(Timestamp::ZERO + Duration::from_secs(second), ClassId::DEFAULT, key)
        };
        let rows: Vec<_> = (1..=1000).map(|key| arrive(&mut kinds, 1, key)).collect();
        for (seconds, row) in rows.iter().enumerate() {
            kinds.row_mut(*row).worked(1.0 + seconds as f64);
        }
        assert!(kinds.is_full());
        // Those of least work are inside; the third gives way.
        kinds.queue(rows[0]);
        kinds.row_mut(rows[1]).start(0.0);
        assert_eq!(arrive(&mut kinds, 2, 2000), rows[2]);
        assert_eq!(kinds.find(ClassId::DEFAULT, 3), 0, "it has no row any more");
        assert_eq!(arrive(&mut kinds, 2, 2001), 0, "one at a time");
        // What did nothing gives way before what did much.
        assert_eq!(arrive(&mut kinds, 3, 2001), rows[2]);
        assert_eq!(kinds.find(ClassId::DEFAULT, 1000), rows[999]);
    }

    #[test]
    fn those_that_wait_are_known_in_the_order_of_their_rows() {
        let target = Target::p90(Duration::from_secs(1)).expect("it is a target");
        let mut kinds = Kinds::new(&Classes::single(target));
        let rows = [1, 2, 3].map(|key| kinds.arrive(Timestamp::ZERO, ClassId::DEFAULT, key));
        [2, 0, 2, 1].into_iter().for_each(|index| kinds.queue(rows[index]));
        [0, 2].into_iter().for_each(|index| kinds.unqueue(rows[index]));
        let queued: Vec<_> = kinds.waiting().map(Kind::queued).collect();
        assert_eq!((queued, kinds.waiting), (vec![1, 1], vec![rows[1], rows[2]]));
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
