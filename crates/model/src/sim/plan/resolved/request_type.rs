//! Request types: class and kind together.

use tamarisk_control::ClassId;

use super::{check_names, class_named};
use crate::sim::plan::invalid::InvalidScenario;
use crate::sim::plan::scenario::Scenario;

/// What requests are told apart by: their class alone, or their kind too.
#[derive(Clone, Copy, Debug)]
pub(in crate::sim) struct RequestType {
    pub(in crate::sim) class: ClassId,
    /// As laws see it.
    pub(in crate::sim) kind: u32,
    /// Its place: classes come first, then kinds.
    pub(in crate::sim) index: u32,
}

impl RequestType {
    /// The place of what is of this class and, unless it is 0, of the kind of this number, where
    /// there are so many classes.
    pub(in crate::sim) fn place(class: ClassId, kind: u32, classes: usize) -> u32 {
        match kind.checked_sub(1) {
            None => class.index() as u32,
            Some(kind) => kind.saturating_add(classes as u32),
        }
    }
}

/// Classes, and then kinds.
pub(super) fn request_types(scenario: &Scenario) -> Result<Vec<RequestType>, InvalidScenario> {
    check_names("kind", scenario.kinds.iter().map(|kind| &kind.name))?;
    let classes = scenario.classes.iter().map(|(class, _)| (class, 0));
    let mut request_types: Vec<_> = classes.collect();
    for (index, kind) in scenario.kinds.iter().enumerate() {
        if class_named(&kind.name, &scenario.classes).is_some() {
            return Err(InvalidScenario::SameName(kind.name.clone()));
        }
        let class = class_named(&kind.class, &scenario.classes);
        let unknown = || InvalidScenario::KindOfUnknownClass {
            kind: kind.name.clone(),
            class: kind.class.clone(),
        };
        request_types.push((class.ok_or_else(unknown)?, index as u32 + 1));
    }
    let request_type = |(index, (class, kind))| RequestType { class, kind, index };
    Ok((0u32..).zip(request_types).map(request_type).collect())
}
