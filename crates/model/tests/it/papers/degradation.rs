//! Quality that falls instead of rejections, and before them: [Welsh02 figs 56 and 57], which are
//! [Welsh03 figs 12 and 13].

#![allow(dead_code, reason = "shared by a test and an example")]

use tamarisk_catalogue::papers::ResponseTime;
use tamarisk_control::{
    Activity, AdmissionLaw, Backlog, BatchSize, Concurrency, Finished, Leeway, QualityLaw, Ratio,
    Timestamp,
};
use tamarisk_laws::{AdmissionWhenSpent, Degradation, FullQuality, Knobs, Open};
use tamarisk_model::sim::Governor;
use tamarisk_plot::Unit;

use super::chart::{Chart, Curve, Curves};
use super::course::{Course, Part, read, run_with};

/// What the service still calls a page: a tenth of the work.
const QUALITY_LEAST: f64 = 0.1;
/// Of the one worker of the stage, at full quality.
const KNOBS: Knobs =
    Knobs { workers: Concurrency::ONE, batch: BatchSize::ONE, quality: Ratio::ONE };

/// What a stage does about the spike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    Nothing,
    /// It lowers quality.
    Quality,
    /// It lowers quality, and rejects while that is at its least.
    QualityThenAdmission,
}

impl Remedy {
    /// 3 users until 20 s, then a thousand.
    pub(crate) fn course(self, seed: u64) -> Course {
        let file = read("degradation");
        let classes = &file.scenario.classes;
        let degradation = || Box::new(Degradation::new(classes, Ratio::saturating(QUALITY_LEAST)));
        let open = || AdmissionWhenSpent::new(Open);
        let laws: Box<dyn Governor> = match self {
            Self::Nothing => Box::new(Laws { quality: Box::new(FullQuality), admission: open() }),
            Self::Quality => Box::new(Laws { quality: degradation(), admission: open() }),
            Self::QualityThenAdmission => {
                let admission = AdmissionWhenSpent::new(ResponseTime::new(classes));
                Box::new(Laws { quality: degradation(), admission })
            }
        };
        run_with(&file, seed, |run| {
            run.governor("page", laws, KNOBS).expect("there is such a stage")
        })
    }
}

struct Laws<L> {
    quality: Box<dyn QualityLaw>,
    admission: AdmissionWhenSpent<L>,
}

impl<L: AdmissionLaw> Governor for Laws<L> {
    fn admission(&self) -> &dyn AdmissionLaw {
        &self.admission
    }

    fn admission_mut(&mut self) -> &mut dyn AdmissionLaw {
        &mut self.admission
    }

    fn on_finish(&mut self, now: Timestamp, finished: &Finished, backlog: &Backlog<'_>) {
        self.admission.on_finish(now, finished, backlog);
        self.quality.on_finish(now, finished);
    }

    fn on_tick(&mut self, now: Timestamp, activity: &Activity<'_>) -> Knobs {
        let quality = self.quality.on_tick(now, activity, Leeway::Either);
        self.admission.on_quality(self.quality.strain());
        Knobs { quality, ..KNOBS }
    }
}

fn p90(name: &str, course: &Course) -> Curve {
    Curve::new(name, course.over_time(5.0, Part::p90))
}

/// Quality alone [Welsh02 fig. 56].
pub(crate) fn quality_alone() -> Chart {
    let [without, with] = [Remedy::Nothing, Remedy::Quality].map(|remedy| remedy.course(1));
    let response = Curves::new(
        "90th percentile of the response time",
        Unit::Seconds,
        vec![p90("without degradation", &without), p90("with degradation", &with)],
    );
    Chart {
        name: "welsh02-56",
        title: "A thousand users from 20 s on, and quality that falls",
        x: "seconds",
        from: 0.0,
        to: 200.0,
        panels: vec![response.level(5.0, "target")],
    }
}

/// Admission control once quality is at its least [Welsh02 fig. 57].
pub(crate) fn quality_then_admission() -> Chart {
    let course = Remedy::QualityThenAdmission.course(1);
    let rejected = course.over_time(5.0, |part| Some(100.0 * part.lost()));
    let response = Curves::new(
        "90th percentile of the response time",
        Unit::Seconds,
        vec![p90("degradation and admission control", &course)],
    );
    Chart {
        name: "welsh02-57",
        title: "The same with admission control when quality is at its least",
        x: "seconds",
        from: 0.0,
        to: 200.0,
        panels: vec![
            response.level(5.0, "target"),
            Curves::new(
                "Rejected, in percent",
                Unit::Count,
                vec![Curve::new("degradation and admission control", rejected)],
            ),
        ],
    }
}
