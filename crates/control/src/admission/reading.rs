//! What a law shows of itself.

use crate::ClassId;

/// One number that a law shows: a setting or an estimate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reading<'a> {
    /// Snake case, unit last: `gate_ratio`, `wait_predicted_seconds`.
    pub name: &'a str,
    /// Of which class, where the law keeps one for each.
    pub class: Option<ClassId>,
    /// In the unit that the name ends in.
    pub value: f64,
}
