//! The time series as comma-separated values.

use std::io::{self, Write};

use super::Interval;

const HEAD: &str = "start_seconds,length_seconds,level,offered,completed,good,rejected,failed,in_flight,\
                    latency_p50_seconds,latency_p90_seconds,latency_p99_seconds,latency_max_seconds,\
                    rejection_p90_seconds,generator_lag_p99_seconds";

/// One row an interval. A latency of which there is no sample is left empty.
pub(super) fn write(series: &[Interval], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "{HEAD}")?;
    for row in series {
        let Interval { start, seconds, level, offered, completed, good, .. } = row;
        let Interval { rejected, failed, in_flight, latency, rejection, generator_lag, .. } = row;
        write!(out, "{start:.3},{seconds:.3},{level},{offered},{completed},{good},")?;
        write!(out, "{rejected},{failed},{in_flight}")?;
        let quantiles = [
            (latency.count, latency.p50),
            (latency.count, latency.p90),
            (latency.count, latency.p99),
            (latency.count, latency.max),
            (rejection.count, rejection.p90),
            (generator_lag.count, generator_lag.p99),
        ];
        for (count, value) in quantiles {
            match count {
                0 => write!(out, ",")?,
                _ => write!(out, ",{value:.6}")?,
            }
        }
        writeln!(out)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Percentiles;

    #[test]
    fn a_row_has_a_field_for_each_name_and_leaves_unknown_latencies_empty() {
        let latency = Percentiles { count: 9, p90: 0.25, ..Percentiles::default() };
        let row = Interval {
            start: 1.0,
            seconds: 1.0,
            level: 3.0,
            offered: 12,
            completed: 9,
            good: 8,
            rejected: 2,
            failed: 1,
            in_flight: 3,
            latency,
            rejection: Percentiles::default(),
            generator_lag: Percentiles::default(),
            classes: vec![],
        };
        let mut out = vec![];
        write(&[row], &mut out).unwrap();
        let out = String::from_utf8(out).unwrap();
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(lines[0].split(',').count(), lines[1].split(',').count());
        assert_eq!(lines[1], "1.000,1.000,3,12,9,8,2,1,3,0.000000,0.250000,0.000000,0.000000,,");
    }
}
