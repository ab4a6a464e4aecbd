//! Bounds the rate of the HTTP/2 frames that bring nothing further: PING, SETTINGS, RST_STREAM,
//! PRIORITY, empty DATA, and frames of unknown types.
//!
//! h2 answers or reads over each of them, and a client that sends nothing else takes a core. Each costs
//! a point. Requests, data and what the client is sent win points back, and so does time: gRPC sends
//! PINGs beside its data. A request that is reset at once costs one more than it has won. WINDOW_UPDATE
//! costs nothing: it may let a byte of an answer go, and answers that go too slowly have their own end.

use tokio::time::Instant;

use crate::h2_frames::frame_head::{CONTINUATION, DATA, HEADERS, RST_STREAM, WINDOW_UPDATE};

/// What GOAWAY says then: `ENHANCE_YOUR_CALM` [RFC9113 §7].
const ENHANCE_YOUR_CALM: u32 = 0xb;

/// The most points: some browsers reset hundreds of requests at once when a page is left.
const POINTS_MAX: u32 = 1000;

/// Points won back a second. A hundred such frames a second cost less than a thousandth of a core.
const POINTS_A_SECOND: u32 = 100;

/// Bytes sent to the client that win a point back.
const BYTES_A_POINT: usize = 256;

/// What a client may still send of such frames.
#[derive(Debug)]
pub(crate) struct FrameBudget {
    points: u32,
    /// When time was last counted.
    counted: Option<Instant>,
    sent: usize,
    stream_max: u32,
    is_spent: bool,
}

impl Default for FrameBudget {
    fn default() -> Self {
        let (points, counted, sent) = (POINTS_MAX, None, 0);
        Self { points, counted, sent, stream_max: 0, is_spent: false }
    }
}

impl FrameBudget {
    /// The client has sent a frame of this kind.
    pub(crate) fn came(&mut self, kind: u8, stream: u32, is_empty: bool) {
        self.stream_max = self.stream_max.max(stream);
        match kind {
            HEADERS => self.win(1),
            DATA if !is_empty => self.win(1),
            // The latter is a part of a HEADERS frame, and h2 bounds how many there may be.
            WINDOW_UPDATE | CONTINUATION => {}
            RST_STREAM => self.spend(2),
            _ => self.spend(1),
        }
    }

    /// The client has been sent this number of bytes.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.sent += bytes;
        self.win((self.sent / BYTES_A_POINT).try_into().unwrap_or(POINTS_MAX));
        self.sent %= BYTES_A_POINT;
    }

    fn win(&mut self, points: u32) {
        self.points = self.points.saturating_add(points).min(POINTS_MAX);
    }

    fn spend(&mut self, points: u32) {
        let counted = *self.counted.get_or_insert_with(Instant::now);
        if self.points < points {
            let now = Instant::now();
            let since = now.duration_since(counted).as_secs_f64();
            self.counted = Some(now);
            self.win((since * f64::from(POINTS_A_SECOND)) as u32);
        }
        match self.points.checked_sub(points) {
            Some(left) => self.points = left,
            None => self.is_spent = true,
        }
    }

    /// Whether the client has sent more of them than it may.
    pub(crate) fn is_spent(&self) -> bool {
        self.is_spent
    }

    /// The frame that tells so [RFC9113 §6.8].
    pub(crate) fn goaway(&self) -> [u8; 17] {
        let mut frame = [0; 17];
        (frame[2], frame[3]) = (8, 7);
        frame[9..13].copy_from_slice(&self.stream_max.to_be_bytes());
        frame[13..].copy_from_slice(&ENHANCE_YOUR_CALM.to_be_bytes());
        frame
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::advance;

    use super::*;

    const PING: u8 = 6;

    /// How many of a thousand rounds of `frames` the client may send.
    fn rounds(budget: &mut FrameBudget, frames: &[(u8, bool)]) -> usize {
        let mut came = || {
            frames.iter().for_each(|(kind, is_empty)| budget.came(*kind, 1, *is_empty));
            !budget.is_spent()
        };
        (0..5000).take_while(|_| came()).count()
    }

    #[tokio::test(start_paused = true)]
    async fn frames_that_bring_nothing_are_a_thousand_and_a_hundred_a_second() {
        for frames in [&[(PING, false)][..], &[(4, false)], &[(DATA, true)], &[(0x77, false)]] {
            assert_eq!(rounds(&mut FrameBudget::default(), frames), 1000, "{frames:?}");
        }
        // A request that is reset costs a point.
        let resets = [(HEADERS, false), (RST_STREAM, false)];
        assert_eq!(rounds(&mut FrameBudget::default(), &resets), 999);
        let mut budget = FrameBudget::default();
        (0..1000).for_each(|_| budget.came(PING, 0, false));
        advance(Duration::from_secs(2)).await;
        assert_eq!(rounds(&mut budget, &[(PING, false)]), 200);
    }

    #[tokio::test(start_paused = true)]
    async fn who_asks_sends_or_reads_may_send_more_of_them() {
        for frames in [[(HEADERS, false), (PING, false)], [(DATA, false), (PING, false)]] {
            assert_eq!(rounds(&mut FrameBudget::default(), &frames), 5000, "{frames:?}");
        }
        let mut budget = FrameBudget::default();
        for _ in 0..5000 {
            budget.sent(1024);
            (0..4).for_each(|_| budget.came(PING, 1, false));
        }
        assert!(!budget.is_spent());
    }
}
