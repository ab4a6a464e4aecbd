//! The recent usage of each client, in bounded memory.
//!
//! A table with a row for each client is as large as a hostile client likes. A
//! count-min sketch \[Cormode05 §3\] has a fixed number of cells in two rows: a
//! client adds to one cell of each row, and has had at most what the lesser of its
//! two holds. Only shares far above the others' matter here, and these stand out
//! above the average cell; what does not stand out is left alone.
//!
//! Old work is forgotten at an exponential rate: not by making all cells smaller,
//! but by making the unit larger that new work is added in.
//!
//! Who shares a cell with whom is drawn anew at the beginning of each overload,
//! from the instant at which it begins: no one can prepare a name that is mistaken
//! for somebody else's.
//!
//! What a client has just had does not count yet: for a sixth of a target, but of the latest events
//! of all clients only. The calls of one page come at once, and a page of which some calls are
//! rejected because of the others is of use to nobody.
//!
//! Nor are its calls judged alone: who has just begun may fill more of the queue (`bursts.rs`).
//!
//! Work is charged as it is admitted, by the mean of its class. Attempts that are
//! rejected cost nothing: they would let one who retries fall ever further behind.

use std::collections::VecDeque;
use std::time::Duration;

use tamarisk_control::Timestamp;

use super::bursts::Bursts;

/// Cells in a row. Whoever has two thousandths of all stands out, and one of a
/// million others is taken for it. Both rows together are 8 KiB.
const CELLS: usize = 1024;

/// Work is forgotten within so many targets: a burst that fills the whole target
/// is then a tenth of what a client has that takes everything.
pub(crate) const MEMORY_TARGETS: u32 = 10;

/// A shorter target counts as so long, so that there is a memory to speak of.
const TARGET_MIN: Duration = Duration::from_micros(1);

/// The unit grows once in such a part of the memory, by 1.6 per cent; and after so long what
/// was the latest counts.
const AGEING_STEPS: u32 = 64;

/// So many events may be the latest: a dozen pages of twenty calls, in 6 KiB.
const LATEST_MAX: usize = 256;

/// A unit so large is made 1 again, and the cells with it. Of the 24 bits of a
/// cell this leaves enough to add a thousandth of what is in it.
const UNIT_MAX: f64 = 1024.0;

/// A client whose cells hold no more than so many times the average may be there
/// by chance alone.
const STANDS_OUT: f64 = 2.0;

/// A client may fill so many times the queue's bound for a quarter of the shortest target after its
/// first call is let in, …
const BURST: f64 = 2.0;
/// … if it has had less of everything than this. An address behind which all clients are has had most.
const ONE_OF_MANY: f64 = 0.1;

/// Who has had less than this part of what is usual has had little …
const LITTLE: f64 = 0.8;
/// … and a client has had much that has had more than this many times that: of clients
/// that ask equally none has. …
const MUCH: f64 = 1.01;
/// … or more than this share of everything.
const ALL: f64 = 0.99;

/// The fair share is never lower than what can still be told from chance.
pub(crate) const SHARE_MIN: f64 = STANDS_OUT / CELLS as f64;

/// What clients have had since the overload began; without one nothing is counted.
#[derive(Clone, Debug)]
pub(crate) struct Clients {
    rows: Box<[[f32; CELLS]; 2]>,
    /// What does not count yet, from the oldest to the newest.
    latest: VecDeque<Charge>,
    bursts: Bursts,
    /// What is added for a second of work.
    unit: f64,
    /// What has been added to each row …
    total: f64,
    /// The share of the client of an average second of work.
    usual: f64,
    /// … in so many events, which are forgotten as their work is.
    events: f64,
    salt: u64,
    memory: Duration,
    aged: Timestamp,
    /// Use is counted until this instant: a memory after the last rejection.
    counts_until: Timestamp,
}

/// What a client has had, beside others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    HadLittle,
    /// So is one that is not known.
    Usual,
    HadMuch,
}

/// What a client has had once.
#[derive(Clone, Copy, Debug)]
struct Charge {
    at: Timestamp,
    flow: u64,
    work: f64,
}

