//! Why a file is not a valid configuration, and where.

use std::error::Error;
use std::fmt::{self, Display};
use std::io;

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};

use crate::mask::without_credentials;
use crate::section::Fault;

/// Why a file is no configuration.
///
/// As a [`miette::Report`], it shows the place in the file, and all other mistakes after the first:
/// `eprintln!("{:?}", miette::Report::new(error))`.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("cannot read {file}")]
    Unreadable {
        /// Its path.
        file: String,
        /// What the system said.
        source: io::Error,
    },
    /// It says something that cannot be.
    #[error("{}", .0.first.message)]
    Invalid(Box<Invalid>),
}

/// Mistakes, and the text that they were made in.
#[derive(Debug)]
pub struct Invalid {
    first: Fault,
    others: Vec<Fault>,
    source: NamedSource<String>,
}

impl ConfigError {
    /// The mistake `fault` in `text`, which is called `name`.
    pub fn invalid(name: &str, text: &str, fault: Fault) -> Self {
        let source = NamedSource::new(name, without_credentials(text));
        let mut others = fault.all();
        let first = others.remove(0);
        Self::Invalid(Box::new(Invalid { first, others, source }))
    }

    /// How many mistakes it shows: the first one, and those [related](Diagnostic::related) to it.
    pub fn mistakes(&self) -> usize {
        1 + self.others().len()
    }

    fn first(&self) -> Option<&Fault> {
        match self {
            Self::Unreadable { .. } => None,
            Self::Invalid(invalid) => Some(&invalid.first),
        }
    }

    fn others(&self) -> &[Fault] {
        match self {
            Self::Unreadable { .. } => &[],
            Self::Invalid(invalid) => &invalid.others,
        }
    }
}

impl Diagnostic for ConfigError {
    fn help<'a>(&'a self) -> Option<Box<dyn Display + 'a>> {
        self.first()?.help()
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        match self {
            Self::Unreadable { .. } => None,
            Self::Invalid(invalid) => Some(&invalid.source),
        }
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        self.first()?.labels()
    }

    /// The other mistakes of the file, in its order.
    fn related<'a>(&'a self) -> Option<Box<dyn Iterator<Item = &'a dyn Diagnostic> + 'a>> {
        Some(Box::new(self.others().iter().map(|fault| fault as &dyn Diagnostic)))
    }
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for Fault {}

impl Diagnostic for Fault {
    fn help<'a>(&'a self) -> Option<Box<dyn Display + 'a>> {
        self.help.as_ref().map(|help| Box::new(help) as Box<dyn Display>)
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        let label = LabeledSpan::at(self.span.clone(), &self.expected);
        Some(Box::new(std::iter::once(label)))
    }
}
