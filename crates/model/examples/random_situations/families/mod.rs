//! The families of situations.

mod kinds;
mod parts;
mod pool;

use crate::draw::Draw;
use crate::situation::Situation;

/// Situations that are drawn from the same distributions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    Steady,
    Steps,
    Pause,
    Crowd,
    Slowdown,
    Kinds,
    Mixture,
    Cores,
    Light,
    Parts,
    PartsLight,
}

impl Family {
    /// The place in this list is a part of what a situation is drawn from.
    pub(crate) const ALL: [Self; 11] = [
        Self::Steady,
        Self::Steps,
        Self::Pause,
        Self::Crowd,
        Self::Slowdown,
        Self::Kinds,
        Self::Mixture,
        Self::Cores,
        Self::Light,
        Self::Parts,
        Self::PartsLight,
    ];

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.name() == name)
    }

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Steady => "steady",
            Self::Steps => "steps",
            Self::Pause => "pause",
            Self::Crowd => "crowd",
            Self::Slowdown => "slowdown",
            Self::Kinds => "kinds",
            Self::Mixture => "mixture",
            Self::Cores => "cores",
            Self::Light => "light",
            Self::Parts => "parts",
            Self::PartsLight => "parts-light",
        }
    }

    /// What its situations are; loads are in multiples of the capacity.
    pub(crate) const fn summary(self) -> &'static str {
        match self {
            Self::Steady => "one pool, constant load of 0.8 to 8 ×",
            Self::Steps => "one pool, load that changes in steps, 0.1 to 8 ×",
            Self::Pause => "one pool that stands still now and then, load of 0.5 to 4 ×",
            Self::Crowd => "one pool, users who wait for their answers, load of 0.8 to 8 ×",
            Self::Slowdown => {
                "one pool whose service becomes 1.3 to 6 × longer, for good or for a while, \
                 load of 0.3 to 4 ×"
            }
            Self::Kinds => {
                "one pool, two to four kinds of requests 4 to 200 × apart, which the law is \
                 shown, load of 0.8 to 8 ×"
            }
            Self::Mixture => {
                "one pool, two to four kinds of requests 4 to 200 × apart, which the law cannot \
                 tell apart, load of 0.8 to 8 ×"
            }
            Self::Cores => "one pool whose workers share fewer cores, load of 0.8 to 8 ×",
            Self::Light => "one pool, constant load of 0.1 to 0.6 ×",
            Self::Parts => {
                "2 to 12 pools behind one port, each with a kind of its own, some or all at 1.05 \
                 to 4 ×, the others at 0.2 to 0.85 ×"
            }
            Self::PartsLight => {
                "2 to 12 pools behind one port, each with a kind of its own, all at 0.1 to 0.6 ×"
            }
        }
    }

    /// Whether the upstream can bear the load at any time, so that nothing should be rejected.
    pub(crate) const fn is_light(self) -> bool {
        matches!(self, Self::Light | Self::PartsLight)
    }

    /// The situation with this number under this seed.
    pub(crate) fn situation(self, seed: u64, number: u64) -> Situation {
        let place = Self::ALL.iter().position(|family| *family == self);
        let mut draw = Draw::new(place.expect("all are listed"), seed, number);
        match self {
            Self::Parts | Self::PartsLight => parts::situation(self, &mut draw),
            Self::Kinds | Self::Mixture => kinds::situation(self, &mut draw),
            Self::Steady | Self::Steps | Self::Pause | Self::Crowd => {
                pool::situation(self, &mut draw)
            }
            Self::Slowdown | Self::Cores | Self::Light => pool::situation(self, &mut draw),
        }
    }
}
