//! How the classes of a stage are stated.

use tamarisk_control::Classes;

/// What [`StageBuilder::classes`](crate::StageBuilder::classes) takes: names, or whole classes.
#[derive(Clone, Debug)]
pub enum StageClasses {
    /// Names, the most important first; all have the stage's target.
    Named(Vec<String>),
    /// Each with a target and a priority of its own.
    Whole(Classes),
}

impl From<Classes> for StageClasses {
    fn from(classes: Classes) -> Self {
        Self::Whole(classes)
    }
}

impl<S: Into<String>, const N: usize> From<[S; N]> for StageClasses {
    fn from(names: [S; N]) -> Self {
        Self::Named(names.into_iter().map(Into::into).collect())
    }
}

impl<S: Into<String>> From<Vec<S>> for StageClasses {
    fn from(names: Vec<S>) -> Self {
        Self::Named(names.into_iter().map(Into::into).collect())
    }
}
