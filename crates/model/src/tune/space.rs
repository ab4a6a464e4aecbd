//! The search space: the constants of a law, each as a number from 0 to 1.

use tamarisk_laws::Knob;

/// One number from 0 to 1 for each constant.
pub type Point = Vec<f64>;

/// A range with a greatest value of so many times the least is searched by its logarithm.
const WIDE: f64 = 50.0;

/// The constants that a search changes.
#[derive(Clone, Debug)]
pub struct Space {
    axes: Vec<Axis>,
}

#[derive(Clone, Debug)]
struct Axis {
    knob: Knob,
    /// Added before the logarithm is taken, so that a range may begin at zero.
    shift: f64,
    logarithmic: bool,
    whole: bool,
}

impl Axis {
    fn new(knob: &Knob) -> Self {
        let shift = if knob.least == 0.0 { knob.greatest.min(1.0) / 100.0 } else { 0.0 };
        let logarithmic = knob.least >= 0.0 && knob.greatest / (knob.least + shift) >= WIDE;
        // By its unit it is a number of things.
        Self { knob: *knob, shift, logarithmic, whole: knob.name.ends_with("_count") }
    }

    fn ends(&self) -> (f64, f64) {
        let Knob { least, greatest, .. } = self.knob;
        match self.logarithmic {
            true => ((least + self.shift).ln(), (greatest + self.shift).ln()),
            false => (least, greatest),
        }
    }

    fn value(&self, at: f64) -> f64 {
        let (from, to) = self.ends();
        let value = from + (to - from) * at.clamp(0.0, 1.0);
        let value = if self.logarithmic { value.exp() - self.shift } else { value };
        let value = if self.whole { value.round() } else { four_digits(value) };
        value.clamp(self.knob.least, self.knob.greatest)
    }

    fn place(&self, value: f64) -> f64 {
        let (from, to) = self.ends();
        let value = if self.logarithmic { (value + self.shift).ln() } else { value };
        ((value - from) / (to - from)).clamp(0.0, 1.0)
    }
}

/// More digits than this would claim to know too much.
fn four_digits(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

impl Space {
    /// That of `knobs`.
    pub fn new<'a>(knobs: impl IntoIterator<Item = &'a Knob>) -> Self {
        Self { axes: knobs.into_iter().map(Axis::new).collect() }
    }

    /// How many constants there are.
    pub fn dimensions(&self) -> usize {
        self.axes.len()
    }

    /// The constants at `point`, rounded to what one would write.
    pub fn values(&self, point: &[f64]) -> Vec<(&'static str, f64)> {
        let axes = self.axes.iter().zip(point);
        axes.map(|(axis, at)| (axis.knob.name, axis.value(*at))).collect()
    }

    /// Where the constants are those that `value` says.
    pub fn point(&self, value: impl Fn(&Knob) -> f64) -> Point {
        self.axes.iter().map(|axis| axis.place(value(&axis.knob))).collect()
    }
}

#[cfg(test)]
mod tests {
    use tamarisk_catalogue::ADMISSION;

    use super::*;

    #[test]
    fn every_constant_of_every_law_comes_back() {
        for entry in ADMISSION {
            let space = Space::new(entry.knobs);
            let values = space.values(&space.point(|knob| knob.default));
            for (knob, (name, value)) in entry.knobs.iter().zip(values) {
                let close = (value - knob.default).abs() <= 1e-3 * knob.default.abs() + 1e-9;
                assert!(close, "{name}: {value} for {}", knob.default);
            }
            for at in [0.0, 0.3, 1.0] {
                let values = space.values(&vec![at; space.dimensions()]);
                for (knob, (_, value)) in entry.knobs.iter().zip(values) {
                    assert!((knob.least..=knob.greatest).contains(&value), "{knob:?} {value}");
                }
            }
        }
    }
}
