//! The papers' multiclass controller: the classes of lower priority are rejected first.
//!
//! **Intuition.** When gold customers wait too long, tin customers are
//! rejected, not gold ones. Only when there is no tin customer left to reject,
//! and still for a while nothing gets better, gold customers are rejected too.
//!
//! **Why the obvious way fails.** A [`ResponseTime`] controller
//! for each class keeps every class's target by rejecting events of *that* class.
//! Whoever shares a queue is late together, so all classes are cut alike, and the
//! important one is rejected as often as the others [Welsh02 fig. 58].
//!
//! **Mechanism** [Welsh03 §3.3; Welsh02 §7.2.3]. Each class c has the monitor and the
//! token bucket of the response-time controller, and its own target. At the end of
//! a period of class c:
//! ```text
//! err_c > err_d:  flag every lower class
//!                 a lower class above rate_min?  rate ← rate ÷ adjlo_d, of all lower ones
//!                 none is?                       lc_c ← lc_c + 1
//!                                                lc_c ≥ lc_thresh:  rate_c ← rate_c ÷ adj_d
//! err_c < err_i:  flagged?  take the flag down
//!                 not?      rate_c ← rate_c + adj_i · −(err_c − c_i)
//! ```
//! Lower is who has a greater [`Priority`]; classes of one priority
//! leave each other alone.
//!
//! **What the papers leave open, and we chose.**
//! - The lag counter starts anew when its class is within its target: it counts
//!   periods of one overload, not of a day.
//! - A class with none below it does not wait out the lag: there is nobody who
//!   could pay first.
//! - A flag lasts for one period of the class that it was put on, as [Welsh03 §3.3]
//!   has it; [Welsh02 §7.2.3] does not say when it comes down.
//! - What is open in the response-time controller is decided as there.
//!
//! In the author's released code, \[Sandstorm\] `ResponseTimeControllerMulticlass`, a late class
//! also divides its own rate by 1.2 in each period in which lower classes are cut, and while
//! its lag counts. Both papers print that it is cut after lc_thresh periods only, and so it is here.
//! Two more things differ:
//! - There the counter starts anew when a lower class could be cut, or err_c < −0.1 and no flag is up,
//!   also where nothing is added (−0.5 to −0.1). Here it does at err_c ≤ err_d.
//! - There a flag comes down only where err_c < −0.1, and stays while its own class is late or near
//!   its target. Here it comes down at the end of any period of that class.
//!
//! **Limits.** Those of the response-time controller, and one more: a cut by 10 in
//! each period leaves a lower class next to nothing within half a second, and at
//! two requests a second and period it takes minutes to come back.

mod builder;

pub use builder::{InvalidMulticlass, MulticlassBuilder};

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, ClassId, Classes, Decision, Finished, Priority, Reading,
    Timestamp,
};

use crate::ResponseTime;
use crate::response_time::{ClassController, Parameters, set_targets, show};

/// Keeps the percentile of each class at its target, by the rates of lower classes
/// first.
#[derive(Clone, Debug)]
pub struct Multiclass {
    parameters: Parameters,
    adjlo_d: f64,
    lc_thresh: u32,
    controllers: Box<[ClassController]>,
    places: Box<[Place]>,
}

/// A class's place among the others.
#[derive(Clone, Copy, Debug)]
struct Place {
    priority: Priority,
    /// lc: periods in which the class was late and all lower ones were shut out.
    lag: u32,
    /// A higher class was late since this class's last period.
    flagged: bool,
}

impl Multiclass {
    /// The controller with the published parameters.
    pub fn new(classes: &Classes) -> Self {
        MulticlassBuilder::new(ResponseTime::builder(classes)).law()
    }

    fn resolve(&self, class: ClassId) -> usize {
        if class.index() < self.controllers.len() { class.index() } else { 0 }
    }

    /// A period of the class at `index` ended with this error.
    fn steer(&mut self, now: Timestamp, index: usize, err: f64) {
        if err > self.parameters.err_d {
            self.relieve(now, index);
            return;
        }
        self.places[index].lag = 0;
        let was_flagged = std::mem::replace(&mut self.places[index].flagged, false);
        if !was_flagged {
            self.controllers[index].raise(now, err, &self.parameters);
        }
    }

    /// The class at `index` is late: somebody has to make room.
    fn relieve(&mut self, now: Timestamp, index: usize) {
        self.places[index].flagged = false;
        let priority = self.places[index].priority;
        let (mut has_lower, mut lower_could_pay) = (false, false);
        for (place, controller) in self.places.iter_mut().zip(&mut self.controllers) {
            if place.priority > priority {
                has_lower = true;
                place.flagged = true;
                lower_could_pay |= controller.rate() > self.parameters.rate_min;
                controller.lower(now, self.adjlo_d, &self.parameters);
            }
        }
        if lower_could_pay {
            return;
        }
        let place = &mut self.places[index];
        place.lag = place.lag.saturating_add(1);
        if !has_lower || place.lag >= self.lc_thresh {
            self.controllers[index].lower(now, self.parameters.adj_d, &self.parameters);
        }
    }
}

