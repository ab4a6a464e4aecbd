//! A seeded pseudo-random generator, so that laws which draw numbers repeat their decisions.

/// The generator known as SplitMix64: one addition and three mixing steps.
#[derive(Clone, Debug)]
pub(crate) struct Seeded(u64);

impl Seeded {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number from zero to `most`, each as likely as the others (to one part in
    /// four thousand million).
    pub(crate) fn up_to(&mut self, most: u32) -> u32 {
        let range = u64::from(most) + 1;
        // The upper half of 32 random bits times the range.
        (((self.next() >> 32) * range) >> 32) as u32
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_the_range_comes_about_equally_often() {
        let mut seeded = Seeded::new(1);
        let mut counts = [0_u32; 5];
        (0..10_000).for_each(|_| counts[seeded.up_to(4) as usize] += 1);
        assert!(counts.iter().all(|count| (1850..2150).contains(count)), "{counts:?}");
    }

    #[test]
    fn the_first_number_is_the_published_one() {
        // The reference implementation's first output for a state of zero.
        assert_eq!(Seeded::new(0).next(), 0xE220_A839_7B1D_CDAF);
    }

    #[test]
    fn a_range_of_one_has_one_number() {
        let mut seeded = Seeded::new(7);
        assert!((0..100).all(|_| seeded.up_to(0) == 0));
    }
}
