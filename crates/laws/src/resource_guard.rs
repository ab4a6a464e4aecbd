//! The resource guard: rejects arrivals, the lowest class first, while memory, descriptors or CPU
//! are used above a bound.
//!
//! **Intuition.** Admission by response time sees a resource only when it has run out: a stage that
//! fills the memory is fast until the machine swaps, and one that opens a descriptor for each event
//! is fast until none is left. Whoever knows which resource a stage uses can say so, and have that
//! stage do less, and no other [Welsh02 §8.2.2].
//!
//! **Mechanism.** At each reading, the use of every bounded resource is compared with its bound:
//! ```text
//! any use ≥ bound                       one priority more is rejected, the lowest first
//! all use < 0.9 · bound                 one priority fewer
//! otherwise, ten readings in a row      one priority fewer
//! ```
//! In the band between the two, classes come back slowly: a resource at its bound does not have
//! them admitted and rejected in turn, and one whose normal use is just below its bound does not
//! have them rejected for good. A resource that cannot be read says nothing, and is passed over; if
//! none can be read, that counts as the band.
//!
//! **What the thesis leaves open, and we chose.** It sends stages a signal, and leaves to them what
//! they do less of; here the stage rejects. Its steps are classes, because what is to go first is
//! known of them.
//!
//! **Limits.** The resources are those of the process or the machine, not of the stage: whoever
//! guards a stage says that it is this one that uses them. In the end the highest class is rejected
//! too, and while others hold the resource that helps nobody. So the stage asks the guard only while
//! it holds events itself: an idle stage admits.

use tamarisk_control::{ClassId, Classes, Priority, Ratio, Reading, Reason, Rejection, Usage};

/// A resource counts as free again below this share of its bound.
const FREE_BELOW: f64 = 0.9;

/// After so many readings in a row without a scarce resource, one priority is admitted again though
/// none is free: five seconds at two readings a second, long against the time in which a class that
/// comes back uses up what is left.
const BAND_STEPS: u32 = 10;

/// Above which use of a resource a stage is throttled; unbounded where nothing is set.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ResourceBounds(Usage);

/// Rejects the lower classes while a resource is scarce.
#[derive(Clone, Debug)]
pub struct ResourceGuard {
    bounds: ResourceBounds,
    /// The priorities that there are, the highest first.
    priorities: Box<[Priority]>,
    class_priorities: Box<[Priority]>,
    /// How many of them are rejected, from the end.
    rejected: usize,
    /// Readings in a row in the band below the bounds.
    in_band: u32,
    usage: Usage,
}

impl ResourceBounds {
    /// No bounds yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The share of the memory that may be in use: of the limit of the control group, or else of the
    /// machine.
    #[must_use]
    pub fn memory(mut self, bound: Ratio) -> Self {
        self.0.memory = Some(bound);
        self
    }

    /// The share of its descriptors that the process may have open.
    #[must_use]
    pub fn descriptors(mut self, bound: Ratio) -> Self {
        self.0.descriptors = Some(bound);
        self
    }

    /// The share of the machine's processor time that may be in use.
    #[must_use]
    pub fn cpu(mut self, bound: Ratio) -> Self {
        self.0.cpu = Some(bound);
        self
    }

    /// Whether nothing is bounded.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl ResourceGuard {
    /// Of a stage with these classes; nothing is rejected until something is scarce.
    pub fn new(classes: &Classes, bounds: ResourceBounds) -> Self {
        let class_priorities: Box<[_]> = classes.iter().map(|(_, class)| class.priority).collect();
        let mut priorities = class_priorities.to_vec();
        priorities.sort_unstable();
        priorities.dedup();
        let usage = Usage::default();
        let priorities = priorities.into();
        Self { bounds, priorities, class_priorities, rejected: 0, in_band: 0, usage }
    }

    /// The resources are used so much now. Called at regular intervals: each is a step.
    pub fn on_usage(&mut self, usage: &Usage) {
        self.usage = *usage;
        let ResourceBounds(bounds) = self.bounds;
        let bounded = || {
            let pairs = usage.each().zip(bounds.each());
            pairs.filter_map(|((_, used), (_, bound))| Some((used?.get(), bound?.get())))
        };
        if bounded().any(|(used, bound)| used >= bound) {
            self.rejected = (self.rejected + 1).min(self.priorities.len());
            self.in_band = 0;
            return;
        }
        let free = bounded().all(|(used, bound)| used < FREE_BELOW * bound);
        self.in_band += 1;
        if (free && bounded().next().is_some()) || self.in_band >= BAND_STEPS {
            self.rejected = self.rejected.saturating_sub(1);
            self.in_band = 0;
        }
    }

    /// Whether an event of this class may ask for admission.
    ///
    /// # Errors
    /// The rejection, while a resource is scarce.
    pub fn check(&self, class: ClassId) -> Result<(), Rejection> {
        let admitted = self.priorities.len() - self.rejected;
        let priority = self.class_priorities.get(class.index()).copied().unwrap_or_default();
        if self.priorities[admitted..].first().is_some_and(|first| priority >= *first) {
            return Err(Rejection::new(Reason::ResourceScarce));
        }
        Ok(())
    }

    /// Whether it rejects nobody.
    pub fn is_idle(&self) -> bool {
        self.rejected == 0
    }

