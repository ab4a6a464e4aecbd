//! Messages when something begins to be lost and when that has ended: lines of the access log,
//! connections.

use std::time::Duration;

use tokio::time::Instant;

use super::episode::{CALM, EVERY};

/// What is counted when it is lost.
#[derive(Default)]
pub(super) struct Losses {
    /// How many there were when it was last looked.
    before: u64,
    current: Option<Current>,
}

struct Current {
    began: Instant,
    last: Instant,
    count: u64,
}

/// What has changed since the last look.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// So many were lost since the last look, and none before.
    Begins { count: u64 },
    /// So many were lost, in this time.
    Ends { count: u64, within: Duration },
}

impl Losses {
    /// What has changed, given the total so far.
    pub(super) fn look(&mut self, now: Instant, count: u64) -> Option<Change> {
        // Another log counts from zero.
        let new = count.saturating_sub(std::mem::replace(&mut self.before, count));
        let Some(current) = &mut self.current else {
            if new == 0 {
                return None;
            }
            self.current = Some(Current { began: now, last: now, count: new });
            return Some(Change::Begins { count: new });
        };
        if new > 0 {
            (current.last, current.count) = (now, current.count + new);
        } else if now.duration_since(current.last) >= CALM {
            let Current { began, last, count } = self.current.take()?;
            return Some(Change::Ends { count, within: last.duration_since(began) + EVERY });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_told_once_when_losses_begin_and_once_when_they_have_ended() {
        let (mut losses, start) = (Losses::default(), Instant::now());
        let mut look = |second, count| losses.look(start + Duration::from_secs(second), count);
        assert_eq!(look(0, 0), None);
        assert_eq!(look(1, 5), Some(Change::Begins { count: 5 }));
        assert_eq!(look(2, 7), None);
        // A short calm is no end.
        assert_eq!(look(11, 7), None);
        // Another log has been opened meanwhile.
        assert_eq!(look(12, 0), Some(Change::Ends { count: 7, within: Duration::from_secs(2) }));
        assert_eq!(look(13, 1), Some(Change::Begins { count: 1 }));
        assert_eq!(look(14, 0), None);
        assert_eq!(look(15, 2), None);
        assert_eq!(look(24, 2), None);
        assert_eq!(look(25, 2), Some(Change::Ends { count: 3, within: Duration::from_secs(3) }));
    }
}
