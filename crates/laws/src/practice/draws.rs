//! A seeded generator for laws that reject a share of events at random.
//!
//! Some published laws draw lots. Here each draws from a sequence of its own whose
//! seed is one of its constants, so that the same observations give the same
//! decisions, live and in simulation.

/// An endless sequence (SplitMix64), the same for the same seed.
#[derive(Clone, Debug)]
pub(super) struct Draws(u64);

/// 2⁶⁴ ÷ the golden ratio, odd: its multiples meet every number once.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl Draws {
    pub(super) const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// The next number as one in `0.0..1.0`.
    pub(super) fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Spreads neighbouring numbers over the whole range, one to one.
pub(super) const fn mix(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    number ^ (number >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_known_one() {
        // The first outputs of SplitMix64 for the seed 0, as its users publish them.
        let mut draws = Draws::new(0);
        assert_eq!(draws.next(), 0xE220_A839_7B1D_CDAF);
        assert_eq!(draws.next(), 0x6E78_9E6A_A1B9_65F4);
    }

    #[test]
    fn uniform_numbers_fill_the_unit_evenly() {
        let mut draws = Draws::new(1);
        let below = (0..10_000).filter(|_| draws.uniform() < 0.25).count();
        assert!((2350..2650).contains(&below), "{below} of 10000 below a quarter");
    }
}
