//! The state `Searching`: the limit is lowered step by step until throughput falls.

use super::{Look, Search};

/// A step of the search lowers the limit to so much of it, …
const SEARCH_STEP: f64 = 0.62;
/// or further, towards so many times what it would be held at, but not below this, …
const SEARCH_AIM: f64 = 1.2;
const SEARCH_STEP_MOST: f64 = 0.2;
/// … once there are so many answers of equal work, or it has been looked at for so many seconds.
const SEARCH_ANSWERS: f64 = 40.0;
const SEARCH_LENGTH: f64 = 2.0;

impl Search {
    // Searching: a step down.
    pub(super) fn search_on(&mut self, now: f64, look: Look) {
        let Look { here, in_flight, aim, .. } = look;
        if here.answers >= SEARCH_ANSWERS || here.length > SEARCH_LENGTH {
            self.trial = Some(self.limit);
            let (most, least) = (SEARCH_STEP * self.limit, SEARCH_STEP_MOST * self.limit);
            let lower = (SEARCH_AIM * aim).clamp(least, most);
            self.set(now, lower.min(self.limit - 1.0), in_flight);
        } else {
            self.begin_window(now);
        }
    }
}
