//! Bodies, framed in any of the ways that there are.

use crate::chunked::{Chunked, Part};
use crate::event::Event;
use crate::head::{Framing, field_line};
use crate::limits::Limits;
use crate::violation::Violation;

/// Where in a body its reader is.
#[derive(Debug)]
pub(crate) enum Body {
    Length(u64),
    Chunked {
        reader: Chunked,
        /// Bytes of the trailers that were looked at, and are held until all of them are there.
        trailers: usize,
    },
    /// So many bytes of data have come.
    UntilClose(u64),
    /// There is no more of it.
    Over,
}

impl Body {
    pub(crate) fn new(framing: Framing) -> Self {
        match framing {
            Framing::Empty => Self::Over,
            Framing::Length(left) => Self::Length(left),
            Framing::Chunked => Self::Chunked { reader: Chunked::new(), trailers: 0 },
            Framing::UntilClose => Self::UntilClose(0),
        }
    }

    /// Reads on at `held`, what the last call did not use and what came since.
    pub(crate) fn next(
        &mut self,
        held: &[u8],
        limits: &Limits,
    ) -> Result<Option<Event>, Violation> {
        match self {
            Self::Over => return Ok(Some(Event::End)),
            _ if held.is_empty() => return Ok(None),
            Self::UntilClose(data) => {
                *data = data.saturating_add(held.len() as u64);
                if limits.body_max.is_some_and(|max| *data > max) {
                    return Err(Violation::BodyTooLarge);
                }
                return Ok(Some(Event::Data(held.len())));
            }
            Self::Length(left) => {
                let bytes = usize::try_from(*left).map_or(held.len(), |left| left.min(held.len()));
                *left -= bytes as u64;
                if *left == 0 {
                    *self = Self::Over;
                }
                return Ok(Some(Event::Data(bytes)));
            }
            Self::Chunked { reader, trailers } => {
                while *trailers < held.len() {
                    let (bytes, part) = reader.next(&held[*trailers..], limits)?;
                    match part {
                        Part::Framing => return Ok(Some(Event::Framing(bytes))),
                        Part::Data => return Ok(Some(Event::Data(bytes))),
                        Part::Trailers => *trailers += bytes,
                        Part::End => {
                            let all = *trailers + bytes;
                            *self = Self::Over;
                            let is_empty = held[..all] == *b"\r\n";
                            return Ok(Some(match is_empty {
                                true => Event::Framing(all),
                                false => Event::Trailers(all),
                            }));
                        }
                    }
                }
            }
        }
        Ok(None)
    }

    /// How many bytes of data come next, at least.
    pub(crate) fn data_next(&self) -> u64 {
        match self {
            Self::Length(left) => *left,
            Self::Chunked { reader, .. } => reader.data_next(),
            Self::UntilClose(_) => u64::MAX,
            Self::Over => 0,
        }
    }

    /// How many bytes of data are still to come, if that is known.
    pub(crate) fn left(&self) -> Option<u64> {
        match self {
            Self::Length(left) => Some(*left),
            Self::Over => Some(0),
            Self::Chunked { .. } | Self::UntilClose(_) => None,
        }
    }
}

/// The names and values of the trailers that an [`Event::Trailers`] stood for.
pub fn trailer_fields(trailers: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    let lines = trailers.split(|&byte| byte == b'\n').filter_map(|line| line.strip_suffix(b"\r"));
    lines.filter_map(|line| field_line(line).ok())
}
