//! Seeking the knee: the least in flight that keeps the throughput.

use std::time::Duration;

use crate::Timestamp;
use crate::recent_samples::RecentSamples;

const PROBE: f64 = 1.3;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Open,
    Settling { probing: bool },
    Measuring { probing: bool },
}

/// The search for the knee.
#[derive(Clone, Debug)]
pub(crate) struct Knee {
    phase: Phase,
    began: Timestamp,
    completions: u32,
    starved: u32,
    limit: f64,
    probe_limit: f64,
    base_rate: f64,
    responses: RecentSamples,
    /// Least mean response of a full window in this half-epoch and the last.
    base_now: f64,
    base_before: f64,
    base_began: Timestamp,
    since_base: u32,
}

const WINDOW: usize = 32;
const BASE_EPOCH: Duration = Duration::from_secs(10);

impl Knee {
    pub(crate) fn new() -> Self {
        Self {
            phase: Phase::Open,
            began: Timestamp::ZERO,
            completions: 0,
            starved: 0,
            limit: f64::INFINITY,
            probe_limit: f64::INFINITY,
            base_rate: 0.0,
            responses: RecentSamples::new(WINDOW),
            base_now: f64::INFINITY,
            base_before: f64::INFINITY,
            base_began: Timestamp::ZERO,
            since_base: 0,
        }
    }

    pub(crate) fn limit(&self) -> f64 {
        match self.phase {
            Phase::Settling { probing: true } | Phase::Measuring { probing: true } => {
                self.probe_limit
            }
            _ => self.limit,
        }
    }

    pub(crate) fn base(&self) -> f64 {
        self.base_now.min(self.base_before)
    }

    pub(crate) fn saturated(&self) -> bool {
        self.phase != Phase::Open
    }

    pub(crate) fn on_finish(
        &mut self,
        now: Timestamp,
        response_seconds: f64,
        standing: bool,
        ceiling: f64,
        in_flight: u32,
    ) {
        self.responses.push(response_seconds);
        self.since_base += 1;
        if self.since_base as usize >= WINDOW / 2 {
            self.since_base = 0;
            if now.since(self.base_began) > BASE_EPOCH {
                self.base_before = self.base_now;
                self.base_now = f64::INFINITY;
                self.base_began = now;
            }
            self.base_now = self.base_now.min(self.responses.mean());
        }
        self.completions += 1;
        if !standing {
            self.starved += 1;
        }
        let elapsed = now.since(self.began).as_secs_f64();
        let response = self.responses.mean();
        match self.phase {
            Phase::Open => {
                if !standing {
                    self.restart(now, Phase::Open);
                    self.limit = f64::INFINITY;
                } else if self.completions >= 16 && elapsed >= self.base().min(response) {
                    let rate = f64::from(self.completions) / elapsed;
                    let guess = 1.5 * rate * self.base();
                    self.limit = guess.max(1.0).min(ceiling).min(f64::from(in_flight).max(1.0));
                    self.restart(now, Phase::Settling { probing: false });
                }
            }
            Phase::Settling { probing } => {
                if elapsed >= response {
                    self.restart(now, Phase::Measuring { probing });
                }
            }
            Phase::Measuring { probing } => {
                if f64::from(self.completions) < 100.0 || elapsed < 2.0 * response {
                    return;
                }
                if self.starved * 10 > self.completions {
                    self.limit = (self.limit * PROBE).min(ceiling);
                    if self.limit >= ceiling {
                        self.restart(now, Phase::Open);
                        self.limit = f64::INFINITY;
                    } else {
                        self.restart(now, Phase::Settling { probing: false });
                    }
                    return;
                }
                let rate = f64::from(self.completions) / elapsed;
                if !probing {
                    self.base_rate = rate;
                    self.probe_limit = (self.limit * PROBE).ceil().min(ceiling.max(self.limit));
                    self.restart(now, Phase::Settling { probing: true });
                    return;
                }
                let step = (self.probe_limit / self.limit).ln();
                let elasticity = if step > 0.0 { (rate / self.base_rate).ln() / step } else { 0.0 };
                if elasticity > 0.4 {
                    self.limit = self.probe_limit;
                } else if elasticity < -0.4 {
                    self.limit *= 0.7;
                } else {
                    self.limit *= 0.88;
                }
                self.limit = self.limit.max(1.0);
                self.restart(now, Phase::Settling { probing: false });
            }
        }
    }

    fn restart(&mut self, now: Timestamp, phase: Phase) {
        self.phase = phase;
        self.began = now;
        self.completions = 0;
        self.starved = 0;
    }
}