impl Clients {
    /// For a stage whose longest and shortest targets are these.
    pub(crate) fn new(longest: Duration, strictest: Duration) -> Self {
        Self {
            rows: Box::new([[0.0; CELLS]; 2]),
            latest: VecDeque::with_capacity(LATEST_MAX),
            bursts: Bursts::new(burst_length(strictest)),
            unit: 1.0,
            total: 0.0,
            usual: 0.0,
            events: 0.0,
            salt: 0,
            memory: memory(longest),
            aged: Timestamp::ZERO,
            counts_until: Timestamp::ZERO,
        }
    }

    /// What clients have had counts for as long as another longest target says, and bursts last as
    /// long as another shortest one.
    pub(crate) fn set_targets(&mut self, longest: Duration, strictest: Duration) {
        self.memory = memory(longest);
        self.bursts.set_length(burst_length(strictest));
    }

    /// Somebody is rejected: there is an overload. Whether it begins with this.
    #[inline]
    pub(crate) fn on_rejection(&mut self, now: Timestamp) -> bool {
        let begins = now >= self.counts_until;
        if begins {
            self.begin(now);
        }
        self.counts_until = now + self.memory;
        begins
    }

    /// Charges the client of `flow` with `work` seconds of one worker. What clients have
    /// had that are not known is nobody's, but a part of all.
    #[inline]
    pub(crate) fn charge(&mut self, now: Timestamp, flow: u64, work: f64) {
        if now >= self.counts_until {
            return;
        }
        while let Some(oldest) = self.latest.front()
            && (self.latest.len() == LATEST_MAX || now.since(oldest.at) >= self.ageing_step())
        {
            let Charge { flow, work, .. } = *oldest;
            self.latest.pop_front();
            self.add(flow, work);
        }
        self.age(now);
        self.bursts.admit(now, flow);
        self.latest.push_back(Charge { at: now, flow, work });
    }

    /// From now on this counts.
    #[inline]
    fn add(&mut self, flow: u64, work: f64) {
        let added = work * self.unit;
        self.total += added;
        self.events += self.unit;
        if flow == 0 {
            return;
        }
        let [first, second] = self.cells(flow);
        // Only the lesser cell is believed, so the greater needs no more than that.
        let had = (self.rows[0][first].min(self.rows[1][second]) + added as f32).max(0.0);
        self.rows[0][first] = self.rows[0][first].max(had);
        self.rows[1][second] = self.rows[1][second].max(had);
    }

    /// The part that the client of `flow` has had of all that clients have had; zero
    /// if that is one average event, or no more than chance can make it look like,
    /// or if the client is not known.
    #[inline]
    pub(crate) fn share(&self, now: Timestamp, flow: u64) -> f64 {
        if flow == 0 || now >= self.counts_until {
            return 0.0;
        }
        let [first, second] = self.cells(flow);
        let had = f64::from(self.rows[0][first].min(self.rows[1][second]));
        let (chance, one_event) = (STANDS_OUT / CELLS as f64, self.unit / self.events);
        // Nothing was charged but work that is not known yet: nobody has had anything.
        let share = if self.total > 0.0 { (had / self.total).min(1.0) } else { 0.0 };
        if share > chance + one_event { share } else { 0.0 }
    }

    /// What the client of `flow` has had beside the one that an average second of work was for.
    #[inline]
    pub(crate) fn standing(&self, now: Timestamp, flow: u64) -> Standing {
        if flow == 0 || self.usual == 0.0 || now >= self.counts_until {
            return Standing::Usual;
        }
        let share = self.share(now, flow);
        if share < LITTLE * self.usual {
            Standing::HadLittle
        } else if share > MUCH * self.usual || share > ALL {
            Standing::HadMuch
        } else {
            Standing::Usual
        }
    }

    /// For how long what clients have had counts.
    pub(crate) fn memory(&self) -> Duration {
        self.memory
    }

    /// How many times the queue's bound the client of `flow` may fill: more than once if it has
    /// just begun and is one of many. As long as nothing counts, nobody is.
    #[inline]
    pub(crate) fn burst_allowance(&self, now: Timestamp, flow: u64) -> f64 {
        let in_burst = now < self.counts_until && self.bursts.has_begun(now, flow);
        let is_one_of_many = || self.total > 0.0 && self.share(now, flow) < ONE_OF_MANY;
        if in_burst && is_one_of_many() { BURST } else { 1.0 }
    }

