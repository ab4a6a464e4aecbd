//! What the multiclass controller is for: as [Welsh02 figs 58 and 59], two classes
//! behind one first-come-first-served resource, with and without differentiation.

use tamarisk_catalogue::papers::{
    Multiclass, MulticlassBuilder, ResponseTime, ResponseTimeBuilder,
};
use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, ClassId, Classes, Concurrency, Decision, Finished, PerSecond,
    PlaceLimits, Reading, Timestamp,
};
use tamarisk_model::sim::Outcome;

use super::records::Record;
use super::run;
use super::situations::{Situation, priorities};

/// Lets all that `law` admits wait in the upstream, where no priority counts.
struct FirstComeFirstServed<L>(L);

impl<L: AdmissionLaw> AdmissionLaw for FirstComeFirstServed<L> {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, backlog: &Backlog<'_>) -> Decision {
        self.0.on_arrival(now, arrival, backlog)
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        self.0.on_finish(now, finished, backlog);
    }

    fn on_tick(&mut self, now: Timestamp, backlog: &Backlog<'_>) {
        self.0.on_tick(now, backlog);
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        self.0.readings(visit);
    }

    fn place_limits(&self) -> Option<&dyn PlaceLimits> {
        Some(self)
    }
}

impl<L: AdmissionLaw> PlaceLimits for FirstComeFirstServed<L> {
    fn concurrency(&self) -> Option<Concurrency> {
        Some(Concurrency::new(1_000_000))
    }
}

/// Twice the capacity for two minutes, three tenths of it of the high class.
fn situation() -> Situation {
    priorities(2.0, 0.3).measured(10.0, 130.0)
}

/// Rejected of the high and of the low class.
fn rejected(law: impl AdmissionLaw + 'static, situation: &Situation, seed: u64) -> (f64, f64) {
    let records = run(Box::new(FirstComeFirstServed(law)), situation, seed);
    let of_class = |class| situation.summary_of(class, &records).rejected;
    (of_class(0), of_class(1))
}

/// With rates as after a long calm: those that it begins with would hold both classes back.
fn wound_up(classes: &Classes) -> ResponseTimeBuilder<'_> {
    let greatest = PerSecond::new(5000.0).unwrap();
    ResponseTime::builder(classes).rate_initial(greatest).burst(10.0)
}

#[test]
fn the_lower_class_pays_first() {
    let situation = situation();
    let classes = situation.classes();
    for seed in [1, 2, 3] {
        let (high, low) = rejected(wound_up(classes).build().unwrap(), &situation, seed);
        assert!(high > 0.1, "seed {seed}: {high:.2} of the high class, {low:.2} of the low");
        let multiclass = MulticlassBuilder::new(wound_up(classes)).build().unwrap();
        let (high, low) = rejected(multiclass, &situation, seed);
        assert!(
            high < 0.02 && low > 0.7,
            "seed {seed}: {high:.2} of the high class, {low:.2} of the low"
        );
    }
}

#[test]
fn the_high_class_is_answered_in_time_nonetheless() {
    let situation = situation();
    let classes = situation.classes();
    let records = run(Box::new(FirstComeFirstServed(Multiclass::new(classes))), &situation, 1);
    let target = 0.5;
    let high = |record: &&Record| record.class == ClassId::DEFAULT && record.arrived > 30.0;
    let answered = records.iter().filter(high).filter(|r| r.outcome == Some(Outcome::Completed));
    let (late, all) = answered.fold((0, 0), |(late, all), record| {
        (late + usize::from(record.response() > target), all + 1)
    });
    assert!(late * 50 < all, "{late} of {all} came too late");
}
