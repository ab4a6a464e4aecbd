//! Jain's fairness index: how evenly users were served.

/// The fairness index of `shares`, in `1/n ..= 1`: 1 if all of the `n` users
/// received the same, `k/n` if `k` of them received equal shares and the others
/// nothing. `None` if nobody received anything.
///
/// f(x) = (Σ xᵢ)² ÷ (n · Σ xᵢ²) [Welsh02 §6.1.4].
pub fn fairness_index(shares: &[u32]) -> Option<f64> {
    let sum: f64 = shares.iter().map(|&x| f64::from(x)).sum();
    let squares: f64 = shares.iter().map(|&x| f64::from(x).powi(2)).sum();
    (squares > 0.0).then(|| sum * sum / (shares.len() as f64 * squares))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn equal_shares_are_perfectly_fair() {
        assert_eq!(fairness_index(&[7; 10]), Some(1.0));
    }

    #[test]
    fn k_of_n_served_equally_gives_k_over_n() {
        assert_eq!(fairness_index(&[5, 5, 5, 0, 0, 0, 0, 0, 0, 0]), Some(0.3));
    }

    #[test]
    fn nobody_served_has_no_fairness() {
        assert_eq!(fairness_index(&[]), None);
        assert_eq!(fairness_index(&[0, 0]), None);
    }

    proptest! {
        #[test]
        fn lies_between_one_user_served_and_all_alike(
            shares in proptest::collection::vec(0u32.., 1..50),
        ) {
            let least = 1.0 / shares.len() as f64;
            if let Some(index) = fairness_index(&shares) {
                prop_assert!((least - 1e-12..=1.0 + 1e-12).contains(&index));
            }
        }

        #[test]
        fn does_not_depend_on_the_unit(shares in proptest::collection::vec(0u32..1000, 1..50)) {
            let tenfold: Vec<u32> = shares.iter().map(|x| x * 10).collect();
            match (fairness_index(&shares), fairness_index(&tenfold)) {
                (Some(a), Some(b)) => prop_assert!((a - b).abs() < 1e-12),
                (a, b) => prop_assert_eq!(a, b),
            }
        }
    }
}
