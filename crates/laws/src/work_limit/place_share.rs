//! The limit on places for one kind of long work, and when it falls or rises.

/// Windows in time before the long kind gets a place back, at first and at most.
const CALM: u32 = 4;
const CALM_MAX: u32 = 64;
/// If it does not, the long kind gets so much of its places.
const FEWER: f64 = 0.8;

/// How many places a kind of long work may have.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Share {
    places: Option<u32>,
    pub(super) settled: f64,
    calm: u32,
    calm_needed: u32,
    trying: bool,
}

impl Share {
    /// How many places it is kept to, if that is fewer than there are otherwise.
    pub(super) fn kept_to(&self, limit: u32) -> Option<u32> {
        self.places.filter(|places| places + 1 < limit)
    }

    /// The most places, of so many that there are.
    pub(super) fn places(&self, limit: u32) -> u32 {
        self.places.map_or(limit, |places| places.min(limit.saturating_sub(1)).max(1))
    }

    /// Takes or gives back places after a window in which the short kind fared so.
    pub(super) fn settle(
        &mut self,
        now: f64,
        service: f64,
        limit: u32,
        running: u32,
        fares: Fares,
    ) {
        match (fares, self.places) {
            (Fares::Late, None) => {
                self.places = Some(running.min(limit.saturating_sub(1)).max(1));
                self.calm_needed = CALM;
                (self.settled, self.calm) = (now + service, 0);
            }
            (Fares::Late, Some(places)) => {
                let places = places.min(limit.saturating_sub(1));
                let fewer = (FEWER * f64::from(places)) as u32;
                self.places = Some(fewer.min(places.saturating_sub(1)).max(1));
                if std::mem::take(&mut self.trying) {
                    self.calm_needed = (2 * self.calm_needed).min(CALM_MAX);
                }
                (self.settled, self.calm) = (now + service, 0);
            }
            (Fares::InTime, Some(places)) if running >= places => {
                self.calm += 1;
                if self.calm >= self.calm_needed {
                    self.places = (places < limit).then_some(places + 1);
                    self.trying = true;
                    (self.settled, self.calm) = (now + service, 0);
                }
            }
            (Fares::InTime, _) => self.trying = false,
            (Fares::Between, _) => {}
        }
    }
}

/// How the short kind fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Fares {
    InTime,
    Between,
    Late,
}
