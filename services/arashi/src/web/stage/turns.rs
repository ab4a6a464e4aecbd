//! Turns of workers at the processors: with an embedded database all stages work with the same ones,
//! and each knows its own queue only.

use std::cell::Cell;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool};
use std::thread::{self, Thread};
use std::time::Instant;

use parking_lot::Mutex;

/// As many turns at once as there are processors. Of the workers that wait the first in order has
/// the next: so no more threads than that compete for the processors, and the more important class
/// is served first whatever stage it is in.
pub(crate) struct Turns(Mutex<State>);

/// Who is first: the more important class, then who is due earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Rank {
    pub(crate) is_bronze: bool,
    pub(crate) due: Instant,
}

/// Lasts until it is ended or dropped.
pub(crate) struct Turn<'t> {
    turns: &'t Turns,
    is_over: Cell<bool>,
}

struct State {
    free: usize,
    waiting: BinaryHeap<Reverse<Waiting>>,
    /// How many have waited so far: of the same rank, who came first is first.
    waited: u64,
}

struct Waiting {
    rank: Rank,
    number: u64,
    worker: Arc<WaitingWorker>,
}

struct WaitingWorker {
    thread: Thread,
    has_turn: AtomicBool,
}

impl Turns {
    pub(crate) fn new(processors: usize) -> Self {
        Self(Mutex::new(State { free: processors, waiting: BinaryHeap::new(), waited: 0 }))
    }

    /// Waits for a turn.
    pub(crate) fn take(&self, rank: Rank) -> Turn<'_> {
        let mut state = self.0.lock();
        if state.free > 0 {
            state.free -= 1;
            return self.turn();
        }
        let worker =
            Arc::new(WaitingWorker { thread: thread::current(), has_turn: AtomicBool::new(false) });
        let number = state.waited;
        state.waited += 1;
        state.waiting.push(Reverse(Waiting { rank, number, worker: Arc::clone(&worker) }));
        drop(state);
        while !worker.has_turn.load(atomic::Ordering::Acquire) {
            thread::park();
        }
        self.turn()
    }

    fn turn(&self) -> Turn<'_> {
        Turn { turns: self, is_over: Cell::new(false) }
    }

    /// The next has the turn.
    fn pass_on(&self) {
        let mut state = self.0.lock();
        let Some(Reverse(Waiting { worker, .. })) = state.waiting.pop() else {
            state.free += 1;
            return;
        };
        drop(state);
        worker.has_turn.store(true, atomic::Ordering::Release);
        worker.thread.unpark();
    }
}

impl Turn<'_> {
    pub(crate) fn end(&self) {
        if !self.is_over.replace(true) {
            self.turns.pass_on();
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.rank, self.number).cmp(&(other.rank, other.number))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use super::*;

    #[test]
    fn gold_comes_before_bronze_and_who_is_due_before_who_has_time() {
        let (turns, order) = (Turns::new(1), Mutex::new(Vec::new()));
        let now = Instant::now();
        let due_after = |is_bronze, ms| Rank { is_bronze, due: now + Duration::from_millis(ms) };
        let held = turns.take(due_after(true, 0));
        thread::scope(|scope| {
            let ranks =
                [(true, 1), (false, 30), (true, 20), (false, 2)].map(|(b, ms)| due_after(b, ms));
            for (index, rank) in ranks.into_iter().enumerate() {
                let (turns, order) = (&turns, &order);
                scope.spawn(move || {
                    let _turn = turns.take(rank);
                    order.lock().push(index);
                });
            }
            while turns.0.lock().waiting.len() < ranks.len() {
                thread::yield_now();
            }
            drop(held);
        });
        assert_eq!(*order.lock(), [3, 1, 0, 2]);
    }

    #[test]
    fn no_more_have_a_turn_than_there_are_processors_and_each_has_one_in_the_end() {
        const PROCESSORS: usize = 2;
        const ROUNDS: usize = 500;
        let turns = Turns::new(PROCESSORS);
        let [running, done] = [(); 2].map(|()| AtomicUsize::new(0));
        thread::scope(|scope| {
            for worker in 0..6 {
                let (turns, running, done) = (&turns, &running, &done);
                scope.spawn(move || {
                    for _ in 0..ROUNDS {
                        let turn = turns.take(Rank { is_bronze: worker > 2, due: Instant::now() });
                        let others = running.fetch_add(1, atomic::Ordering::SeqCst);
                        assert!(others < PROCESSORS, "{others} others have a turn");
                        thread::yield_now();
                        running.fetch_sub(1, atomic::Ordering::SeqCst);
                        done.fetch_add(1, atomic::Ordering::SeqCst);
                        drop(turn);
                    }
                });
            }
        });
        assert_eq!(done.into_inner(), 6 * ROUNDS);
        assert_eq!(turns.0.lock().free, PROCESSORS);
    }
}
