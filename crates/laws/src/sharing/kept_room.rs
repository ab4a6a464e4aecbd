//! Room that is kept free of clients who have had more than others: trunk reservation.
//!
//! Where service takes most of the target no queue can form that shares could be taken from:
//! an event is served at once or rejected, and who asks most often finds the free worker.
//! So when a client who has had less than is usual is rejected, room for one more event
//! of such clients is kept from those who have had more: a worker, or a place in the queue
//! where one can wait there. What is kept stays as long as it is needed, and half
//! of it is given back when it has not been for a while. It is at most half of the workers, so that
//! no more than that stands idle for clients who do not come.

use std::time::Duration;

use tamarisk_control::Timestamp;

/// The room that is kept on one priority level, in events.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptRoom {
    events: u32,
    /// When all of it was last needed, or when the latest part was given back.
    needed: Timestamp,
    /// When it was last found too small.
    raised: Timestamp,
}

impl KeptRoom {
    /// How many events it is for, after a time in which it was not needed.
    #[inline]
    pub(crate) fn events(&mut self, now: Timestamp, memory: Duration) -> u32 {
        if self.events > 0 && now.since(self.needed) >= memory {
            self.give_back(now, memory);
        }
        self.events
    }

    /// A client who has had little was rejected. One more event of theirs is to find room, of at
    /// most `most`, but not before what was kept then has come free: after `service`.
    pub(crate) fn is_too_small(&mut self, now: Timestamp, service: Duration, most: u32) {
        self.needed = now;
        if self.events == 0 || now.since(self.raised) >= service {
            self.raised = now;
            self.events = (self.events + 1).min(most);
        }
    }

    /// An event of theirs has taken the last of it.
    #[inline]
    pub(crate) fn is_needed(&mut self, now: Timestamp) {
        self.needed = now;
    }

    /// As at first.
    pub(crate) fn reset(&mut self) {
        self.events = 0;
    }

    /// Half of it in each time of `memory`.
    #[cold]
    fn give_back(&mut self, now: Timestamp, memory: Duration) {
        let memories = now.since(self.needed).as_nanos() / memory.as_nanos().max(1);
        let halvings = u32::try_from(memories).unwrap_or(u32::MAX);
        self.events = self.events.checked_shr(halvings).unwrap_or(0);
        self.needed = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: Duration = Duration::from_secs(10);
    const SERVICE: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Timestamp {
        Timestamp::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn it_grows_by_an_event_in_the_time_of_one_up_to_all() {
        let mut kept = KeptRoom::default();
        assert_eq!(kept.events(at(1000), MEMORY), 0);
        for millis in 1000..1100 {
            kept.is_too_small(at(millis), SERVICE, 2);
        }
        assert_eq!(kept.events(at(1100), MEMORY), 1);
        kept.is_too_small(at(1100), SERVICE, 2);
        kept.is_too_small(at(1200), SERVICE, 2);
        assert_eq!(kept.events(at(1200), MEMORY), 2);
    }

    #[test]
    fn it_stays_while_it_is_needed_and_is_given_back_by_halves() {
        let mut kept = KeptRoom::default();
        kept.is_too_small(at(1000), SERVICE, 9);
        kept.is_too_small(at(1100), SERVICE, 9);
        for second in 2..40 {
            kept.is_needed(at(1000 * second));
            assert_eq!(kept.events(at(1000 * second), MEMORY), 2);
        }
        assert_eq!(kept.events(at(48_999), MEMORY), 2);
        assert_eq!(kept.events(at(49_000), MEMORY), 1);
        assert_eq!(kept.events(at(58_999), MEMORY), 1);
        assert_eq!(kept.events(at(59_000), MEMORY), 0);
    }

    #[test]
    fn a_long_silence_gives_all_of_it_back() {
        let mut kept = KeptRoom::default();
        (0..5).for_each(|step| kept.is_too_small(at(1000 + 100 * step), SERVICE, 9));
        assert_eq!(kept.events(Timestamp::MAX, MEMORY), 0);
    }
}