impl AdmissionLaw for Multiclass {
    fn name(&self) -> &'static str {
        "multiclass"
    }

    fn on_arrival(&mut self, now: Timestamp, arrival: &Arrival, _: &Backlog<'_>) -> Decision {
        let index = self.resolve(arrival.class);
        self.controllers[index].admit(now)
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, _: &Backlog<'_>) {
        let index = self.resolve(finished.class);
        if let Some(err) = self.controllers[index].monitor.learn(now, finished) {
            self.steer(now, index, err);
        }
    }

    fn on_tick(&mut self, now: Timestamp, _: &Backlog<'_>) {
        for index in 0..self.controllers.len() {
            if let Some(err) = self.controllers[index].monitor.elapse(now) {
                self.steer(now, index, err);
            }
        }
    }

    fn set_targets(&mut self, classes: &Classes) {
        set_targets(&mut self.controllers, classes);
    }

    fn readings(&self, visit: &mut dyn FnMut(Reading<'_>)) {
        show(&self.controllers, visit);
        for (index, place) in self.places.iter().enumerate() {
            let class = Some(ClassId::new(index));
            visit(Reading { name: "lag_periods_count", class, value: f64::from(place.lag) });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tamarisk_control::{Class, Concurrency, Ending, Target, Together};

    use super::*;

    const IDLE: Backlog<'static> = Backlog {
        queued: &[0, 0, 0],
        running: &[0, 0, 0],
        queued_total: 0,
        running_total: 0,
        workers: Concurrency::ONE,
    };
    const GOLD: usize = 0;
    const TIN: usize = 1;
    const DUST: usize = 2;

    /// Targets of 1 s, and priorities in order.
    fn law() -> Multiclass {
        let class = |(priority, name): (usize, &&str)| Class {
            name: (*name).to_owned(),
            target: Target::p90(Duration::from_secs(1)).unwrap(),
            priority: Priority(priority as u8),
        };
        let list = ["gold", "tin", "dust"].iter().enumerate().map(class).collect();
        Multiclass::new(&Classes::new(list).unwrap())
    }

    /// A hundred answers: a period.
    fn period(law: &mut Multiclass, class: usize, millis: u64) {
        let response = Duration::from_millis(millis);
        let class = ClassId::new(class);
        let finished = Finished {
            class,
            service: response,
            response,
            ending: Ending::Completed,
            kind: 0,
            together: Together::ALONE,
        };
        (0..100).for_each(|_| law.on_finish(Timestamp::ZERO, &finished, &IDLE));
    }

    fn rates(law: &Multiclass) -> Vec<f64> {
        law.controllers.iter().map(|controller| (controller.rate() * 1e6).round() / 1e6).collect()
    }

    #[test]
    fn a_late_class_divides_the_rates_of_all_lower_ones_by_10() {
        let mut law = law();
        period(&mut law, TIN, 1500);
        assert_eq!(rates(&law), [100.0, 100.0, 10.0]);
        period(&mut law, GOLD, 1500);
        assert_eq!(rates(&law), [100.0, 10.0, 1.0]);
    }

    #[test]
    fn a_lower_class_never_makes_a_higher_one_pay() {
        let mut law = law();
        (0..200).for_each(|_| period(&mut law, DUST, 9000));
        assert_eq!(rates(&law), [100.0, 100.0, 0.05]);
    }

    #[test]
    fn the_lowest_class_is_a_response_time_controller() {
        let mut law = law();
        period(&mut law, DUST, 1500);
        assert!((law.controllers[DUST].rate() - 100.0 / 1.2).abs() < 1e-9);
    }

    #[test]
    fn a_class_pays_itself_after_twenty_periods_in_which_all_lower_ones_were_shut_out() {
        let mut law = law();
        // 100 ÷ 10⁴ is less than rate_min.
        (0..4).for_each(|_| period(&mut law, GOLD, 1500));
        assert_eq!(rates(&law), [100.0, 0.05, 0.05]);
        (0..19).for_each(|_| period(&mut law, GOLD, 1500));
        assert_eq!(law.controllers[GOLD].rate(), 100.0);
        period(&mut law, GOLD, 1500);
        assert!((law.controllers[GOLD].rate() - 100.0 / 1.2).abs() < 1e-9);
        period(&mut law, GOLD, 1500);
        assert!((law.controllers[GOLD].rate() - 100.0 / 1.44).abs() < 1e-9);
    }

    #[test]
    fn the_lag_starts_anew_when_the_class_is_within_its_target() {
        let mut law = law();
        (0..23).for_each(|_| period(&mut law, GOLD, 1500));
        assert_eq!(law.places[GOLD].lag, 19);
        // 0.7·1.5 + 0.3·0.1 = 1.08, then 0.79
        (0..2).for_each(|_| period(&mut law, GOLD, 100));
        assert_eq!(law.places[GOLD].lag, 0);
    }

    #[test]
    fn while_a_higher_class_is_late_a_lower_one_does_not_rise() {
        let mut law = law();
        period(&mut law, GOLD, 1500);
        period(&mut law, TIN, 100);
        assert_eq!(law.controllers[TIN].rate(), 10.0, "the flag holds for one period");
        period(&mut law, TIN, 100);
        // err = −0.9; −(−0.9 + 0.1) · 2.0 = 1.6
        assert!((law.controllers[TIN].rate() - 11.6).abs() < 1e-9);
    }

    #[test]
    fn each_class_has_its_own_target() {
        let class = |name: &str, seconds, priority| Class {
            name: name.to_owned(),
            target: Target::p90(Duration::from_secs(seconds)).unwrap(),
            priority: Priority(priority),
        };
        let list = vec![class("patient", 10, 0), class("hasty", 1, 1), class("last", 1, 2)];
        let mut law = Multiclass::new(&Classes::new(list).unwrap());
        period(&mut law, 0, 2000);
        assert_eq!(rates(&law)[1..], [100.0, 100.0]);
        period(&mut law, 1, 2000);
        assert_eq!(rates(&law)[1..], [100.0, 10.0]);
    }
}
