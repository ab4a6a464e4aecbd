//! The speed of concurrent work: how throughput depends on the number running.

/// How much work is done in a second, in workers at full speed, while `n` events run;
/// each of them gets an equal part. The speed of all changes the moment that one
/// begins or ends.
///
/// # Examples
/// ```
/// use tamarisk_model::sim::Speed;
///
/// assert_eq!(Speed::Full.total(3), 3.0);
/// assert_eq!(Speed::Cores(2.0).total(3), 2.0);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub enum Speed {
    /// Each runs at full speed.
    Full,
    /// Processor sharing: up to so many at full speed, more share it.
    Cores(f64),
    /// Cores that lose speed to contention: beyond `knee` running, the whole is
    /// `knee ÷ n` of what the cores could do.
    Contended {
        /// As in [`Speed::Cores`].
        cores: f64,
        /// From where on there is contention.
        knee: f64,
    },
    /// The thread penalty [Welsh02 eq. 4.10–4.12]: `max(0, min(n, α) − φ(m_t)/µ)`
    /// with `φ(m_t) = β·(m_t − m′)` where `m_t` exceeds `m′`. It is paid for threads
    /// that exist, whether they run or not.
    Threads {
        /// α: how many run at full speed.
        parallelism: f64,
        /// m_t: threads in the whole system.
        threads: u32,
        /// m′: up to so many cost nothing.
        free: u32,
        /// β/µ: what each further one costs, in workers.
        loss: f64,
    },
    /// Measured: with one, two, three … running. The last holds for more.
    Totals(Vec<f64>),
}

/// Why a [`Speed`] cannot be.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidSpeed {
    /// Negative, infinite or NaN, or zero where that stops everything.
    #[error("a speed of {0} is not a positive number")]
    Value(f64),
    /// An empty list.
    #[error("there is no speed in the list")]
    Empty,
    /// Even with all workers busy nothing moves.
    #[error("with {0} running nothing moves any more")]
    Standstill(u32),
}

impl Speed {
    /// What `running` events get done together.
    pub fn total(&self, running: u32) -> f64 {
        let n = f64::from(running);
        match self {
            Self::Full => n,
            Self::Cores(cores) => n.min(*cores),
            Self::Contended { cores, knee } => n.min(*cores) * (knee / n.max(1.0)).min(1.0),
            Self::Threads { parallelism, threads, free, loss } => {
                let penalty = loss * f64::from(threads.saturating_sub(*free));
                (n.min(*parallelism) - penalty).max(0.0)
            }
            Self::Totals(totals) => {
                let Some(last) = totals.len().checked_sub(1) else { return 0.0 };
                match (running as usize).checked_sub(1) {
                    Some(index) => totals[index.min(last)],
                    None => 0.0,
                }
            }
        }
    }

    /// What each of `running` gets; zero of none.
    #[inline]
    pub(in crate::sim) fn of_each(&self, running: u32) -> f64 {
        if running == 0 { 0.0 } else { self.total(running) / f64::from(running) }
    }

    /// Whether this may be the speed of something that runs up to `running` at once.
    pub(in crate::sim) fn check(&self, running: u32) -> Result<(), InvalidSpeed> {
        let positive = |value: f64| {
            if value.is_finite() && value > 0.0 { Ok(()) } else { Err(InvalidSpeed::Value(value)) }
        };
        match self {
            Self::Full => {}
            Self::Cores(cores) => positive(*cores)?,
            Self::Contended { cores, knee } => positive(*cores).and_then(|()| positive(*knee))?,
            Self::Threads { parallelism, loss, .. } => {
                positive(*parallelism)?;
                if !loss.is_finite() || *loss < 0.0 {
                    return Err(InvalidSpeed::Value(*loss));
                }
            }
            Self::Totals(totals) => {
                if totals.is_empty() {
                    return Err(InvalidSpeed::Empty);
                }
                totals.iter().copied().try_for_each(positive)?;
            }
        }
        if self.total(running) > 0.0 { Ok(()) } else { Err(InvalidSpeed::Standstill(running)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_thread_penalty_is_the_dissertations() {
        // [Welsh02 fig. 18]: µ = 0.05, α = 4, m′ = 15, β = 0.01: 20 threads lose
        // 5·0.01 = 0.05 a unit of time, one worker of four.
        let speed = Speed::Threads { parallelism: 4.0, threads: 20, free: 15, loss: 0.2 };
        assert_eq!(speed.total(1), 0.0);
        assert_eq!(speed.total(2), 1.0);
        assert_eq!(speed.total(20), 3.0);
    }

    #[test]
    fn contention_makes_more_running_do_less() {
        let speed = Speed::Contended { cores: 8.0, knee: 16.0 };
        assert_eq!([4, 8, 16, 32].map(|n| speed.total(n)), [4.0, 8.0, 8.0, 4.0]);
    }

    #[test]
    fn a_list_goes_on_with_its_last() {
        let speed = Speed::Totals(vec![1.0, 1.5]);
        assert_eq!([0, 1, 2, 9].map(|n| speed.total(n)), [0.0, 1.0, 1.5, 1.5]);
    }

    #[test]
    fn what_never_moves_is_rejected() {
        assert_eq!(Speed::Cores(0.0).check(1), Err(InvalidSpeed::Value(0.0)));
        assert_eq!(Speed::Totals(vec![]).check(1), Err(InvalidSpeed::Empty));
        assert!(Speed::Contended { cores: 1.0, knee: f64::NAN }.check(1).is_err());
        let drowned = Speed::Threads { parallelism: 4.0, threads: 99, free: 1, loss: 1.0 };
        assert_eq!(drowned.check(8), Err(InvalidSpeed::Standstill(8)));
    }
}
