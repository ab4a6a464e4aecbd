//! One double-ended queue for each priority, highest first.

use std::collections::VecDeque;

use tamarisk_control::{ClassId, Classes, Order, Timestamp};

use super::{Queued, Run, by_priority, split};

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
        let (count, level_of_class) = by_priority(classes);
        let levels = std::iter::repeat_with(VecDeque::new).take(count).collect();
        Self { levels, level_of_class, len: 0 }
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.levels.len()
    }

    pub(super) fn push(&mut self, queued: Queued<T>) {
        self.len += 1;
        self.level_mut(queued.meta.class).push_back(queued);
    }

    pub(super) fn push_all(&mut self, queued: Vec<Queued<T>>) {
        let Some(first) = queued.first() else { return };
        self.len += queued.len();
        self.level_mut(first.meta.class).extend(queued);
    }

    pub(super) fn next_run(&self, most: usize, stays: impl Fn(&T) -> bool) -> Option<Run> {
        let level = self.levels.iter().find(|level| !level.is_empty())?;
        let mut run = Run { meta: level.front()?.meta, count: 0 };
        for Queued { meta, item } in level.iter().take(most) {
            if meta.class != run.meta.class || !stays(item) {
                break;
            }
            run.meta.entered = run.meta.entered.min(meta.entered);
            run.meta.deadline = run.meta.deadline.min(meta.deadline);
            run.count += 1;
        }
        (run.count > 1).then_some(run)
    }

    pub(super) fn pop_run(&mut self, count: usize, to: &mut VecDeque<Queued<T>>) {
        let Some(level) = self.levels.iter_mut().find(|level| !level.is_empty()) else { return };
        self.len -= count;
        if count == level.len() && to.is_empty() {
            std::mem::swap(level, to);
            rewind(level);
        } else {
            to.extend(level.drain(..count));
        }
    }

    pub(super) fn pop(&mut self, order: Order) -> Option<Queued<T>> {
        let level = self.levels.iter_mut().find(|level| !level.is_empty())?;
        self.len -= 1;
        let popped = match order {
            Order::OldestFirst => level.pop_front(),
            Order::NewestFirst => level.pop_back(),
        };
        if level.is_empty() {
            rewind(level);
        }
        popped
    }

    pub(super) fn oldest(&self) -> Option<Timestamp> {
        self.levels.iter().filter_map(VecDeque::front).map(|head| head.meta.entered).min()
    }

    fn level_mut(&mut self, class: ClassId) -> &mut VecDeque<Queued<T>> {
        let level = self.level_of_class.get(class.index()).copied().unwrap_or(0);
        &mut self.levels[level]
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Queued<T>> {
        self.levels.iter().flatten()
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

/// Lets an empty ring begin at its start again, so that a queue which is short and
/// mostly empty stays in the same few cache lines.
fn rewind<T>(empty: &mut VecDeque<T>) {
    empty.clear();
}
