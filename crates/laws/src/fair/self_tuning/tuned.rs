//! A controller that is designed anew whenever its identified model changes.

use super::Form;
use crate::fair::{Arx, Controller, Demands, Design, InfeasibleDesign, OnLineFit, P, Pd, Pi};

/// Whatever is let in is inside, and stays: what holds before anything is known.
const CONSERVATION: Arx = Arx::of(1.0, 1.0);
/// The customary bound for a model to control with [Hellerstein04 ch. 2].
const R_SQUARED_MIN: f64 = 0.8;
/// The population neither halves spontaneously nor grows, and an event counts about once.
const POSSIBLE_A: std::ops::RangeInclusive<f64> = 0.5..=1.05;
const POSSIBLE_B: std::ops::RangeInclusive<f64> = 0.25..=2.0;
/// A model that differs by less needs no new gains.
const MOVED: f64 = 0.02;

/// One of the controllers, with gains for the latest model that is believed.
#[derive(Clone, Debug)]
pub(super) struct Tuned {
    form: Form,
    demands: Demands,
    identification: OnLineFit,
    model: Arx,
    identified: bool,
    gains: Gains,
}

#[derive(Clone, Copy, Debug)]
enum Gains {
    P(P),
    Pi(Pi),
    Pd(Pd),
}

impl Tuned {
    /// # Errors
    /// [`InfeasibleDesign`] if the demands cannot be met under conservation of events.
    pub(super) fn new(
        form: Form,
        demands: Demands,
        identification: OnLineFit,
    ) -> Result<Self, InfeasibleDesign> {
        let gains = Gains::place(form, CONSERVATION, demands)?;
        Ok(Self { form, demands, identification, model: CONSERVATION, identified: false, gains })
    }

    pub(super) fn form(&self) -> Form {
        self.form
    }

    /// The latest model that is believed.
    pub(super) fn model(&self) -> Arx {
        self.model
    }

    /// Whether that model comes from measurements.
    pub(super) fn is_identified(&self) -> bool {
        self.identified
    }

    /// The input `u` led to the output `y`.
    pub(super) fn observe(&mut self, u: f64, y: f64) {
        self.identification.observe(u, y);
        let Ok(fit) = self.identification.fit() else { return };
        let (a, b) = (fit.model.a(), fit.model.b());
        let is_possible = POSSIBLE_A.contains(&a) && POSSIBLE_B.contains(&b);
        let has_moved = (a - self.model.a()).abs() > MOVED || (b - self.model.b()).abs() > MOVED;
        if fit.r_squared.get() < R_SQUARED_MIN || !is_possible {
            return;
        }
        self.identified = true;
        if has_moved && let Ok(gains) = Gains::place(self.form, fit.model, self.demands) {
            self.gains.retune(gains);
            self.model = fit.model;
        }
    }

    /// The next observation does not follow the last one.
    pub(super) fn cut(&mut self) {
        self.identification.cut();
    }
}

impl Controller for Tuned {
    fn control(&mut self, reference: f64, measured: f64) -> f64 {
        match &mut self.gains {
            Gains::P(p) => p.control(reference, measured),
            Gains::Pi(pi) => pi.control(reference, measured),
            Gains::Pd(pd) => pd.control(reference, measured),
        }
    }

    fn applied(&mut self, u: f64) {
        match &mut self.gains {
            Gains::P(p) => p.applied(u),
            Gains::Pi(pi) => pi.applied(u),
            Gains::Pd(pd) => pd.applied(u),
        }
    }
}

impl Gains {
    fn place(form: Form, model: Arx, demands: Demands) -> Result<Self, InfeasibleDesign> {
        match form {
            Form::P => P::place(model, demands).map(|design| Self::P(design.controller)),
            Form::PPrecompensated => {
                P::place_precompensated(model, demands).map(|design| Self::P(design.controller))
            }
            Form::Pi => place_as_near_as_possible(Pi::place, model, demands)
                .map(|design| Self::Pi(design.controller)),
            Form::Pd => place_as_near_as_possible(Pd::place, model, demands)
                .map(|design| Self::Pd(design.controller)),
        }
    }

    /// Takes the gains of `placed`, and keeps its own memory.
    fn retune(&mut self, placed: Self) {
        *self = match (*self, placed) {
            (Self::Pi(pi), Self::Pi(placed)) => Self::Pi(pi.retuned(placed)),
            (Self::Pd(pd), Self::Pd(placed)) => Self::Pd(pd.retuned(placed)),
            (_, placed) => placed,
        };
    }
}

/// The design that meets the demands, or else the one with the least overshoot.
fn place_as_near_as_possible<C>(
    place: impl Fn(Arx, Demands) -> Result<Design<C>, InfeasibleDesign>,
    model: Arx,
    demands: Demands,
) -> Result<Design<C>, InfeasibleDesign> {
    match place(model, demands) {
        Err(InfeasibleDesign::Overshoot { least, .. }) => {
            place(model, demands.with_overshoot(least))
        }
        design => design,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEMANDS: Demands = Demands::of(4, 0.1);

    fn tuned(form: Form) -> Tuned {
        Tuned::new(form, DEMANDS, OnLineFit::remembering(0.95)).unwrap()
    }

    /// Excites `plant` with a square wave.
    fn excite(tuned: &mut Tuned, plant: Arx, count: usize) {
        let mut y = 10.0;
        for k in 0..count {
            let u = if k % 6 < 3 { 5.0 } else { -4.0 };
            y = plant.predict(y, u);
            tuned.observe(u, y);
        }
    }

    #[test]
    fn the_gains_follow_the_model() {
        for form in Form::ALL {
            let mut tuned = tuned(form);
            assert!(!tuned.is_identified());
            let plant = Arx::of(0.9, 0.5);
            excite(&mut tuned, plant, 60);
            assert!(tuned.is_identified());
            assert!((tuned.model().a() - 0.9).abs() < 0.021, "{tuned:?}");
            let gains = Gains::place(form, tuned.model(), DEMANDS).unwrap();
            let mut expected = Tuned { gains, ..tuned.clone() };
            assert_eq!(expected.control(1.0, 0.0), tuned.control(1.0, 0.0), "{form:?}");
        }
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        let mut tuned = tuned(Form::P);
        excite(&mut tuned, Arx::of(0.9, -3.0), 60);
        assert_eq!(tuned.model(), CONSERVATION);
        excite(&mut tuned, Arx::of(0.1, 0.5), 200);
        assert_eq!(tuned.model(), CONSERVATION);
    }

    #[test]
    fn what_does_not_vary_teaches_nothing() {
        let mut tuned = tuned(Form::Pi);
        (0..100).for_each(|_| tuned.observe(3.0, 50.0));
        assert!(!tuned.is_identified());
    }
}
