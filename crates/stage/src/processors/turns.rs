//! Whose turn it is at shared processors.

use tamarisk_control::{Concurrency, Priority, Timestamp};

/// Who is first: the more important class, then who is due earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub(crate) priority: Priority,
    pub(crate) due: Timestamp,
}

/// As many turns at once as there are processors. A worker takes a turn before it takes events, and
/// gives it back when these are done.
#[derive(Debug)]
pub(super) struct Turns {
    processors: u32,
    /// Turns that are taken or granted.
    busy: u32,
    members: Vec<Member>,
}

/// A stage.
#[derive(Debug, Default)]
struct Member {
    /// Its first event, while an idle worker of the stage waits for a turn.
    waiting: Option<Rank>,
    /// Turns that are kept for its workers until they take them.
    granted: u32,
}

impl Turns {
    pub(super) fn new(processors: Concurrency) -> Self {
        Self { processors: processors.get(), busy: 0, members: Vec::new() }
    }

    /// Stages that have left may still have turns to give back: there are never fewer.
    pub(super) fn make_room(&mut self, members: usize) {
        let members = members.max(self.members.len());
        self.members.resize_with(members, Member::default);
    }

    /// How many of the processors are to be used from now on.
    pub(super) fn set_processors(&mut self, processors: Concurrency) {
        self.processors = processors.get();
    }

    /// Whether a worker of `member` would get a turn now for an event of this rank. If not, the
    /// stage is among those that wait for one.
    pub(super) fn is_free_for(&mut self, member: usize, rank: Rank) -> bool {
        let is_first =
            || self.first_waiting(|other| other != member).is_none_or(|(_, first)| rank <= first);
        let is_free = self.members[member].granted > 0 || self.is_any_free() && is_first();
        self.members[member].waiting = (!is_free).then_some(rank);
        is_free
    }

    /// Takes a turn, if there is one.
    pub(super) fn take(&mut self, member: usize, rank: Rank) -> bool {
        let is_free = self.is_free_for(member, rank);
        let granted = &mut self.members[member].granted;
        if *granted > 0 {
            *granted -= 1;
        } else if is_free {
            self.busy += 1;
        }
        is_free
    }

    /// A worker of `member` gives its turn back. It keeps it for `next`, the first event of its
    /// stage, if no other stage has one that comes before.
    pub(super) fn give_back(&mut self, member: usize, next: Option<Rank>) {
        let first = self.first_waiting(|_| true).map(|(_, rank)| rank);
        let keeps = next.is_some_and(|next| first.is_none_or(|first| next <= first));
        if keeps && self.busy <= self.processors {
            self.members[member].granted += 1;
        } else {
            self.busy -= 1;
        }
    }

    /// Grants a free turn to the stage that is first among those that wait.
    pub(super) fn grant(&mut self) -> Option<usize> {
        let (member, _) = self.first_waiting(|_| true).filter(|_| self.is_any_free())?;
        self.busy += 1;
        let Member { waiting, granted } = &mut self.members[member];
        *waiting = None;
        *granted += 1;
        Some(member)
    }

    /// No worker of `member` can make use of a turn now.
    pub(super) fn decline(&mut self, member: usize) {
        let Member { granted, .. } = std::mem::take(&mut self.members[member]);
        self.busy -= granted;
    }

    fn is_any_free(&self) -> bool {
        self.busy < self.processors
    }

    fn first_waiting(&self, among: impl Fn(usize) -> bool) -> Option<(usize, Rank)> {
        let waiting = self.members.iter().enumerate().filter(|(index, _)| among(*index));
        let waiting = waiting.filter_map(|(index, member)| Some((index, member.waiting?)));
        waiting.min_by_key(|(_, rank)| *rank)
    }
}

#[cfg(all(test, not(tamarisk_loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn rank(priority: u8, due: u64) -> Rank {
        Rank { priority: Priority(priority), due: Timestamp::from_nanos(due) }
    }

    /// Three stages that share so many processors.
    fn turns(processors: u32) -> Turns {
        let mut turns = Turns::new(Concurrency::new(processors));
        turns.make_room(3);
        turns
    }

    #[test]
    fn the_more_important_comes_first_and_then_who_is_due_earlier() {
        let mut turns = turns(1);
        assert!(turns.take(0, rank(1, 0)));
        assert!(!turns.take(1, rank(1, 1)));
        assert!(!turns.take(2, rank(0, 9)));
        turns.give_back(0, None);
        assert_eq!(turns.grant(), Some(2));
        assert_eq!(turns.grant(), None);
        assert!(turns.take(2, rank(0, 9)));
        turns.give_back(2, None);
        assert_eq!(turns.grant(), Some(1));
    }

    #[test]
    fn a_stage_goes_on_while_no_other_one_comes_before() {
        let mut turns = turns(1);
        assert!(turns.take(0, rank(1, 0)));
        assert!(!turns.take(1, rank(1, 5)));
        turns.give_back(0, Some(rank(1, 4)));
        assert_eq!(turns.grant(), None);
        assert!(turns.take(0, rank(1, 4)));
        turns.give_back(0, Some(rank(1, 6)));
        assert_eq!(turns.grant(), Some(1));
    }

    #[test]
    fn a_turn_that_is_declined_is_the_next_ones() {
        let mut turns = turns(1);
        assert!(turns.take(0, rank(0, 0)));
        assert!(!turns.take(1, rank(0, 1)));
        assert!(!turns.take(2, rank(0, 2)));
        turns.give_back(0, None);
        assert_eq!(turns.grant(), Some(1));
        turns.decline(1);
        assert_eq!(turns.grant(), Some(2));
    }

    #[test]
    fn fewer_processors_are_fewer_turns() {
        let mut turns = turns(2);
        assert!(turns.take(0, rank(0, 0)));
        assert!(turns.take(1, rank(0, 0)));
        turns.set_processors(Concurrency::ONE);
        turns.give_back(0, Some(rank(0, 1)));
        assert!(!turns.take(0, rank(0, 1)));
        turns.give_back(1, Some(rank(0, 1)));
        assert!(turns.take(1, rank(0, 1)) ^ turns.take(0, rank(0, 1)));
    }

    proptest! {
        /// Whatever stages do, no more turns are taken than there are, and none is lost.
        #[test]
        fn no_turn_is_lost(processors in 1_u32..4, steps in prop::collection::vec((0_usize..3, 0_u8..5, 0_u8..2), 1..200)) {
            let mut turns = turns(processors);
            let mut taken = [0_u32; 3];
            for (due, (member, step, priority)) in steps.into_iter().enumerate() {
                let rank = rank(priority, due as u64);
                match step {
                    0 | 1 => taken[member] += u32::from(turns.take(member, rank)),
                    2 if taken[member] > 0 => {
                        taken[member] -= 1;
                        turns.give_back(member, (priority == 0).then_some(rank));
                    }
                    3 => turns.set_processors(Concurrency::new(1 + due as u32 % 3)),
                    _ => turns.decline(member),
                }
                while turns.grant().is_some() {}
                let granted: u32 = turns.members.iter().map(|member| member.granted).sum();
                prop_assert_eq!(turns.busy, granted + taken.iter().sum::<u32>());
                prop_assert!(turns.busy <= processors.max(3));
                prop_assert!(!turns.is_any_free() || turns.first_waiting(|_| true).is_none());
            }
        }
    }
}
