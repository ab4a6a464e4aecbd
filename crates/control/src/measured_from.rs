//! Where the response times begin that a law is told.

/// Where the response time of an event begins, as the law of its stage is told it.
///
/// A stage can shorten only what it does itself, and a law that predicts how long an arrival
/// will take compares its predictions with these times: so the default is the stage. A law that
/// is told the time since the request came into the service, as in [Welsh03 §3.2], holds the
/// service to its target, and rejects for delays of the stages before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum MeasuredFrom {
    /// Where it entered the stage.
    #[default]
    Stage,
    /// Where its request entered the service: the first of the stages that it went through.
    Service,
}

impl MeasuredFrom {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Stage, Self::Service];

    /// The name that configuration files use.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stage => "stage",
            Self::Service => "service",
        }
    }
}
