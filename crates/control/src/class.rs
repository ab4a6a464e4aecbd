//! Classes of events: what each is promised, and which goes first.

use std::time::Duration;

use crate::{OutOfRange, Percentile, Ratio};

/// How many classes a stage may tell apart. Accounts, histograms and a law's
/// estimates are kept for each, so the bound keeps a stage within a few megabytes.
pub const CLASSES_MAX: usize = 64;

/// Which class an event belongs to: an index into the stage's [`Classes`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
// A word wide: a byte between wider fields makes compilers copy events in pieces
// that overlap, and each such copy waits for the stores before it.
pub struct ClassId(u32);

impl ClassId {
    /// The first class, the only one of a stage that tells none apart.
    pub const DEFAULT: Self = Self(0);

    /// The class at `index`.
    ///
    /// # Panics
    /// If `index` is not below [`CLASSES_MAX`].
    pub const fn new(index: usize) -> Self {
        assert!(index < CLASSES_MAX, "class index out of bounds");
        Self(index as u32)
    }

    /// The position in the stage's [`Classes`].
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Who goes first: `0` before `1` before `2`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(pub u8);

/// The shortest target. An event that crosses to another thread takes about as long, so that less
/// cannot be promised of any stage with a queue: it is a slip, `1ns` for `1ms`.
const SHORTEST: Duration = Duration::from_micros(10);

/// A response-time target: the `percentile` of the response times of admitted
/// events is to be at most `response_time`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Target {
    percentile: Ratio,
    response_time: Duration,
}

impl Target {
    /// The 90th percentile, as the papers use [Welsh03 §3.1].
    ///
    /// # Errors
    /// As for [`Target::percentile`].
    pub fn p90(response_time: Duration) -> Result<Self, InvalidTarget> {
        Self::percentile(Ratio::saturating(0.9), response_time)
    }

    /// Any percentile strictly between 0 and 1.
    ///
    /// # Errors
    /// [`InvalidTarget`] if `response_time` is shorter than 10 µs or longer than a day, or
    /// the percentile is 0 or 1 (no sample can show that the most extreme of
    /// all events keeps a promise).
    pub fn percentile(percentile: Ratio, response_time: Duration) -> Result<Self, InvalidTarget> {
        const DAY: Duration = Duration::from_secs(24 * 3600);
        if !(SHORTEST..=DAY).contains(&response_time) {
            return Err(InvalidTarget::ResponseTime(response_time));
        }
        if percentile <= Ratio::ZERO || percentile >= Ratio::ONE {
            return Err(InvalidTarget::Percentile(percentile.get()));
        }
        Ok(Self { percentile, response_time })
    }

    /// Which percentile is promised, as a ratio: 0.9 for the p90.
    #[inline]
    pub fn at(&self) -> Ratio {
        self.percentile
    }

    /// The longest response time that keeps the promise.
    #[inline]
    pub fn response_time(&self) -> Duration {
        self.response_time
    }
}

impl std::fmt::Display for Target {
    /// As in `p90 200 ms`, or in `p90 ≤ 200 ms` (`{:#}`).
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let time = format!("{:?}", self.response_time);
        let unit = time.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(time.len());
        let bound = if f.alternate() { "≤ " } else { "" };
        write!(f, "{} {bound}{} {}", Percentile(self.percentile), &time[..unit], &time[unit..])
    }
}

/// Why a [`Target`] cannot be.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum InvalidTarget {
    /// Shorter than 10 µs, or longer than a day.
    #[error("a response-time target of {0:?} is not between 10µs and 24h")]
    ResponseTime(Duration),
    /// Not strictly between 0 and 1.
    #[error("a percentile of {0} is not strictly between 0 and 1")]
    Percentile(f64),
    /// Not a ratio at all.
    #[error(transparent)]
    OutOfRange(#[from] OutOfRange),
}

/// One class: its name, its promise, its place in line.
#[derive(Clone, Debug, PartialEq)]
pub struct Class {
    /// What the operator calls it; shown on status pages and in metrics.
    pub name: String,
    /// What its events are promised.
    pub target: Target,
    /// Who goes first when not all can.
    pub priority: Priority,
}

/// How large a share of the capacity a class has among those of its priority, in
/// proportion to their weights, when not all can be served: from 1 to 100.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Weight(u8);

impl Weight {
    /// The weight of a class that states none where others of its priority do.
    pub const ONE: Self = Self(1);

    /// A larger one would leave the others less than can be told from nothing.
    pub const MAX: Self = Self(100);

    /// A weight from 1 to 100.
    ///
    /// # Errors
    /// [`InvalidWeight`] if it is not.
    pub const fn new(weight: u8) -> Result<Self, InvalidWeight> {
        if weight == 0 || weight > Self::MAX.0 {
            return Err(InvalidWeight(weight));
        }
        Ok(Self(weight))
    }

    /// As a number.
    #[inline]
    pub const fn get(self) -> u8 {
        self.0
    }
}

/// Why a [`Weight`] cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a weight of {0} is not between 1 and {max}", max = Weight::MAX.get())]
pub struct InvalidWeight(u8);

/// The classes of a stage, at least one and at most [`CLASSES_MAX`].
#[derive(Clone, Debug, PartialEq)]
pub struct Classes {
    list: Vec<Class>,
    /// Of those that have one.
    weights: Vec<(ClassId, Weight)>,
}

impl Classes {
    /// One class named `default` for all events.
    pub fn single(target: Target) -> Self {
        let class = Class { name: "default".to_owned(), target, priority: Priority::default() };
        Self { list: vec![class], weights: Vec::new() }
    }