    #[cold]
    fn begin(&mut self, now: Timestamp) {
        self.rows.iter_mut().for_each(|row| row.fill(0.0));
        self.latest.clear();
        (self.unit, self.total, self.events, self.usual) = (1.0, 0.0, 0.0, 0.0);
        (self.aged, self.salt) = (now, now.as_nanos());
    }

    #[inline]
    fn age(&mut self, now: Timestamp) {
        let elapsed = now.since(self.aged);
        if elapsed >= self.ageing_step() {
            self.aged = now;
            self.grow_unit(elapsed.as_secs_f64() / self.memory.as_secs_f64());
            self.usual = self.usual_share();
        }
    }

    /// The mean share of the clients that are known, by their work. Those that share a cell make it
    /// larger, in the two rows not the same ones.
    fn usual_share(&self) -> f64 {
        let of_row = |row: &[f32; CELLS]| {
            let sum: f64 = row.iter().map(|&cell| f64::from(cell)).sum();
            let squares: f64 = row.iter().map(|&cell| f64::from(cell) * f64::from(cell)).sum();
            if sum > 0.0 { squares / sum / self.total.max(sum) } else { 0.0 }
        };
        of_row(&self.rows[0]).min(of_row(&self.rows[1]))
    }

    #[cold]
    fn grow_unit(&mut self, memories: f64) {
        self.unit *= memories.exp();
        if self.unit > UNIT_MAX {
            let shrink = 1.0 / self.unit;
            let cells = self.rows.iter_mut().flatten();
            cells.for_each(|cell| *cell *= shrink as f32);
            self.total *= shrink;
            self.events *= shrink;
            self.unit = 1.0;
        }
    }

    fn ageing_step(&self) -> Duration {
        self.memory / AGEING_STEPS
    }

    /// Its cell in each row.
    #[inline]
    fn cells(&self, flow: u64) -> [usize; 2] {
        // The product's upper half depends on all bits of the flow; ten bits of it
        // for each row.
        let mixed = u128::from(flow ^ self.salt) * u128::from(0x9e37_79b9_7f4a_7c15_u64);
        let hash = (mixed >> 64) as u64 ^ mixed as u64;
        [hash >> 54, hash >> 44 & (CELLS as u64 - 1)].map(|cell| cell as usize)
    }
}

fn burst_length(strictest: Duration) -> Duration {
    strictest / 4
}

