//! The head of an HTTP/2 frame.

/// Bytes of it [RFC9113 §4.1].
pub(super) const HEAD_BYTES: usize = 9;

/// Bytes of the fields of a HEADERS frame that state a priority [RFC9113 §6.2].
const PRIORITY_BYTES: usize = 5;

// Types of frames [RFC9113 §6].
pub(super) const DATA: u8 = 0;
pub(super) const HEADERS: u8 = 1;
pub(super) const RST_STREAM: u8 = 3;
pub(super) const GOAWAY: u8 = 7;
pub(super) const WINDOW_UPDATE: u8 = 8;
pub(super) const CONTINUATION: u8 = 9;

// Flags of frames [RFC9113 §6.1, §6.2].
pub(super) const END_STREAM: u8 = 0x01;
pub(super) const END_HEADERS: u8 = 0x04;
pub(super) const PADDED: u8 = 0x08;
pub(super) const PRIORITY: u8 = 0x20;

/// The head of a frame.
#[derive(Clone, Copy)]
pub(super) struct FrameHead {
    pub(super) length: usize,
    pub(super) kind: u8,
    pub(super) flags: u8,
    pub(super) stream: u32,
}

impl FrameHead {
    /// Of the frame that `bytes` begin with, if all of the head is there.
    #[inline]
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let [l0, l1, l2, kind, flags, s0, s1, s2, s3] = *bytes.first_chunk::<HEAD_BYTES>()?;
        Some(Self {
            length: u32::from_be_bytes([0, l0, l1, l2]) as usize,
            kind,
            flags,
            // The highest bit is reserved.
            stream: u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]),
        })
    }

    pub(super) fn bytes(self) -> [u8; HEAD_BYTES] {
        let [_, l0, l1, l2] = (self.length as u32).to_be_bytes();
        let [s0, s1, s2, s3] = self.stream.to_be_bytes();
        [l0, l1, l2, self.kind, self.flags, s0, s1, s2, s3]
    }

    pub(super) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// What the `payload` of this HEADERS frame has of a header block [RFC9113 §6.2].
    pub(super) fn fragment(self, payload: &[u8]) -> Option<&[u8]> {
        let (padding, payload) = match self.has(PADDED) {
            true => payload.split_first().map(|(length, rest)| (usize::from(*length), rest))?,
            false => (0, payload),
        };
        let fields = if self.has(PRIORITY) { PRIORITY_BYTES } else { 0 };
        let padded = payload.get(fields..)?;
        padded.get(..padded.len().checked_sub(padding)?)
    }
}
