//! A line for each kind of event, served in order of due times.
//!
//! Within a kind the first to come is the first due, so only the heads of the lines have to
//! be compared. What may not start now is passed over, and stays.

use std::collections::VecDeque;

use tamarisk_control::{ClassId, Classes, Order, Timestamp};

use super::{EventMetadata, Queued, by_priority, split};

/// Lines of one priority. Kinds beyond so many share lines: then one that may not start
/// holds up those behind it.
const LINES_MAX: usize = 64;

pub(crate) struct EarliestDue<T> {
    /// The lines of each priority, highest first.
    levels: Vec<Vec<KindQueue<T>>>,
    /// The level of each class, by its index.
    level_of_class: Vec<usize>,
    len: usize,
}

struct KindQueue<T> {
    class: ClassId,
    kind: u64,
    events: VecDeque<Queued<T>>,
}

impl<T> EarliestDue<T> {
    pub(super) fn new(classes: &Classes) -> Self {
        let (count, level_of_class) = by_priority(classes);
        Self {
            levels: std::iter::repeat_with(Vec::new).take(count).collect(),
            level_of_class,
            len: 0,
        }
    }

    pub(super) fn push(&mut self, queued: Queued<T>) {
        let EventMetadata { class, kind, .. } = queued.meta;
        let lines = &mut self.levels[self.level_of_class[class.index()]];
        self.len += 1;
        let own = lines.iter().position(|line| (line.class, line.kind) == (class, kind));
        let index = own.unwrap_or_else(|| Self::line(lines, class, kind));
        lines[index].events.push_back(queued);
    }

    /// A line for a kind that has none.
    fn line(lines: &mut Vec<KindQueue<T>>, class: ClassId, kind: u64) -> usize {
        if lines.len() < LINES_MAX {
            lines.push(KindQueue { class, kind, events: VecDeque::new() });
            return lines.len() - 1;
        }
        match lines.iter().position(|line| line.events.is_empty()) {
            Some(empty) => {
                (lines[empty].class, lines[empty].kind) = (class, kind);
                empty
            }
            None => (kind % LINES_MAX as u64) as usize,
        }
    }

    /// The next event among those for which `due` has an answer.
    pub(super) fn pop(
        &mut self,
        order: Order,
        due: impl Fn(&EventMetadata) -> Option<Timestamp>,
    ) -> Option<Queued<T>> {
        let popped = self.levels.iter_mut().find_map(|lines| match order {
            Order::OldestFirst => {
                let heads = lines.iter_mut().filter_map(|line| {
                    let due = due(&line.events.front()?.meta)?;
                    Some((due, line))
                });
                heads.min_by_key(|(due, _)| *due)?.1.events.pop_front()
            }
            Order::NewestFirst => {
                let tails = lines.iter_mut().filter_map(|line| {
                    let meta = &line.events.back()?.meta;
                    due(meta)?;
                    Some((meta.entered, line))
                });
                tails.max_by_key(|(entered, _)| *entered)?.1.events.pop_back()
            }
        });
        self.len -= usize::from(popped.is_some());
        popped
    }

    pub(super) fn oldest(&self) -> Option<Timestamp> {
        let heads = self.levels.iter().flatten().filter_map(|line| line.events.front());
        heads.map(|head| head.meta.entered).min()
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Queued<T>> {
        self.levels.iter().flatten().flat_map(|line| &line.events)
    }

    pub(super) fn extract(&mut self, mut gone: impl FnMut(&Queued<T>) -> bool) -> Vec<Queued<T>> {
        let mut all = Vec::new();
        for line in self.levels.iter_mut().flatten() {
            let (stay, out) = split(std::mem::take(&mut line.events), &mut gone);
            line.events = stay;
            all.extend(out);
        }
        self.len -= all.len();
        all
    }
}
