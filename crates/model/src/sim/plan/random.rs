//! Streams of pseudo-random numbers, one for each source and each request.
//!
//! Whether a law lets one request in must not change what the next one asks for:
//! otherwise two laws compared on one seed meet different workloads, and the
//! difference drowns in noise. So no stage and no law shares a stream. Each
//! client draws when its requests come, and each request carries a stream of its
//! own, from which all its service times and routes come, in the order of its
//! visits. Request number 1000 is the same request under every law.

use std::convert::Infallible;

use rand::{Rng, TryRng};

/// SplitMix64, of Steele14: one word of state, so that a request can carry it;
/// the same numbers on every machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sim) struct Stream(u64);

/// 2⁶⁴ divided by the golden ratio, made odd.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

impl Stream {
    /// The stream that goes on from `state`.
    #[inline]
    pub(in crate::sim) const fn from_state(state: u64) -> Self {
        Self(state)
    }

    /// The stream number `index` of those that `seed` stands for.
    pub(in crate::sim) const fn derived(seed: u64, index: u64) -> Self {
        Self(mix(mix(seed.wrapping_add(GAMMA)) ^ mix(index.wrapping_mul(GAMMA).wrapping_add(1))))
    }

    #[inline]
    pub(in crate::sim) const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GAMMA);
        mix(self.0)
    }

    /// Uniform in `0.0..1.0`.
    #[inline]
    pub(in crate::sim) const fn uniform(&mut self) -> f64 {
        (self.next() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// Uniform in `0..count`, which must not be zero. The bias of the
    /// multiplication is below 2⁻³² for any count that fits.
    #[inline]
    pub(in crate::sim) const fn below(&mut self, count: u32) -> u32 {
        (((self.next() >> 32) * count as u64) >> 32) as u32
    }
}

#[inline]
const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl TryRng for Stream {
    type Error = Infallible;

    #[inline]
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok((self.next() >> 32) as u32)
    }

    #[inline]
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.next())
    }

    fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), Infallible> {
        for chunk in bytes.chunks_mut(8) {
            let word = self.next_u64().to_le_bytes();
            chunk.copy_from_slice(&word[..chunk.len()]);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_are_those_of_the_published_generator() {
        // The first outputs for the seed 1234567, as Rosetta Code and others list them.
        let mut stream = Stream::from_state(1_234_567);
        let first = [stream.next(), stream.next(), stream.next()];
        assert_eq!(
            first,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn derived_streams_differ_by_seed_and_by_index() {
        let states = [(1, 0), (1, 1), (2, 0), (2, 1), (0, 0)]
            .map(|(seed, index)| Stream::derived(seed, index));
        for (index, state) in states.iter().enumerate() {
            assert!(!states[..index].contains(state), "{states:?}");
        }
    }

    #[test]
    fn a_uniform_number_stays_below_one_and_its_mean_is_a_half() {
        let mut stream = Stream::derived(7, 0);
        let mut sum = 0.0;
        for _ in 0..100_000 {
            let number = stream.uniform();
            assert!((0.0..1.0).contains(&number));
            sum += number;
        }
        // The standard error is sqrt(1/12 / 100 000) = 0.0009.
        assert!((sum / 100_000.0 - 0.5).abs() < 0.004, "{sum}");
    }
}
