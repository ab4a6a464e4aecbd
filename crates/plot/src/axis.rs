//! Axes: where a value lies between the two ends, and which values are labelled.

use crate::format;

/// How values are spread over an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Evenly; a value axis begins at zero.
    Linear,
    /// By their logarithm; a value axis begins at the decade of the least.
    Log,
}

/// What the values of an axis are, which decides how they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Plain numbers: requests, users, rates.
    Count,
    /// Durations in seconds.
    Seconds,
}

/// An axis for a set of values.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    scale: Scale,
    unit: Unit,
    bottom: f64,
    top: f64,
    /// The labelled values, rising.
    pub(super) ticks: Vec<f64>,
}

impl Axis {
    /// An axis on which all finite `values` have a place.
    pub(super) fn new(scale: Scale, unit: Unit, values: impl Iterator<Item = f64>) -> Self {
        let values = values.filter(|value| value.is_finite());
        match scale {
            Scale::Linear => Self::linear(unit, values.fold(0.0, f64::max)),
            Scale::Log => {
                let positive = values.filter(|value| *value > 0.0);
                let (least, greatest) = positive
                    .fold((f64::INFINITY, 0.0_f64), |(low, high), v| (low.min(v), high.max(v)));
                match least.is_finite() {
                    true => Self::log(unit, least, greatest),
                    false => Self::log(unit, 1.0, 1.0),
                }
            }
        }
    }

    /// Where `value` lies: 0 at the bottom, 1 at the top, cut at both.
    pub(super) fn position(&self, value: f64) -> f64 {
        let position = match self.scale {
            Scale::Linear => (value - self.bottom) / (self.top - self.bottom),
            Scale::Log => {
                (value.max(self.bottom) / self.bottom).ln() / (self.top / self.bottom).ln()
            }
        };
        position.clamp(0.0, 1.0)
    }

    /// An axis with these ends; at least two of its values are labelled.
    pub(super) fn between(scale: Scale, unit: Unit, from: f64, to: f64) -> Self {
        let to = if to > from { to } else { from + 1.0 };
        let ticks = match scale {
            Scale::Linear => {
                let step = round_step((to - from) / 12.0);
                let first = (from / step - 1e-9).ceil();
                let count = (to / step + 1e-9).floor() - first;
                (0..=count as usize).map(|n| (first + n as f64) * step).collect()
            }
            Scale::Log => {
                let (low, high) = (from.log10().floor() as i32, to.log10().ceil() as i32);
                let decades = high - low;
                let mantissas: &[f64] = if decades > 3 { &[1.0] } else { &[1.0, 2.0, 5.0] };
                let within = |value: &f64| (from * 0.999..=to * 1.001).contains(value);
                let decade = |exponent| mantissas.iter().map(move |m| m * 10f64.powi(exponent));
                (low..=high).flat_map(decade).filter(within).collect()
            }
        };
        Self { scale, unit, bottom: from, top: to, ticks }
    }

    /// How `value` is written beside the axis.
    pub(super) fn label(&self, value: f64) -> String {
        match self.unit {
            Unit::Seconds => format::seconds(value),
            Unit::Count => format::rate(value),
        }
    }

    fn linear(unit: Unit, greatest: f64) -> Self {
        let greatest = if greatest > 0.0 { greatest } else { 1.0 };
        let step = round_step(greatest / 5.0);
        let count = (greatest / step).ceil();
        let ticks = (0..=count as usize).map(|n| n as f64 * step).collect();
        Self { scale: Scale::Linear, unit, bottom: 0.0, top: count * step, ticks }
    }

    fn log(unit: Unit, least: f64, greatest: f64) -> Self {
        let low = least.log10().floor() as i32;
        let high = (greatest.log10().ceil() as i32).max(low + 1);
        Self {
            scale: Scale::Log,
            unit,
            bottom: 10f64.powi(low),
            top: 10f64.powi(high),
            ticks: (low..=high).map(|exponent| 10f64.powi(exponent)).collect(),
        }
    }
}

/// The least of 1, 2 and 5 times a power of ten that is at least `step`.
pub(super) fn round_step(step: f64) -> f64 {
    let power = 10f64.powf(step.log10().floor());
    let mantissas = [1.0, 2.0, 5.0];
    let mantissa = mantissas.into_iter().find(|m| m * power >= step * (1.0 - 1e-9));
    mantissa.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ticks(scale: Scale, values: &[f64]) -> Vec<f64> {
        Axis::new(scale, Unit::Count, values.iter().copied()).ticks
    }

    #[test]
    fn linear_ticks_are_round_and_cover_all_values() {
        assert_eq!(ticks(Scale::Linear, &[3.0, 390.0]), [0.0, 100.0, 200.0, 300.0, 400.0]);
        assert_eq!(ticks(Scale::Linear, &[100.5]), [0.0, 50.0, 100.0, 150.0]);
        assert_eq!(ticks(Scale::Linear, &[]).len(), 6, "0 to 1 in fifths");
    }

    #[test]
    fn ticks_of_small_values_have_labels_of_their_own() {
        let axis = Axis::new(Scale::Linear, Unit::Count, [0.008].into_iter());
        let labels: Vec<_> = axis.ticks.iter().map(|&tick| axis.label(tick)).collect();
        assert_eq!(labels, ["0", "0.002", "0.004", "0.006", "0.008"]);
        let axis = Axis::new(Scale::Log, Unit::Count, [0.002, 0.5].into_iter());
        let labels: Vec<_> = axis.ticks.iter().map(|&tick| axis.label(tick)).collect();
        assert_eq!(labels, ["0.001", "0.01", "0.1", "1"]);
    }

    #[test]
    fn log_ticks_are_decades_and_cover_all_values() {
        assert_eq!(ticks(Scale::Log, &[20.0, 3000.0]), [10.0, 100.0, 1000.0, 10_000.0]);
        assert_eq!(ticks(Scale::Log, &[100.0, 100.0]), [100.0, 1000.0]);
        assert_eq!(ticks(Scale::Log, &[0.0]), [1.0, 10.0], "zero has no logarithm");
    }

    #[test]
    fn a_value_lies_where_its_scale_says() {
        let linear = Axis::new(Scale::Linear, Unit::Count, [400.0].into_iter());
        assert_eq!(linear.position(100.0), 0.25);
        let log = Axis::new(Scale::Log, Unit::Count, [1.0, 100.0].into_iter());
        assert_eq!(log.position(10.0), 0.5);
        assert_eq!(log.position(0.0), 0.0);
        assert_eq!(log.position(1e9), 1.0);
    }
}