    /// Shows the use of the bounded resources, and how many priorities are rejected.
    pub fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        let mut show = |name, value| visit(Reading { name, class: None, value });
        show("guard_rejected_priorities_count", self.rejected as f64);
        for ((name, used), (_, bound)) in self.usage.each().zip(self.bounds.0.each()) {
            if let (Some(used), Some(_)) = (used, bound) {
                show(name, used.get());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tamarisk_control::{Class, Target};

    use super::*;

    fn ratio(value: f64) -> Ratio {
        Ratio::new(value).unwrap()
    }

    /// Gold goes before silver and copper, which are equal, and bronze comes last.
    fn classes() -> Classes {
        let target = Target::p90(Duration::from_millis(100)).unwrap();
        let class = |(name, priority): (&str, u8)| Class {
            name: name.into(),
            target,
            priority: Priority(priority),
        };
        let all = [("bronze", 9), ("gold", 0), ("silver", 4), ("copper", 4)];
        Classes::new(all.map(class).to_vec()).unwrap()
    }

    fn memory(share: f64) -> Usage {
        Usage { memory: Some(ratio(share)), ..Usage::default() }
    }

    /// Which classes are admitted after each reading.
    fn check(bounds: ResourceBounds, steps: &[(Usage, &[&str])]) {
        let classes = classes();
        let mut guard = ResourceGuard::new(&classes, bounds);
        for (step, (usage, expected)) in steps.iter().enumerate() {
            guard.on_usage(usage);
            let admitted = classes.iter().filter(|(id, _)| guard.check(*id).is_ok());
            let names: Vec<_> = admitted.map(|(_, class)| class.name.as_str()).collect();
            assert_eq!(names, *expected, "step {step}: {usage:?}");
            assert_eq!(guard.is_idle(), expected.len() == 4);
        }
    }

    const ALL: &[&str] = &["bronze", "gold", "silver", "copper"];
    const WITHOUT_BRONZE: &[&str] = &["gold", "silver", "copper"];

    #[test]
    fn the_lowest_priority_goes_first_and_comes_back_last() {
        check(
            ResourceBounds::new().memory(ratio(0.8)),
            &[
                (memory(0.79), ALL),
                (memory(0.8), WITHOUT_BRONZE),
                (memory(0.95), &["gold"]),
                (memory(0.81), &[]),
                (memory(1.0), &[]),
                (memory(0.1), &["gold"]),
                (memory(0.1), WITHOUT_BRONZE),
                (memory(0.1), ALL),
                (memory(0.1), ALL),
            ],
        );
    }

    #[test]
    fn between_nine_tenths_of_the_bound_and_the_bound_classes_come_back_after_ten_readings() {
        let bounds = ResourceBounds::new().memory(ratio(0.8));
        let within = [(memory(0.73), WITHOUT_BRONZE); 9];
        let mut steps = vec![(memory(0.8), WITHOUT_BRONZE)];
        steps.extend(within);
        // A scarce resource in between, and the ten begin anew.
        steps.push((memory(0.8), &["gold"]));
        steps.extend([(memory(0.79), &["gold"] as &[_]); 9]);
        steps.push((memory(0.79), WITHOUT_BRONZE));
        steps.extend(within);
        steps.extend([(memory(0.79), ALL), (memory(0.79), ALL)]);
        check(bounds, &steps);
    }

    #[test]
    fn one_scarce_resource_is_enough_and_all_must_be_free() {
        let used = |descriptors, cpu| Usage {
            memory: Some(Ratio::ONE),
            descriptors: Some(ratio(descriptors)),
            cpu: Some(ratio(cpu)),
        };
        let bounds = ResourceBounds::new().descriptors(ratio(0.5)).cpu(ratio(0.9));
        check(
            bounds,
            &[
                (used(0.1, 0.1), ALL),
                (used(0.6, 0.1), WITHOUT_BRONZE),
                (used(0.1, 0.85), WITHOUT_BRONZE),
                (used(0.1, 0.8), ALL),
            ],
        );
        // The memory is full, but nobody has bounded it.
        check(ResourceBounds::new(), &[(used(1.0, 1.0), ALL)]);
    }

    #[test]
    fn what_cannot_be_read_is_passed_over() {
        let bounds = ResourceBounds::new().memory(ratio(0.8)).descriptors(ratio(0.8));
        let (unread, full) = (Usage::default(), memory(0.9));
        check(bounds, &[(unread, ALL), (full, WITHOUT_BRONZE), (memory(0.5), ALL)]);
        let mut steps = vec![(full, WITHOUT_BRONZE)];
        steps.extend([(unread, WITHOUT_BRONZE); 9]);
        steps.push((unread, ALL));
        check(bounds, &steps);
    }

    #[test]
    fn the_rejection_says_why_and_readings_say_how_much() {
        let mut guard = ResourceGuard::new(&classes(), ResourceBounds::new().memory(ratio(0.8)));
        guard.on_usage(&memory(0.9));
        assert_eq!(guard.check(ClassId::new(0)), Err(Rejection::new(Reason::ResourceScarce)));
        let mut seen = Vec::new();
        guard.readings(&mut |reading| seen.push((reading.name.to_owned(), reading.value)));
        let expected = [("guard_rejected_priorities_count", 1.0), ("memory_in_use_ratio", 0.9)];
        assert_eq!(seen, expected.map(|(name, value)| (name.to_owned(), value)));
    }
}
