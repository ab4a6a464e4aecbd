//! The birth–death chain of an exponential centre: one event more at the rate λ, one less at
//! `μ(n) = max(0, min(n, s)·μ − φ)`.
//!
//! **Why the obvious way fails.** The printed sums [Welsh02 eq. 4.4, 4.13] have
//! terms like (mρ)ᵐ ÷ m!, which overflow with 171 servers, and 1 − ρ, which has
//! no digits left when ρ is close to 1.
//!
//! **Mechanism.** Detailed balance, `p(n)·μ(n) = p(n−1)·λ`, is followed from the
//! most likely state in both directions until nothing is left: no term exceeds the
//! first, and a term at the distance k has the relative error k·10⁻¹⁶. States from
//! `s` on are geometric and summed in closed form. What distinguishes ρ from 1
//! enters only as `s·μ − φ − λ`, rounded once.

use super::{Unstable, rate};

/// Terms below this share of the first do not change the sum.
const NEGLIGIBLE: f64 = 1e-30;

/// A share of the capacity that is spare only because rates are rounded: three times
/// 0.05, as binary fractions, is a little more than 0.15.
const INDISTINGUISHABLE: f64 = 8.0 * f64::EPSILON;

/// The chain's parameters.
#[derive(Clone, Copy, Debug)]
pub(super) struct BirthDeath {
    /// λ: zero, or no less than the least rate
    pub(super) arrivals: f64,
    /// μ, of one event alone
    pub(super) rate: f64,
    /// φ
    pub(super) lost: f64,
    /// s: how many events at once raise the rate
    pub(super) servers: u32,
}

/// Its equilibrium.
#[derive(Clone, Copy, Debug)]
pub(super) struct Balance {
    /// The state that all others are compared with.
    mode: u32,
    /// One over the sum of all states relative to the mode: p(mode).
    mode_probability: f64,
    /// `Pr[N ≥ s]`
    pub(super) waiting: f64,
    /// p(s) ÷ `Pr[N ≤ s]`: Erlang's B, if nothing could wait.
    pub(super) blocking: f64,
    /// `E[min(N, s)]`
    pub(super) busy_mean: f64,
    /// `E[max(N − s, 0)]`
    pub(super) queued_mean: f64,
    /// `Var[N]`
    pub(super) variance: f64,
}

impl BirthDeath {
    /// μ(n)
    fn rate_at(&self, n: u32) -> f64 {
        f64::from(n.min(self.servers)).mul_add(self.rate, -self.lost).max(0.0)
    }

    /// The greatest rate at which events leave.
    pub(super) fn capacity(&self) -> f64 {
        self.rate_at(self.servers)
    }

    /// Capacity that is left over.
    pub(super) fn slack(&self) -> f64 {
        f64::from(self.servers).mul_add(self.rate, -(self.lost + self.arrivals))
    }

    /// The greatest state that is never left downwards; zero if a lone event is
    /// served at all.
    fn floor(&self) -> u32 {
        let mut floor = (self.lost / self.rate) as u32;
        while floor > 0 && self.rate_at(floor) > 0.0 {
            floor -= 1;
        }
        floor
    }

    /// The most likely state up to `s`: where as many leave as come.
    fn mode(&self, floor: u32) -> u32 {
        if self.arrivals == 0.0 {
            return floor;
        }
        let even = (self.arrivals + self.lost) / self.rate;
        even.clamp(f64::from(floor), f64::from(self.servers)) as u32
    }

    /// That there is an equilibrium.
    pub(super) fn check(&self) -> Result<(), Unstable> {
        // Where nothing comes, nobody helps a lone event.
        let lone_and_stuck = self.arrivals == 0.0 && self.rate_at(1) == 0.0;
        let capacity = if lone_and_stuck { 0.0 } else { self.capacity() };
        if lone_and_stuck || self.slack() <= INDISTINGUISHABLE * self.capacity() {
            return Err(Unstable { arrivals: rate(self.arrivals), capacity: rate(capacity) });
        }
        Ok(())
    }

    /// The weight of state `n ≤ s` relative to the mode's.
    fn weight(&self, mode: u32, n: u32) -> f64 {
        let mut weight = 1.0;
        for k in n..mode {
            weight *= self.rate_at(k + 1) / self.arrivals;
            if weight == 0.0 {
                return 0.0;
            }
        }
        for k in mode..n {
            weight *= self.arrivals / self.rate_at(k + 1);
            if weight == 0.0 {
                return 0.0;
            }
        }
        weight
    }

    /// p(n); the chain must be stable.
    pub(super) fn probability(&self, balance: &Balance, n: u32) -> f64 {
        let below = n.min(self.servers);
        let geometric = (self.arrivals / self.capacity()).powf(f64::from(n - below));
        balance.mode_probability * self.weight(balance.mode, below) * geometric
    }

    /// The share of arrivals that find `s` events, where nothing can wait.
    pub(super) fn blocking(&self) -> f64 {
        self.balance_with_tail(0.0).blocking
    }

    /// The equilibrium; the chain must be stable.
    pub(super) fn balance(&self) -> Balance {
        // ρ ÷ (1 − ρ), without taking ρ from 1.
        self.balance_with_tail(self.arrivals / self.slack())
    }

    /// The equilibrium, if the states above `s` weigh `tail` times as much as `s`
    /// and are geometric: `s + 1 + tail` is their mean.
    fn balance_with_tail(&self, tail: f64) -> Balance {
        let s = self.servers;
        let floor = self.floor();
        let mode = self.mode(floor);

        let mut sums = Sums::default();
        sums.add(0.0, 1.0);
        let mut weight = 1.0;
        for n in (floor + 1..=mode).rev() {
            weight *= self.rate_at(n) / self.arrivals;
            if weight < NEGLIGIBLE {
                break;
            }
            sums.add(f64::from(n - 1) - f64::from(mode), weight);
        }
        let mut full = 1.0;
        for n in mode + 1..=s {
            full *= self.arrivals / self.rate_at(n);
            if full == 0.0 {
                break;
            }
            sums.add(f64::from(n) - f64::from(mode), full);
        }

        let above = full * tail;
        let distance = f64::from(s) - f64::from(mode);
        let first = distance + 1.0 + tail;
        let all = sums.weight + above;
        let mean = (sums.first + above * first) / all;
        let second = sums.second + above * (first * first + tail * (1.0 + tail));
        Balance {
            mode,
            mode_probability: 1.0 / all,
            waiting: (full + above) / all,
            blocking: full / sums.weight,
            busy_mean: f64::from(mode) + (sums.first + above * distance) / all,
            queued_mean: above * (1.0 + tail) / all,
            variance: second / all - mean * mean,
        }
    }
}

/// Sums over states, by their distance from the mode.
#[derive(Default)]
struct Sums {
    weight: f64,
    first: f64,
    second: f64,
}

impl Sums {
    fn add(&mut self, distance: f64, weight: f64) {
        self.weight += weight;
        self.first += distance * weight;
        self.second += distance * distance * weight;
    }
}
