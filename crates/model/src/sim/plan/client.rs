//! Clients: their arrivals, their patience and their retries.

use std::sync::Arc;
use std::time::Duration;

use tamarisk_control::{ClassId, Ratio};

use super::distribution::Distribution;
use super::profile::Profile;

/// Requests in a row to which a partly open client has had no answer, at most: with a second
/// between them it has then waited for longer than any server is given.
pub const UNANSWERED_MAX: u32 = 100;

/// A group of clients that behave alike.
#[derive(Clone, Debug, PartialEq)]
pub struct Client {
    /// What errors call it.
    pub name: String,
    /// The stage that its requests enter by.
    pub entry: String,
    /// Of which class or kind they are, by name, with their shares. Empty: all of the first
    /// class, and of no kind.
    pub mix: Vec<(String, f64)>,
    /// When they come.
    pub load: Load,
    /// From how many flows, all alike (a closed load has one a user). Laws are told of
    /// flows if any client of the scenario has several; who has one counts as one then.
    pub flows: u32,
    /// What a rejected one does.
    pub retry: Retry,
    /// After so long an answer is of no use to the client: each attempt's deadline.
    /// What has passed it is not started any more; what runs is ended where there is a
    /// termination law.
    pub patience: Option<Duration>,
    /// After how long the client leaves, without a word before. If its request is still queued
    /// it is taken out, and counted as dropped; if it runs, the stage goes on to its end, and it
    /// counts as terminated. Not for clients that wait for an answer before they go on.
    pub leaves: Option<Distribution>,
    /// Partly open: who has had no answer to its newest request after so long sends another
    /// one. Its earlier requests stay where they are; the user goes on with the answer to its
    /// newest, and after [`UNANSWERED_MAX`] in a row waits. Closed loads only.
    pub resend: Option<Duration>,
    /// Which share of the requests the first flow sends, if it is not as the others. Open
    /// clients only.
    pub greedy: Option<Ratio>,
    /// How many requests come at once, as the calls that a page is made of: the page is of use
    /// only if all of them are answered. 1 unless said. Open clients only.
    pub calls: u32,
}

impl Client {
    /// Clients of one flow and the first class, that do not try again.
    pub fn new(name: impl Into<String>, entry: impl Into<String>, load: Load) -> Self {
        Self {
            name: name.into(),
            entry: entry.into(),
            mix: Vec::new(),
            load,
            flows: 1,
            retry: Retry::never(),
            patience: None,
            leaves: None,
            resend: None,
            greedy: None,
            calls: 1,
        }
    }

    /// A Poisson stream of so many requests a second.
    pub fn poisson(name: impl Into<String>, entry: impl Into<String>, per_second: f64) -> Self {
        Self::new(name, entry, Load::poisson(Profile::constant(per_second)))
    }

    /// With `share` of the requests of the class or kind named `class`.
    #[must_use]
    pub fn class(mut self, class: impl Into<String>, share: f64) -> Self {
        self.mix.push((class.into(), share));
        self
    }

    /// With requests from so many flows.
    #[must_use]
    pub fn flows(mut self, flows: u32) -> Self {
        self.flows = flows;
        self
    }

    /// With these manners after a rejection.
    #[must_use]
    pub fn retry(mut self, retry: Retry) -> Self {
        self.retry = retry;
        self
    }

    /// Leaving after so long.
    #[must_use]
    pub fn leaves(mut self, after: Distribution) -> Self {
        self.leaves = Some(after);
        self
    }

    /// Sending another request whenever the newest has had no answer for so long.
    #[must_use]
    pub fn resend(mut self, after: Duration) -> Self {
        self.resend = Some(after);
        self
    }

    /// With the first of the flows sending this share of the requests.
    #[must_use]
    pub fn greedy(mut self, share: Ratio) -> Self {
        self.greedy = Some(share);
        self
    }

    /// With so many requests at once, which are of use only together.
    #[must_use]
    pub fn calls(mut self, calls: u32) -> Self {
        self.calls = calls;
        self
    }

    /// With this patience.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Self {
        self.patience = Some(patience);
        self
    }
}

/// When requests come.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// Open: they come whether others are answered or not.
    Open {
        /// How many a second, over time.
        rate: Profile,
        /// The times between arrivals have this shape; its mean does not matter.
        gaps: Distribution,
    },
    /// Partly open: sessions come as requests of an open load do; each makes a
    /// request, waits for its end, and then thinks and makes another, or leaves.
    Sessions {
        /// How many sessions begin a second, over time.
        rate: Profile,
        /// The shape of the times between them.
        gaps: Distribution,
        /// The probability of one more request after each.
        stay: Ratio,
        /// How long a session thinks before it.
        think: Distribution,
    },
    /// Closed: each of a number of users makes a request, waits for its end, thinks,
    /// and makes the next.
    Closed {
        /// How many there are from which time on. New ones make their first request
        /// within a millisecond; ones too many leave when they have thought.
        users: Vec<(Duration, u32)>,
        /// How long each thinks.
        think: Distribution,
    },
    /// As it was once recorded. Classes and flows are the recorded ones, not the
    /// client's.
    Trace(Arc<[TraceArrival]>),
}

impl Load {
    /// A Poisson process of this rate.
    pub fn poisson(rate: Profile) -> Self {
        Self::Open { rate, gaps: Distribution::Exponential(Duration::from_secs(1)) }
    }

    /// `count` users from the beginning to the end.
    pub fn users(count: u32, think: Distribution) -> Self {
        Self::Closed { users: vec![(Duration::ZERO, count)], think }
    }
}

/// One arrival of a recorded trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceArrival {
    /// When it came, since the beginning.
    pub at: Duration,
    /// Of which class.
    pub class: ClassId,
    /// Of which of the scenario's kinds, counted from 1; 0 if it is of none.
    pub kind: u32,
    /// Whose it was: below the client's number of flows.
    pub flow: u32,
    /// How long the first step at the entry took, if that was recorded; if not it is drawn.
    pub service: Option<Duration>,
}

/// What a client does whose request was rejected, dropped or terminated.
#[derive(Clone, Debug, PartialEq)]
pub struct Retry {
    /// How often it asks again; then it gives up.
    pub attempts_max: u32,
    /// How long it waits before the first time.
    pub pause: Distribution,
    /// How many times as long before each further one, at least 1.
    pub growth: f64,
    /// It never waits longer than this.
    pub pause_max: Duration,
    /// Whether it heeds the time that the rejection names.
    pub heed: Heed,
}

/// Whether a client heeds the `Retry-After` of a rejection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Heed {
    /// It waits at least so long, whatever its own pause.
    RetryAfter,
    /// It waits for its own pause only.
    Nothing,
}

impl Retry {
    /// It takes no for an answer.
    pub fn never() -> Self {
        Self::backoff(0, Distribution::Constant(Duration::ZERO), 1.0)
    }

    /// Again up to `attempts_max` times, after a pause that grows by the factor `growth`, up
    /// to a minute, with no regard to what the rejection says.
    pub fn backoff(attempts_max: u32, pause: Distribution, growth: f64) -> Self {
        let pause_max = Duration::from_secs(60);
        Self { attempts_max, pause, growth, pause_max, heed: Heed::Nothing }
    }
}
