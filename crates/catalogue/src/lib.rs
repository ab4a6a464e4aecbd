//! The catalogue of laws: each by name, with its constants, for configuration files, the simulator
//! and the tuner.
//!
//! The laws stand in three crates: the defaults and the plainest in `tamarisk-laws`, those of the
//! documents in [`papers`], those of other systems in [`rivals`]. A stage takes a law, or
//! [`Laws`] that are chosen; only who reads names needs this crate.
//!
//! # Examples
//! ```
//! # use std::time::Duration;
//! # use tamarisk_control::*;
//! let classes = Classes::single(Target::p90(Duration::from_millis(200))?);
//! let entry = tamarisk_catalogue::admission("threshold").expect("it is listed");
//! let law = entry.law_with(&classes, &[("queued_count", 20.0)])?;
//! assert_eq!(law.name(), "threshold");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod by_name;
mod lists;

pub use by_name::{ByName, InvalidLaw, admission, global};
pub use lists::{ADMISSION, BATCHING, DROPPING, GLOBAL, QUALITY, TERMINATION, WORKERS};
pub use tamarisk_laws::named::{
    AdmissionEntry, BatchEntry, Coordination, Entry, GlobalEntry, InvalidKnob, Knob, Laws, Named,
    QualityEntry, TerminationEntry, WorkersEntry,
};
pub use tamarisk_laws_papers as papers;
pub use tamarisk_laws_rivals as rivals;

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tamarisk_control::{AdmissionLaw, Classes, Target};
    use tamarisk_laws::WithDropper;
    use tamarisk_laws::named::{Entry, InvalidKnob};

    use super::*;

    fn classes() -> Classes {
        Classes::single(Target::p90(Duration::from_millis(200)).unwrap())
    }

    #[test]
    fn every_law_is_listed_once_under_its_own_name() {
        for entry in ADMISSION {
            assert_eq!(entry.law(&classes()).name(), entry.name);
            let alike = ADMISSION.iter().filter(|other| other.name == entry.name);
            assert_eq!(alike.count(), 1, "{}", entry.name);
        }
    }

    fn check_slow<L: ?Sized>(entries: &'static [Entry<L>], name: fn(&L) -> &'static str) {
        for entry in entries {
            assert_eq!(name(&entry.law(&classes())), entry.name);
            for knob in entry.knobs {
                assert!((knob.least..=knob.greatest).contains(&knob.default), "{}", knob.name);
                for value in [knob.least, knob.greatest] {
                    let made = entry.law_with(&classes(), &[(knob.name, value)]);
                    assert!(matches!(made, Ok(_) | Err(InvalidKnob::Together { .. })));
                }
            }
        }
    }

    #[test]
    fn slow_laws_are_listed_as_admission_laws_are() {
        check_slow(WORKERS, |law| law.name());
        check_slow(BATCHING, |law| law.name());
        check_slow(QUALITY, |law| law.name());
        check_slow(TERMINATION, |law| law.name());
        check_slow(GLOBAL, |law| law.name());
    }

    #[test]
    fn droppers_are_admission_laws() {
        for name in DROPPING {
            assert!(admission(name).is_some(), "{name}");
        }
    }

    #[test]
    fn every_constant_can_have_its_least_and_its_greatest_value() {
        for entry in ADMISSION {
            for knob in entry.knobs {
                assert!((knob.least..=knob.greatest).contains(&knob.default), "{}", knob.name);
                for value in [knob.least, knob.greatest] {
                    match entry.law_with(&classes(), &[(knob.name, value)]) {
                        Ok(_) | Err(InvalidKnob::Together { .. }) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            }
        }
    }

    #[test]
    fn an_error_says_what_can_be() {
        let red = admission("red").unwrap();
        let error = |knobs: &[(&str, f64)]| match red.law_with(&classes(), knobs) {
            Ok(_) => panic!("it cannot be"),
            Err(error) => error.to_string(),
        };
        assert!(error(&[("weigth_ratio", 0.1)]).contains("it has queue_min_count"));
        assert_eq!(
            error(&[("weight_ratio", f64::NAN)]),
            "weight_ratio of red cannot be NaN: it lies between 0.00001 and 1"
        );
        assert!(error(&[("queue_min_count", 50.0)]).starts_with("red: "));
    }

    #[test]
    fn a_law_and_its_dropper_show_no_reading_twice() {
        let law = |name| admission(name).unwrap().law(&classes());
        let both = WithDropper::new(law("selective-dropper"), law("selective-dropper"));
        let mut shown = Vec::new();
        both.readings(&mut |reading| shown.push((reading.name.to_owned(), reading.class)));
        let names: Vec<_> = shown.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["drop_threshold_seconds", "dropping_drop_threshold_seconds"]);
    }
}
