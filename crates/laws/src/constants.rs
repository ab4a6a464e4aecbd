//! The constants of a law as a struct: each field is declared once, with its type, default,
//! range and summary, and the [`Knob`] that files and the simulator's search use follows. For laws
//! of one's own, too.

use std::time::Duration;

use tamarisk_control::{BatchSize, Concurrency, PerSecond, Ratio};

/// A constant of a law. Its name is snake case and ends in its unit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Knob {
    /// Such as `standing_wait_ratio`.
    pub name: &'static str,
    /// What it does.
    pub summary: &'static str,
    /// Its value if none is set.
    pub default: f64,
    /// The least that makes sense.
    pub least: f64,
    /// The greatest that makes sense.
    pub greatest: f64,
    /// Between which values a search looks unless told to: where the law still works as what
    /// it is. The same value twice if it is better left alone.
    pub searched: (f64, f64),
}

/// All constants of a law.
pub trait Constants: Sized {
    /// Their names, defaults and ranges, in the order of their declaration.
    const KNOBS: &'static [Knob];

    /// Takes one value for each constant, in that order; what is missing has its default.
    fn from_values(values: &mut dyn Iterator<Item = f64>) -> Self;
}

/// A law without constants.
impl Constants for () {
    const KNOBS: &'static [Knob] = &[];

    fn from_values(_: &mut dyn Iterator<Item = f64>) {}
}

/// The type of a constant. The range of a [`Knob`] is within that of its type.
pub trait Constant {
    /// From its value in a file.
    fn from_value(value: f64) -> Self;
}

macro_rules! constant {
    ($($type:ty: |$value:ident| $constant:expr;)*) => {$(
        impl Constant for $type {
            fn from_value($value: f64) -> Self {
                $constant
            }
        }
    )*};
}

constant! {
    f64: |value| value;
    u32: |value| value as u32;
    Ratio: |value| Ratio::saturating(value);
    PerSecond: |value| PerSecond::new(value).unwrap_or(PerSecond::ZERO);
    Concurrency: |value| Concurrency::new(value as u32);
    BatchSize: |value| BatchSize::new(value as u32);
    Duration: |value| Duration::from_secs_f64(value);
}

/// Declares a struct of [`Constants`]:
/// ```
/// use tamarisk_laws::constants::{Constants, constants};
///
/// constants! {
///     /// Of the law `threshold`.
///     pub(crate) struct ThresholdConstants {
///         /// events in the queue at most
///         queued_count: u32 = 100.0 in 0.0..=1e6,
///     }
/// }
///
/// assert_eq!(ThresholdConstants::default().queued_count, 100);
/// assert_eq!(ThresholdConstants::KNOBS[0].name, "queued_count");
/// ```
/// After the range may stand where a search looks: `in 0.0..=1e6 searched 1.0..=1000.0`.
#[macro_export]
macro_rules! constants {
    (@searched $least:literal, $greatest:literal) => { ($least, $greatest) };
    (@searched $least:literal, $greatest:literal, $from:literal, $to:literal) => { ($from, $to) };
    (
        $(#[$attribute:meta])*
        pub(crate) struct $name:ident {$(
            #[doc = $summary:literal]
            $field:ident: $type:ty = $default:literal in $least:literal..=$greatest:literal
                $(searched $from:literal..=$to:literal)?,
        )*}
    ) => {
        $(#[$attribute])*
        #[derive(Clone, Debug)]
        pub(crate) struct $name {$(
            #[doc = $summary]
            pub(crate) $field: $type,
        )*}

        impl $crate::constants::Constants for $name {
            const KNOBS: &'static [$crate::constants::Knob] = &[$($crate::constants::Knob {
                name: stringify!($field),
                summary: $summary.trim_ascii(),
                default: $default,
                least: $least,
                greatest: $greatest,
                searched: $crate::constants!(@searched $least, $greatest $(, $from, $to)?),
            },)*];

            fn from_values(values: &mut dyn Iterator<Item = f64>) -> Self {
                use $crate::constants::Constant;
                Self {$($field: Constant::from_value(values.next().unwrap_or($default)),)*}
            }
        }

        impl Default for $name {
            fn default() -> Self {
                $crate::constants::Constants::from_values(&mut std::iter::empty())
            }
        }
    };
}

pub use constants;
