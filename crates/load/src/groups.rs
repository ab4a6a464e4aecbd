//! What results are told apart by: classes of users, and types of request.

use std::time::Duration;

use crate::population::{Population, RequestType};
use crate::tally::Tally;

/// The classes and types, each pair of which is a group: those of the first class come first.
/// None, where all requests are alike.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    classes: Vec<String>,
    types: Vec<RequestType>,
}

impl Groups {
    pub(crate) fn of(population: &dyn Population) -> Self {
        let (classes, types) = (population.classes(), population.request_types());
        Self { classes: classes.to_vec(), types: types.to_vec() }
    }

    /// How many groups there are.
    pub(crate) fn len(&self) -> usize {
        self.classes.len() * self.types.len()
    }

    /// The group of this class and type.
    pub(crate) fn index(&self, class: usize, request_type: usize) -> usize {
        assert!(class < self.classes.len(), "class {class} of {:?}", self.classes);
        assert!(request_type < self.types.len(), "type {request_type} of {:?}", self.types);
        class * self.types.len() + request_type
    }

    pub(crate) fn class_of(&self, group: usize) -> usize {
        group / self.types.len()
    }

    /// The target of a group's type, if it has one of its own.
    pub(crate) fn target_of(&self, group: usize) -> Option<Duration> {
        self.types[group % self.types.len()].target
    }

    pub(crate) fn classes(&self) -> &[String] {
        &self.classes
    }

    pub(crate) fn types(&self) -> &[RequestType] {
        &self.types
    }

    /// An empty tally for each class.
    pub(crate) fn no_tallies(&self) -> Vec<Tally> {
        vec![Tally::default(); self.classes.len()]
    }
}
