//! Why a file is not a valid configuration, and where.

use std::fmt::Display;
use std::io;

use miette::{Diagnostic, LabeledSpan, NamedSource, SourceCode};

use crate::mask::without_credentials;
use crate::section::Fault;

/// Why a file is no configuration.
///
/// As a [`miette::Report`], it shows the place in the file:
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
    #[error("{}", .0.fault.message)]
    Invalid(Box<Invalid>),
}

/// A mistake, and the text that it was made in.
#[derive(Debug)]
pub struct Invalid {
    fault: Fault,
    source: NamedSource<String>,
}

impl ConfigError {
    /// The mistake `fault` in `text`, which is called `name`.
    pub fn invalid(name: &str, text: &str, fault: Fault) -> Self {
        let source = NamedSource::new(name, without_credentials(text));
        Self::Invalid(Box::new(Invalid { fault, source }))
    }
}

impl Diagnostic for ConfigError {
    fn help<'a>(&'a self) -> Option<Box<dyn Display + 'a>> {
        match self {
            Self::Unreadable { .. } => None,
            Self::Invalid(invalid) => {
                invalid.fault.help.as_ref().map(|help| Box::new(help) as Box<dyn Display>)
            }
        }
    }

    fn source_code(&self) -> Option<&dyn SourceCode> {
        match self {
            Self::Unreadable { .. } => None,
            Self::Invalid(invalid) => Some(&invalid.source),
        }
    }

    fn labels(&self) -> Option<Box<dyn Iterator<Item = LabeledSpan> + '_>> {
        match self {
            Self::Unreadable { .. } => None,
            Self::Invalid(invalid) => {
                let fault = &invalid.fault;
                let label = LabeledSpan::at(fault.span.clone(), &fault.expected);
                Some(Box::new(std::iter::once(label)))
            }
        }
    }
}
