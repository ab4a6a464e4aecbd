//! A seeded generator for laws that draw lots. For laws of one's own, too.
//!
//! Some published laws reject a share of events, or take a step, at random. Here each draws from a
//! sequence of its own whose seed is one of its constants, so that the same observations give the
//! same decisions, live and in simulation.

/// An endless sequence (SplitMix64), the same for the same seed.
#[derive(Clone, Debug)]
pub struct Seeded(u64);

/// 2⁶⁴ ÷ the golden ratio, odd: its multiples meet every number once.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl Seeded {
    /// The sequence of this seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix(self.0)
    }

    /// The next number as one in `0.0..1.0`.
    pub fn uniform(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// The next number as one from zero to `most`, each as likely as the others (to one part in
    /// four thousand million).
    pub fn up_to(&mut self, most: u32) -> u32 {
        let range = u64::from(most) + 1;
        // The upper half of 32 random bits times the range.
        (((self.draw() >> 32) * range) >> 32) as u32
    }
}

/// Spreads neighbouring numbers over the whole range, one to one.
pub const fn mix(number: u64) -> u64 {
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
        let mut seeded = Seeded::new(0);
        assert_eq!(seeded.draw(), 0xE220_A839_7B1D_CDAF);
        assert_eq!(seeded.draw(), 0x6E78_9E6A_A1B9_65F4);
    }

    #[test]
    fn uniform_numbers_fill_the_unit_evenly() {
        let mut seeded = Seeded::new(1);
        let below = (0..10_000).filter(|_| seeded.uniform() < 0.25).count();
        assert!((2350..2650).contains(&below), "{below} of 10000 below a quarter");
    }

    #[test]
    fn every_number_of_the_range_comes_about_equally_often() {
        let mut seeded = Seeded::new(1);
        let mut counts = [0_u32; 5];
        (0..10_000).for_each(|_| counts[seeded.up_to(4) as usize] += 1);
        assert!(counts.iter().all(|count| (1850..2150).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_range_of_one_has_one_number() {
        let mut seeded = Seeded::new(7);
        assert!((0..100).all(|_| seeded.up_to(0) == 0));
    }
}
