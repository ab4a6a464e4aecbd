//! Compression of pages while they are loaded.

use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::CONTENT_TYPE;

use crate::page::encoding::Encoding;
use crate::page::{Content, Form};

/// Shorter than this, a file fits a packet or two as it is.
const COMPRESSED_LENGTH_MIN: u64 = 1024;

/// Level 6 of 9: beyond it gzip takes much longer for a per cent or two.
const COMPRESSION: Compression = Compression::new(6);

/// `plain` with gzip, if that makes it shorter by a tenth.
pub(crate) fn compressed(plain: &Form) -> Option<Form> {
    let Content::Held(bytes) = &plain.content else { return None };
    if plain.length < COMPRESSED_LENGTH_MIN {
        return None;
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 2), COMPRESSION);
    encoder.write_all(bytes).ok()?;
    let short = encoder.finish().ok()?;
    let length = short.len() as u64;
    (length < plain.length / 10 * 9).then(|| {
        let content_type = plain.head[CONTENT_TYPE].clone();
        let validators = plain.validators.encoded("-gzip");
        let content = Content::Held(Bytes::from(short));
        Form::new(Some(Encoding::Gzip), content_type, validators, length, content)
    })
}
