//! Cohorts: priorities within a class, by a hash of the client.
//!
//! A cut-off between classes takes all of a class or nothing. The laws that cut
//! off by priority therefore split every class into 128 cohorts by a hash of the
//! client, and order all of them: whole classes first, cohorts within a class. A
//! client keeps its cohort, so that one whose first request was let in gets its
//! next ones in too, and is not stopped half way.

use tamarisk_control::{Arrival, ClassId, Classes};

use tamarisk_laws::seeded::{Seeded, mix};

/// The user levels of [DAGOR18 §4.2], and the cohorts of a tier in \[Cinnamon23\].
pub(super) const COHORTS: usize = 128;

/// The order of all cohorts of all classes.
#[derive(Clone, Debug)]
pub(super) struct Cohorts {
    /// For each class, how many distinct priorities go before its own.
    ranks: Box<[usize]>,
    levels: usize,
    /// Places events that name no client.
    draws: Seeded,
}

impl Cohorts {
    pub(super) fn new(classes: &Classes, seed: u64) -> Self {
        let mut priorities: Vec<_> = classes.iter().map(|(_, class)| class.priority).collect();
        priorities.sort_unstable();
        priorities.dedup();
        let rank = |(_, class): (ClassId, &tamarisk_control::Class)| {
            priorities.partition_point(|&before| before < class.priority)
        };
        Self {
            ranks: classes.iter().map(rank).collect(),
            levels: priorities.len() * COHORTS,
            draws: Seeded::new(seed),
        }
    }

    /// How many levels there are: 128 for each distinct priority.
    pub(super) fn levels(&self) -> usize {
        self.levels
    }

    /// The level of an arrival, 0 the most important. `epoch` shuffles the clients.
    /// Events of no flow have nothing to be told apart by: each is placed anew.
    pub(super) fn level(&mut self, arrival: &Arrival, epoch: u64) -> usize {
        let spread = match arrival.flow {
            0 => self.draws.draw(),
            flow => mix(flow ^ mix(epoch)),
        };
        let rank = self.ranks.get(arrival.class.index()).unwrap_or(&self.ranks[0]);
        rank * COHORTS + (spread % COHORTS as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tamarisk_control::{Class, Priority, Target};

    use super::*;

    fn cohorts(priorities: &[u8]) -> Cohorts {
        let class = |(index, &priority): (usize, &u8)| Class {
            name: index.to_string(),
            target: Target::p90(Duration::from_secs(1)).unwrap(),
            priority: Priority(priority),
        };
        let classes = priorities.iter().enumerate().map(class).collect();
        Cohorts::new(&Classes::new(classes).unwrap(), 0)
    }

    fn arrival(class: usize, flow: u64) -> Arrival {
        Arrival { class: ClassId::new(class), deadline: None, flow, kind: 0 }
    }

    #[test]
    fn priorities_are_ranked_and_equal_ones_share_a_rank() {
        let mut cohorts = cohorts(&[7, 0, 7, 200]);
        assert_eq!(cohorts.levels(), 3 * 128);
        let ranks = [0, 1, 2, 3].map(|class| cohorts.level(&arrival(class, 5), 0) / 128);
        assert_eq!(ranks, [1, 0, 1, 2]);
    }

    #[test]
    fn a_client_keeps_its_cohort_within_an_epoch() {
        let mut cohorts = cohorts(&[0]);
        let first = cohorts.level(&arrival(0, 42), 1);
        assert!((0..100).all(|_| cohorts.level(&arrival(0, 42), 1) == first));
        assert!((2..12).any(|epoch| cohorts.level(&arrival(0, 42), epoch) != first));
    }

    #[test]
    fn events_without_a_client_are_spread() {
        let mut cohorts = cohorts(&[0]);
        let mut seen = [0; COHORTS];
        (0..12_800).for_each(|_| seen[cohorts.level(&arrival(0, 0), 0)] += 1);
        assert!(seen.iter().all(|count| (50..150).contains(count)), "{seen:?}");
    }
}
