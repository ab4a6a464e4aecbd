//! Reads a trace file.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use tamarisk_control::Backlog;

use crate::decode::{self, Decoder};
use crate::record::{End, Head, Record};
use crate::wire::{BLOCK_HEAD, BLOCK_MAX, Bytes, END, MAGIC, VERSION};

/// Reads a trace, record by record, in bounded memory.
#[derive(Debug)]
pub struct Reader<R> {
    source: R,
    /// Where in the file the next block begins.
    offset: u64,
    checksum: u32,
    block: Vec<u8>,
    /// How much of the block has been read.
    read: usize,
    head: Head,
    decoder: Decoder,
    end: Option<End>,
    done: bool,
}

/// Why a trace cannot be read on. Offsets are in bytes from the beginning.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be read.
    #[error("cannot read the trace")]
    Io(#[from] io::Error),
    /// It is something else.
    #[error("not a trace: the file does not begin with `TAMTRACE`")]
    NoTrace,
    /// It was written by another version.
    #[error("the trace has version {found}; this program reads version {VERSION}")]
    Version {
        /// What it says.
        found: u8,
    },
    /// It ends within a block.
    #[error("the trace is cut short: the block at byte {at} is not complete")]
    Truncated {
        /// Where the block begins.
        at: u64,
    },
    /// Its bytes are not those that were written.
    #[error("the trace is damaged: the checksum of the block at byte {at} is wrong")]
    Checksum {
        /// Where the block begins.
        at: u64,
    },
    /// Its bytes make no sense.
    #[error("the trace is damaged: invalid record at byte {at}")]
    Nonsense {
        /// Where it stands.
        at: u64,
    },
}

impl Reader<BufReader<File>> {
    /// Reads the file at `path`.
    ///
    /// # Errors
    /// As [`Reader::new`].
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        Self::new(BufReader::new(File::open(path)?))
    }
}

impl<R: Read> Reader<R> {
    /// Reads from `source`, which is read in large pieces.
    ///
    /// # Errors
    /// [`ReadError`] if there is no head of a trace.
    pub fn new(mut source: R) -> Result<Self, ReadError> {
        let mut magic = [0; MAGIC.len() + 1];
        let [.., version] = match source.read_exact(&mut magic) {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                return Err(ReadError::NoTrace);
            }
            read => read.map(|()| magic)?,
        };
        if magic[..MAGIC.len()] != MAGIC {
            return Err(ReadError::NoTrace);
        }
        if version != VERSION {
            return Err(ReadError::Version { found: version });
        }
        let (mut offset, mut checksum, mut block) = (magic.len() as u64, 0, Vec::new());
        let at = offset;
        if !next_block(&mut source, &mut offset, &mut checksum, &mut block)? {
            return Err(ReadError::Truncated { at });
        }
        let head = decode::head(&mut Bytes::new(&block)).ok_or(ReadError::Nonsense { at })?;
        let decoder = Decoder::new(head.classes.len());
        let read = block.len();
        let (end, done) = (None, false);
        Ok(Self { source, offset, checksum, block, read, head, decoder, end, done })
    }

    /// Which law was listened to.
    pub const fn head(&self) -> &Head {
        &self.head
    }

    /// How the trace ended, once all of it has been read; `None` if nobody ended it: the
    /// process was killed, or the disk was full.
    pub const fn end(&self) -> Option<End> {
        self.end
    }

    /// The backlog that the latest record was told with, or the one before it if it was
    /// told with none.
    pub fn backlog(&self) -> Backlog<'_> {
        self.decoder.backlog()
    }

    /// The next record; `None` at the end.
    ///
    /// # Errors
    /// [`ReadError`]; there is no reading on after one.
    #[allow(clippy::should_implement_trait, reason = "the backlog is borrowed between two calls")]
    pub fn next(&mut self) -> Result<Option<Record>, ReadError> {
        if self.done {
            return Ok(None);
        }
        let read = self.read_on();
        self.done = !matches!(read, Ok(Some(_)));
        read
    }

    /// The next record that is complete. A trace that is cut short has no [end](Self::end): the disk
    /// was full, or the process was killed.
    ///
    /// # Errors
    /// As [`Reader::next`], but for [`ReadError::Truncated`].
    pub fn next_complete(&mut self) -> Result<Option<Record>, ReadError> {
        match self.next() {
            Err(ReadError::Truncated { .. }) => Ok(None),
            next => next,
        }
    }

    fn read_on(&mut self) -> Result<Option<Record>, ReadError> {
        if self.read == self.block.len() {
            let Self { source, offset, checksum, block, .. } = self;
            if !next_block(source, offset, checksum, block)? {
                return Ok(None);
            }
            self.read = 0;
            if self.block[0] == END {
                return self.last_block().map(|()| None);
            }
        }
        let mut bytes = Bytes::new(&self.block[self.read..]);
        let at = self.place();
        let record = self.decoder.next(&mut bytes).ok_or(ReadError::Nonsense { at })?;
        self.read = self.block.len() - bytes.len();
        Ok(Some(record))
    }

    /// Where in the file the next byte of the block stands.
    fn place(&self) -> u64 {
        self.offset - (self.block.len() - self.read) as u64
    }

    fn last_block(&mut self) -> Result<(), ReadError> {
        let mut bytes = Bytes::new(&self.block[1..]);
        let Some(end) = decode::end(&mut bytes, self.offset) else {
            return Err(ReadError::Nonsense { at: self.place() });
        };
        self.end = Some(end);
        match self.source.read(&mut [0])? {
            0 => Ok(()),
            _ => Err(ReadError::Nonsense { at: self.offset }),
        }
    }
}

/// Reads a block, of one byte at least; `false` if there is none any more.
fn next_block(
    source: &mut impl Read,
    offset: &mut u64,
    checksum: &mut u32,
    block: &mut Vec<u8>,
) -> Result<bool, ReadError> {
    let at = *offset;
    let truncated = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof => ReadError::Truncated { at },
        _ => error.into(),
    };
    let mut head = [0; BLOCK_HEAD];
    if source.read(&mut head[..1])? == 0 {
        return Ok(false);
    }
    source.read_exact(&mut head[1..]).map_err(truncated)?;
    let word =
        |from| u32::from_le_bytes([head[from], head[from + 1], head[from + 2], head[from + 3]]);
    let length = word(0) as usize;
    if length == 0 || length > BLOCK_MAX {
        return Err(ReadError::Nonsense { at });
    }
    block.resize(length, 0);
    source.read_exact(block).map_err(truncated)?;
    let mut hasher = crc32fast::Hasher::new_with_initial(*checksum);
    hasher.update(block);
    *checksum = hasher.finalize();
    if *checksum != word(4) {
        return Err(ReadError::Checksum { at });
    }
    *offset += (BLOCK_HEAD + length) as u64;
    Ok(true)
}
