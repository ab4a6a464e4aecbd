//! The long answers that are under way to clients, and the bound on them.
//!
//! Each takes up to 64 KiB of memory and perhaps a connection to the upstream, for as long as its
//! client likes to read. If there are too many, the client with the most of them loses
//! the one that it has not read from for longest.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use slab::Slab;
use tokio::time::Instant;

/// The most long answers under way at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Answers {
    /// To one client.
    pub client: usize,
    /// To all clients together.
    pub total: usize,
}

/// An answer that can be broken off.
pub(crate) trait Answer: Send + Sync {
    /// When the client last took something of it.
    fn last_taken(&self) -> Instant;

    /// Lets go of the upstream, and of what has come from it.
    fn close(&self);
}

/// All of them; clones share it.
#[derive(Clone, Default)]
pub(crate) struct Unread(Arc<Mutex<UnreadAnswers>>);

#[derive(Default)]
struct UnreadAnswers {
    /// Those who have any.
    clients: HashMap<IpAddr, OfClient>,
    /// Those not broken off.
    total: usize,
}

#[derive(Default)]
struct OfClient {
    /// `None` where one was broken off: it holds nothing, and its client has not noticed yet.
    answers: Slab<Option<Weak<dyn Answer>>>,
    /// Those not broken off.
    count: usize,
}

/// One that is counted, until this is dropped.
pub(crate) struct Counted {
    unread: Unread,
    client: IpAddr,
    key: usize,
}

impl Unread {
    /// Counts `answer`, which goes to `client`. If it is one too many, another one is broken off.
    pub(crate) fn count(
        &self,
        client: IpAddr,
        answer: Weak<dyn Answer>,
        bounds: Answers,
    ) -> Counted {
        let mut state = self.0.lock();
        let of_client = state.clients.entry(client).or_default();
        let key = of_client.answers.insert(Some(answer));
        of_client.count += 1;
        let is_greedy = of_client.count > bounds.client;
        state.total += 1;
        let too_many = if is_greedy {
            state.clients.get_mut(&client)
        } else if state.total > bounds.total {
            state.clients.values_mut().max_by_key(|of_client| of_client.count)
        } else {
            None
        };
        let stalest = too_many.and_then(OfClient::take_stalest);
        state.total -= usize::from(stalest.is_some());
        drop(state);
        if let Some(answer) = stalest {
            answer.close();
        }
        Counted { unread: self.clone(), client, key }
    }
}

impl OfClient {
    /// The answer that its client has not read from for longest, which counts no more.
    fn take_stalest(&mut self) -> Option<Arc<dyn Answer>> {
        let alive = self.answers.iter_mut().filter_map(|(_, entry)| {
            let answer = entry.as_ref()?.upgrade()?;
            Some((entry, answer))
        });
        let (entry, answer) = alive.min_by_key(|(_, answer)| answer.last_taken())?;
        *entry = None;
        self.count -= 1;
        Some(answer)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let mut guard = self.unread.0.lock();
        let state = &mut *guard;
        let of_client = state.clients.get_mut(&self.client).expect("it has this one");
        if of_client.answers.remove(self.key).is_some() {
            of_client.count -= 1;
            state.total -= 1;
        }
        if of_client.answers.is_empty() {
            state.clients.remove(&self.client);
        }
    }
}

impl std::fmt::Debug for Unread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Unread").field("total", &self.0.lock().total).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use super::*;

    struct Taken(Instant, AtomicBool);

    impl Answer for Taken {
        fn last_taken(&self) -> Instant {
            self.0
        }

        fn close(&self) {
            self.1.store(true, Ordering::Relaxed);
        }
    }

    const BOUNDS: Answers = Answers { client: 2, total: 3 };

    /// Answers to these clients, last read from this many seconds ago; which of them are closed.
    fn closed(answers: &[(u8, u64)]) -> Vec<usize> {
        let (unread, now) = (Unread::default(), Instant::now());
        let taken =
            |ago: &u64| Arc::new(Taken(now - Duration::from_secs(*ago), AtomicBool::new(false)));
        let made: Vec<_> = answers.iter().map(|(_, ago)| taken(ago)).collect();
        let counted: Vec<_> = answers
            .iter()
            .zip(&made)
            .map(|((client, _), answer)| {
                let answer: Arc<dyn Answer> = Arc::clone(answer) as _;
                unread.count(IpAddr::from([192, 0, 2, *client]), Arc::downgrade(&answer), BOUNDS)
            })
            .collect();
        let closed = |index: &usize| made[*index].1.load(Ordering::Relaxed);
        let closed: Vec<_> = (0..made.len()).filter(closed).collect();
        assert_eq!(unread.0.lock().total, answers.len() - closed.len());
        drop(counted);
        let state = unread.0.lock();
        assert!(state.clients.is_empty() && state.total == 0);
        closed
    }

    #[test]
    fn the_stalest_answer_of_the_greediest_client_is_broken_off() {
        assert!(closed(&[(1, 9), (2, 9), (2, 8)]).is_empty());
        assert_eq!(closed(&[(1, 7), (1, 8), (1, 9)]), [2]);
        assert_eq!(closed(&[(1, 9), (2, 5), (2, 6), (3, 9)]), [2]);
    }

    #[test]
    fn each_one_too_many_costs_another_one() {
        assert_eq!(closed(&[(1, 7), (1, 8), (1, 9), (1, 6), (1, 5)]), [0, 1, 2]);
        assert_eq!(closed(&[(1, 9), (2, 5), (2, 6), (3, 9), (2, 8)]), [2, 4]);
    }
}
