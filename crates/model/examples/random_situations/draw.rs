//! Random numbers of one situation.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// What one situation is drawn from: the same numbers for the same family, seed and situation.
pub(crate) struct Draw(StdRng);

impl Draw {
    /// For situation `number` under `seed` of the family that stands at `family` in the list.
    pub(crate) fn new(family: usize, seed: u64, number: u64) -> Self {
        let mut state = [0; 32];
        state[..8].copy_from_slice(&seed.to_le_bytes());
        state[8..16].copy_from_slice(&number.to_le_bytes());
        state[16..24].copy_from_slice(&(family as u64).to_le_bytes());
        Self(StdRng::from_seed(state))
    }

    pub(crate) fn between(&mut self, least: f64, most: f64) -> f64 {
        self.0.random_range(least..most)
    }

    /// Log-uniform: a doubling is as likely at any size.
    pub(crate) fn log_between(&mut self, least: f64, most: f64) -> f64 {
        self.between(least.ln(), most.ln()).exp()
    }

    pub(crate) fn below(&mut self, count: u32) -> u32 {
        self.0.random_range(0..count)
    }

    /// Chooses `chosen` of `count`, each as likely as the others: for each, whether it is chosen.
    pub(crate) fn some(&mut self, chosen: u32, count: u32) -> Vec<bool> {
        let mut left = chosen;
        (0..count)
            .map(|index| {
                let is_chosen = self.below(count - index) < left;
                left -= u32::from(is_chosen);
                is_chosen
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_situation_is_drawn_the_same_again_and_differs_from_others() {
        let first = |family, seed, number| Draw::new(family, seed, number).between(0.0, 1.0);
        assert_eq!(first(1, 2, 3), first(1, 2, 3));
        let all = [first(1, 2, 3), first(0, 2, 3), first(1, 0, 3), first(1, 2, 0)];
        for (place, one) in all.iter().enumerate() {
            assert!(!all[..place].contains(one), "{all:?}");
        }
    }

    #[test]
    fn as_many_are_chosen_as_stated() {
        let mut draw = Draw::new(0, 1, 0);
        for count in 1..13 {
            for chosen in 0..=count {
                let some = draw.some(chosen, count);
                assert_eq!(some.len(), count as usize);
                assert_eq!(some.iter().filter(|it| **it).count(), chosen as usize);
            }
        }
    }
}
