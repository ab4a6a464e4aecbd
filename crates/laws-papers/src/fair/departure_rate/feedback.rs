//! The feedback loop of the departure rate: the stage's model, and the controller designed for it.

use super::sample::Sample;
use crate::fair::tuned::{Placement, Tuned};
use crate::fair::{Arx, Controller, Demands, OnLineFit};

/// Ours, as for [`SelfTuning`](crate::SelfTuning).
const DEMANDS: Demands = Demands::of(4, 0.1);
/// λ, as for [`SelfTuning`](crate::SelfTuning): about fifty samples are remembered.
const FORGETTING: f64 = 0.98;
/// Service times that differ by more than this factor are those of another plant.
const ANOTHER_PLANT: f64 = 2.0;

/// Answers an error of the throughput by a change of the number of workers.
///
/// The model is that of the throughput in units of what one worker does by its service time
/// alone: in these, one more worker is one more, and stays, until something else is measured.
#[derive(Clone, Debug)]
pub(super) struct Feedback {
    tuned: Tuned,
    /// 1 ÷ s̄ when the model was begun.
    per_worker: Option<f64>,
    /// The workers that the sample had more than the one before it.
    added: f64,
    was_full: bool,
}

impl Feedback {
    pub(super) fn new(placement: Placement) -> Self {
        let tuned = Tuned::new(placement, DEMANDS, OnLineFit::remembering(FORGETTING));
        let tuned = tuned.expect("the demands can be met where a worker that is added stays");
        Self { tuned, per_worker: None, added: 0.0, was_full: false }
    }

    /// The model, with b in completions a second and worker.
    pub(super) fn model(&self) -> Option<Arx> {
        let per_worker = self.per_worker?;
        let model = self.tuned.model();
        Some(Arx::of(model.a(), model.b() * per_worker))
    }

    /// What `sample` teaches: y(k) under u(k), where the stage had work all the time.
    pub(super) fn learn(&mut self, sample: &Sample) {
        let Some(service) = sample.service.filter(|&seconds| seconds > 0.0) else {
            self.cut();
            return;
        };
        let newest = 1.0 / service;
        let is_another =
            |past: f64| !(past / ANOTHER_PLANT..=past * ANOTHER_PLANT).contains(&newest);
        if self.per_worker.is_none_or(is_another) {
            self.per_worker = Some(newest);
            self.tuned.restart();
            self.was_full = false;
        }
        let is_pair = sample.stayed_full && sample.follows;
        if !is_pair {
            self.cut();
            return;
        }
        if !self.was_full {
            self.tuned.cut();
        }
        self.was_full = true;
        let output = self.in_workers(sample.rates.throughput).unwrap_or(0.0);
        self.tuned.observe(self.added, output);
    }

    /// u(k+1): how many workers more or fewer.
    pub(super) fn control(&mut self, reference: f64, throughput: f64) -> f64 {
        let wanted = self.in_workers(reference).zip(self.in_workers(throughput));
        wanted.map_or(0.0, |(reference, throughput)| self.tuned.control(reference, throughput))
    }

    /// By how much the size was really changed, and by how much the workers, which are whole.
    pub(super) fn applied(&mut self, size: f64, workers: f64) {
        self.tuned.applied(size);
        self.added = workers;
    }

    /// The next sample does not follow the last one.
    pub(super) fn cut(&mut self) {
        self.tuned.cut();
        self.was_full = false;
    }

    fn in_workers(&self, throughput: f64) -> Option<f64> {
        self.per_worker.map(|rate| throughput / rate)
    }
}
