//! A controller that is designed anew whenever its identified model changes.

use super::{Arx, Controller, Demands, Design, InfeasibleDesign, OnLineFit, P, Pd, Pi};

/// Each unit of input adds one of output, and that stays: what holds before anything is known.
const CONSERVATION: Arx = Arx::of(1.0, 1.0);
/// The customary bound for a model to control with [Hellerstein04 ch. 2].
const R_SQUARED_MIN: f64 = 0.8;
/// The output neither halves spontaneously nor grows, and a unit of input counts about once.
const POSSIBLE_A: std::ops::RangeInclusive<f64> = 0.5..=1.05;
const POSSIBLE_B: std::ops::RangeInclusive<f64> = 0.25..=2.0;
/// A model that differs by less needs no new gains.
const MOVED: f64 = 0.02;

/// One of the controllers, with gains for the latest model that is believed.
#[derive(Clone, Debug)]
pub(super) struct Tuned {
    placement: Placement,
    demands: Demands,
    identification: OnLineFit,
    model: Arx,
    identified: bool,
    gains: Gains,
}

/// Which controller it is, and where its poles are placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Placement {
    /// [`P::place`].
    P,
    /// [`P::place_precompensated`].
    Precompensated,
    /// As printed, `Kp = a ÷ b` and `α = 1 ÷ a`, whatever the demands [Fair07 eq. 31, 33].
    Deadbeat,
    /// [`Pi::place`], or the least overshoot that settles in time.
    Pi,
    /// [`Pd::place`], or the least overshoot that settles in time.
    Pd,
}

#[derive(Clone, Copy, Debug)]
enum Gains {
    P(P),
    Pi(Pi),
    Pd(Pd),
}

impl Tuned {
    /// # Errors
    /// [`InfeasibleDesign`] if the demands cannot be met under the model that holds first.
    pub(super) fn new(
        placement: Placement,
        demands: Demands,
        identification: OnLineFit,
    ) -> Result<Self, InfeasibleDesign> {
        let gains = Gains::place(placement, CONSERVATION, demands)?;
        let (model, identified) = (CONSERVATION, false);
        Ok(Self { placement, demands, identification, model, identified, gains })
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
        if has_moved && let Ok(gains) = Gains::place(self.placement, fit.model, self.demands) {
            self.gains.retune(gains);
            self.model = fit.model;
        }
    }

    /// What was identified speaks of a plant that is no more.
    pub(super) fn restart(&mut self) {
        self.identification.restart();
        (self.model, self.identified) = (CONSERVATION, false);
        if let Ok(gains) = Gains::place(self.placement, CONSERVATION, self.demands) {
            self.gains.retune(gains);
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
    fn place(placement: Placement, model: Arx, demands: Demands) -> Result<Self, InfeasibleDesign> {
        match placement {
            Placement::P => P::place(model, demands).map(|design| Self::P(design.controller)),
            Placement::Precompensated => {
                P::place_precompensated(model, demands).map(|design| Self::P(design.controller))
            }
            Placement::Deadbeat => P::deadbeat(model)?.precompensated(model).map(Self::P),
            Placement::Pi => place_as_near_as_possible(Pi::place, model, demands)
                .map(|design| Self::Pi(design.controller)),
            Placement::Pd => place_as_near_as_possible(Pd::place, model, demands)
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
    const ALL: [Placement; 5] = [
        Placement::P,
        Placement::Precompensated,
        Placement::Deadbeat,
        Placement::Pi,
        Placement::Pd,
    ];

    fn tuned(placement: Placement) -> Tuned {
        Tuned::new(placement, DEMANDS, OnLineFit::remembering(0.95)).unwrap()
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
        for placement in ALL {
            let mut tuned = tuned(placement);
            assert!(!tuned.is_identified());
            let plant = Arx::of(0.9, 0.5);
            excite(&mut tuned, plant, 60);
            assert!(tuned.is_identified());
            assert!((tuned.model().a() - 0.9).abs() < 0.021, "{tuned:?}");
            let gains = Gains::place(placement, tuned.model(), DEMANDS).unwrap();
            let mut expected = Tuned { gains, ..tuned.clone() };
            assert_eq!(expected.control(1.0, 0.0), tuned.control(1.0, 0.0), "{placement:?}");
        }
    }

    #[test]
    fn what_cannot_be_is_not_believed() {
        let mut tuned = tuned(Placement::P);
        excite(&mut tuned, Arx::of(0.9, -3.0), 60);
        assert_eq!(tuned.model(), CONSERVATION);
        excite(&mut tuned, Arx::of(0.1, 0.5), 200);
        assert_eq!(tuned.model(), CONSERVATION);
    }

    #[test]
    fn what_does_not_vary_teaches_nothing() {
        let mut tuned = tuned(Placement::Pi);
        (0..100).for_each(|_| tuned.observe(3.0, 50.0));
        assert!(!tuned.is_identified());
    }
}