    /// Several classes, known by their position.
    ///
    /// # Errors
    /// [`InvalidClasses`] if there is none, more than [`CLASSES_MAX`], or two
    /// of one name.
    pub fn new(classes: Vec<Class>) -> Result<Self, InvalidClasses> {
        if classes.is_empty() || classes.len() > CLASSES_MAX {
            return Err(InvalidClasses::Count(classes.len()));
        }
        for (index, class) in classes.iter().enumerate() {
            if classes[..index].iter().any(|earlier| earlier.name == class.name) {
                return Err(InvalidClasses::Duplicate(class.name.clone()));
            }
        }
        Ok(Self { list: classes, weights: Vec::new() })
    }

    /// With a weight for the class `id`; none for a class that there is not. Classes of one
    /// priority share the capacity by their weights when not all can be served, as far as the
    /// stage's law knows of weights; where none of them has one they are served as they come.
    #[must_use]
    pub fn weighted(mut self, id: ClassId, weight: Weight) -> Self {
        if id.index() < self.list.len() {
            self.weights.retain(|(other, _)| *other != id);
            self.weights.push((id, weight));
        }
        self
    }

    /// The weight of the class `id`, if it has one.
    pub fn weight(&self, id: ClassId) -> Option<Weight> {
        self.weights.iter().find(|(other, _)| *other == id).map(|(_, weight)| *weight)
    }

    /// How many there are.
    #[allow(clippy::len_without_is_empty, reason = "there is always at least one class")]
    pub fn len(&self) -> usize {
        self.list.len()
    }

    /// The class `id`; the first one if a stage has no such class, so that a
    /// mistaken tag cannot take the stage down.
    #[inline]
    pub fn at(&self, id: ClassId) -> &Class {
        self.list.get(id.index()).unwrap_or(&self.list[0])
    }

    /// The class of this name.
    pub fn named(&self, name: &str) -> Option<ClassId> {
        self.iter().find_map(|(id, class)| (class.name == name).then_some(id))
    }

    /// Promises the class `id` something else; a class that there is not stays so.
    pub fn set_target(&mut self, id: ClassId, target: Target) {
        if let Some(class) = self.list.get_mut(id.index()) {
            class.target = target;
        }
    }

    /// The targets of all classes, in order.
    pub fn targets(&self) -> impl Iterator<Item = Target> {
        self.list.iter().map(|class| class.target)
    }

    /// The least response time of any target.
    pub fn strictest(&self) -> Duration {
        self.targets().map(|target| target.response_time()).min().expect("there is a class")
    }

    /// The greatest response time of any target.
    pub fn longest(&self) -> Duration {
        self.targets().map(|target| target.response_time()).max().expect("there is a class")
    }

    /// `id` if the stage has it, else the default class.
    #[inline]
    pub fn resolve(&self, id: ClassId) -> ClassId {
        if id.index() < self.list.len() { id } else { ClassId::DEFAULT }
    }

    /// All of them with their ids, in order.
    pub fn iter(&self) -> impl Iterator<Item = (ClassId, &Class)> {
        self.list.iter().enumerate().map(|(index, class)| (ClassId::new(index), class))
    }
}

/// Why a list of classes cannot serve.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidClasses {
    /// None, or too many.
    #[error("a stage has between 1 and {CLASSES_MAX} classes, not {0}")]
    Count(usize),
    /// One name stands for two classes.
    #[error("two classes are named {0:?}")]
    Duplicate(String),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_written_for_people() {
        let target = |percentile, ms| {
            let percentile = Ratio::new(percentile).unwrap();
            Target::percentile(percentile, Duration::from_millis(ms)).unwrap().to_string()
        };
        assert_eq!(target(0.9, 200), "p90 200 ms");
        assert_eq!(format!("{:#}", super::tests::target()), "p90 ≤ 200 ms");
        assert_eq!(target(0.999, 1500), "p99.9 1.5 s");
        assert_eq!(target(0.57, 60_000), "p57 60 s");
        assert_eq!(target(0.999_99, 200), "p99.999 200 ms");
    }

    fn target() -> Target {
        Target::p90(Duration::from_millis(200)).unwrap()
    }

    #[test]
    fn a_target_of_zero_is_rejected() {
        assert!(Target::p90(Duration::ZERO).is_err());
        assert!(Target::p90(Duration::from_nanos(9_999)).is_err());
        assert!(Target::p90(Duration::from_micros(10)).is_ok());
    }

    #[test]
    fn the_hundredth_percentile_is_rejected() {
        assert!(Target::percentile(Ratio::ONE, Duration::from_secs(1)).is_err());
    }

    #[test]
    fn an_unknown_class_counts_as_the_default_one() {
        let classes = Classes::single(target());
        assert_eq!(classes.resolve(ClassId::new(7)), ClassId::DEFAULT);
        assert_eq!(classes.at(ClassId::new(7)).name, "default");
    }

    #[test]
    fn a_weight_is_kept_with_its_class() {
        let (class, other) = (ClassId::DEFAULT, ClassId::new(1));
        let weight = |weight| Weight::new(weight).unwrap();
        let classes = Classes::single(target()).weighted(class, weight(2));
        let classes = classes.weighted(class, weight(3));
        assert_eq!((classes.weight(class), classes.weight(other)), (Some(weight(3)), None));
        let classes = classes.weighted(other, weight(9));
        assert_eq!((classes.weight(class), classes.weight(other)), (Some(weight(3)), None));
        assert_eq!(Weight::new(0), Err(InvalidWeight(0)));
        assert_eq!(Weight::new(101), Err(InvalidWeight(101)));
    }

    #[test]
    fn two_classes_of_one_name_are_rejected() {
        let class = Class { name: "gold".into(), target: target(), priority: Priority(0) };
        assert_eq!(
            Classes::new(vec![class.clone(), class]),
            Err(InvalidClasses::Duplicate("gold".into()))
        );
    }
}