fn memory(target: Duration) -> Duration {
    target.max(TARGET_MIN) * MEMORY_TARGETS
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// In an overload since 1 s, with a memory of 10 s.
    fn clients() -> Clients {
        let mut clients = Clients::new(1000 * MS, 1000 * MS);
        clients.on_rejection(at(1000));
        clients
    }

    fn at(millis: u64) -> Timestamp {
        Timestamp::ZERO + MS * u32::try_from(millis).unwrap()
    }

    /// The share of `flow` once the latest counts.
    fn share_of(clients: &mut Clients, now: Timestamp, flow: u64) -> f64 {
        while let Some(Charge { flow, work, .. }) = clients.latest.pop_front() {
            clients.add(flow, work);
        }
        clients.share(now, flow)
    }

    /// As others use it: ten events, each of another client.
    fn charge_others(clients: &mut Clients, now: Timestamp) {
        (100..110).for_each(|flow| clients.charge(now, flow, 0.1));
    }

    #[test]
    fn without_an_overload_nobody_is_counted() {
        let mut clients = Clients::new(1000 * MS, 1000 * MS);
        clients.charge(at(1), 7, 1.0);
        assert_eq!(share_of(&mut clients, at(1), 7), 0.0);
        clients.on_rejection(at(1000));
        charge_others(&mut clients, at(1000));
        clients.charge(at(1000), 7, 1.0);
        assert_eq!(share_of(&mut clients, at(1000), 7), 0.5);
        assert_eq!(
            share_of(&mut clients, at(11_000), 7),
            0.0,
            "ten targets after the last rejection"
        );
        clients.on_rejection(at(20_000));
        charge_others(&mut clients, at(20_000));
        assert_eq!(share_of(&mut clients, at(20_000), 7), 0.0, "the next overload");
    }

    #[test]
    fn a_greedy_client_stands_out_among_a_hundred_thousand() {
        let mut clients = clients();
        for event in 0..100_000 {
            clients.charge(at(1000), 2 + event, 0.01);
            if event % 20 == 0 {
                clients.charge(at(1000), 1, 0.01);
            }
        }
        let share = share_of(&mut clients, at(1000), 1);
        assert!((0.047..0.05).contains(&share), "5000 of 105 000, and some more: {share}");
        let others = (0..100_000).filter(|event| share_of(&mut clients, at(1000), 2 + event) > 0.0);
        assert!(others.count() <= 1);
    }

    #[test]
    fn work_is_forgotten_at_an_exponential_rate() {
        let mut clients = clients();
        clients.counts_until = Timestamp::MAX;
        clients.charge(at(1000), 1, 1.0);
        charge_others(&mut clients, at(11_000));
        // A memory ago: 1 ÷ e of what is charged now.
        let share = share_of(&mut clients, at(11_000), 1);
        assert!((share - 1.0 / (1.0 + std::f64::consts::E)).abs() < 1e-4, "{share}");
        (12..400).for_each(|second| charge_others(&mut clients, at(1000 * second)));
        assert_eq!(share_of(&mut clients, at(400_000), 1), 0.0);
        let share: f64 = (100..110).map(|flow| share_of(&mut clients, at(400_000), flow)).sum();
        assert!((share - 1.0).abs() < 1e-3, "{share}");
    }

    #[test]
    fn one_event_and_an_unknown_client_are_no_share() {
        let mut clients = clients();
        clients.charge(at(1000), 1, 0.1);
        clients.charge(at(1000), 0, 5.0);
        assert_eq!(share_of(&mut clients, at(1000), 1), 0.0);
        assert_eq!(share_of(&mut clients, at(1000), 0), 0.0);
    }

    #[test]
    fn nobody_has_had_anything_while_nothing_but_unknown_work_was_charged() {
        let mut clients = clients();
        (1..=10).for_each(|flow| clients.charge(at(1000), flow, 0.0));
        assert_eq!(share_of(&mut clients, at(1000), 1), 0.0);
    }

    #[test]
    fn what_unknown_clients_have_had_is_a_part_of_all() {
        let mut clients = clients();
        (0..30).for_each(|_| clients.charge(at(1000), 0, 0.1));
        (0..10).for_each(|_| clients.charge(at(1000), 1, 0.1));
        assert!((share_of(&mut clients, at(1000), 1) - 0.25).abs() < 1e-6);
    }

    #[test]
    fn a_leap_of_the_clock_forgets_everything_and_a_step_back_nothing() {
        let mut clients = clients();
        charge_others(&mut clients, at(1000));
        clients.charge(at(1000), 1, 1.0);
        assert_eq!(share_of(&mut clients, at(0), 1), 0.5);
        clients.counts_until = Timestamp::MAX;
        charge_others(&mut clients, Timestamp::from_nanos(u64::MAX - 1));
        assert_eq!(share_of(&mut clients, at(1000), 1), 0.0);
    }

    #[test]
    fn who_has_begun_may_fill_more_of_the_queue_if_it_is_one_of_many() {
        let mut clients = clients();
        clients.charge(at(1000), 1, 0.1);
        assert_eq!(clients.burst_allowance(at(1001), 1), 1.0, "nothing counts yet");
        charge_others(&mut clients, at(1001));
        assert!(share_of(&mut clients, at(1001), 1) < ONE_OF_MANY);
        assert_eq!(clients.burst_allowance(at(1001), 1), BURST);
        assert_eq!(clients.burst_allowance(at(1250), 1), 1.0, "its burst has ended");
        assert_eq!(clients.burst_allowance(at(1001), 2), 1.0, "somebody else");
        (0..20).for_each(|_| clients.charge(at(1001), 1, 0.1));
        assert!(share_of(&mut clients, at(1002), 1) > ONE_OF_MANY);
        assert_eq!(clients.burst_allowance(at(1002), 1), 1.0);
    }

    #[test]
    fn a_burst_is_judged_by_what_its_client_has_had_before() {
        let mut clients = clients();
        charge_others(&mut clients, at(1000));
        for _ in 0..20 {
            assert_eq!(clients.share(at(1000), 1), 0.0);
            clients.charge(at(1000), 1, 0.1);
        }
        // A 64th of ten seconds on, the next event makes it count.
        clients.charge(at(1157), 2, 0.1);
        assert!(clients.share(at(1157), 1) > 0.6);
    }
}
