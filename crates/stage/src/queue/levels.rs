//! One double-ended queue for each priority, highest first.

use std::collections::VecDeque;

use tamarisk_control::{Classes, Order, Timestamp};

use super::{Queued, split};

pub(crate) struct Levels<T> {
    levels: Vec<VecDeque<Queued<T>>>,
    /// The level of each class, by its index; empty if all share one level.
    level_of_class: Vec<usize>,
    len: usize,
}

impl<T> Levels<T> {
    pub(super) fn single() -> Self {
        Self { levels: vec![VecDeque::new()], level_of_class: Vec::new(), len: 0 }
    }

    pub(super) fn by_priority(classes: &Classes) -> Self {
        let mut priorities: Vec<_> = classes.iter().map(|(_, class)| class.priority).collect();
        priorities.sort_unstable();
        priorities.dedup();
        let level_of_class = classes
            .iter()
            .map(|(_, class)| priorities.partition_point(|&other| other < class.priority))
            .collect();
        let levels = priorities.iter().map(|_| VecDeque::new()).collect();
        Self { levels, level_of_class, len: 0 }
    }

    pub(super) fn push(&mut self, queued: Queued<T>) {
        let level = self.level_of_class.get(queued.meta.class.index()).copied().unwrap_or(0);
        self.levels[level].push_back(queued);
        self.len += 1;
    }

    pub(super) fn pop(&mut self, order: Order) -> Option<Queued<T>> {
        let level = self.levels.iter_mut().find(|level| !level.is_empty())?;
        self.len -= 1;
        match order {
            Order::OldestFirst => level.pop_front(),
            Order::NewestFirst => level.pop_back(),
        }
    }

    pub(super) fn oldest(&self) -> Option<Timestamp> {
        self.levels.iter().filter_map(VecDeque::front).map(|head| head.meta.entered).min()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn extract(&mut self, mut gone: impl FnMut(&Queued<T>) -> bool) -> Vec<Queued<T>> {
        let mut all = Vec::new();
        for level in &mut self.levels {
            let (stay, out) = split(std::mem::take(level), &mut gone);
            *level = stay;
            all.extend(out);
        }
        self.len -= all.len();
        all
    }
}
