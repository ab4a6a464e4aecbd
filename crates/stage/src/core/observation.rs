//! A stage's core at one instant.

use tamarisk_control::Reading;
use tamarisk_laws::{Laws, Ruling};

use super::{Core, Item};
use crate::observe::{ClassObservation, LawObservation, LawReading, StageObservation};

impl<T: Item> Core<T> {
    pub(crate) fn observe(&self) -> StageObservation {
        let now = self.clock.now();
        let mut state = self.lock();
        state.running_changes(now);
        let workers = state.workers.get();
        let class = |(id, _)| {
            let seen = state.observer.class(now, id, &state.promised, state.ledger.accounts(id));
            ClassObservation { run_limit: self.settings.limit(id), ..seen }
        };
        let classes = self.classes.iter().map(class).collect();
        let mut readings = Vec::new();
        let mut read = |reading: Reading<'_>| {
            readings.push(LawReading {
                name: reading.name.to_owned(),
                class: reading.class.map(|id| self.classes.at(id).name.clone()),
                value: reading.value,
            });
        };
        state.ruling.admission().readings(&mut read);
        self.resources.iter().for_each(|resources| resources.readings(&mut read));
        StageObservation {
            name: self.name.to_string(),
            runs: state.runs,
            phase: state.phase,
            workers,
            busy: state.observer.busy(workers),
            quality: self.settings.quality(),
            profile: state.observer.profile(now),
            queue_capacity: self.capacity(),
            classes,
            senders: self.senders.observe(now),
            rejections: state.rejections.clone(),
            batch: state.ruling.knobs().map(|knobs| knobs.batch.get()),
            law: state.ruling.admission().name(),
            laws: laws(&state.ruling, &state.chosen),
            readings,
            last_failure: state.last_failure.clone(),
        }
    }
}

/// The laws that rule, with the constants of those that were chosen by name.
fn laws(ruling: &Ruling, chosen: &Laws) -> Vec<LawObservation> {
    let named = |(rules, name): (&'static str, _)| LawObservation { rules, name, knobs: vec![] };
    let admission = ("admission", ruling.admission().name());
    let names = std::iter::once(admission).chain(ruling.slow_names());
    let mut laws: Vec<_> = names.map(named).collect();
    chosen.each(|rules, name, knobs| match laws.iter_mut().find(|law| law.rules == rules) {
        Some(law) => law.knobs = knobs,
        None => laws.push(LawObservation { rules, name, knobs }),
    });
    laws
}
