//! The write buffer of a trace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;

use tamarisk_control::{Backlog, Timestamp};

use crate::encode::Encoder;
use crate::record::{Event, Record};
use crate::wire::BLOCK_HEAD;

/// The size of a buffer: some two thousand records, so that handing it over costs
/// nothing by comparison.
pub(crate) const BUFFER: usize = 32 * 1024;

/// How many there are: four megabytes, which hold what a stage with a hundred thousand
/// records a second does in two seconds. A disk that is silent for longer costs records.
pub(crate) const BUFFERS: usize = 128;

/// What has been recorded reaches the file after this time at most, if there are ticks.
const KEPT_MAX: Duration = Duration::from_secs(1);

/// Turns records into blocks. Nothing here waits or allocates.
#[derive(Debug)]
pub(crate) struct Pen {
    encoder: Encoder,
    buffer: Option<Vec<u8>>,
    /// When the first record of the buffer was.
    begun: Timestamp,
    /// `None` after the end.
    full: Option<SyncSender<Vec<u8>>>,
    empty: Receiver<Vec<u8>>,
    /// Set when there is no use in recording any more.
    stopped: Arc<AtomicBool>,
    records: u64,
    /// In all, and since the last record that was kept.
    lost: u64,
    gap: u64,
}

impl Pen {
    pub(crate) fn new(
        classes: usize,
        full: SyncSender<Vec<u8>>,
        empty: Receiver<Vec<u8>>,
        stopped: Arc<AtomicBool>,
    ) -> Self {
        let encoder = Encoder::new(classes);
        let begun = Timestamp::ZERO;
        let full = Some(full);
        Self { encoder, buffer: None, begun, full, empty, stopped, records: 0, lost: 0, gap: 0 }
    }

    /// How many records were kept, and how many were not.
    pub(crate) const fn counts(&self) -> (u64, u64) {
        (self.records, self.lost)
    }

    /// When the latest record that was kept was.
    pub(crate) const fn now(&self) -> Timestamp {
        self.encoder.now()
    }

    pub(crate) fn put(&mut self, record: &Record, backlog: Option<&Backlog<'_>>) {
        if self.stopped.load(Ordering::Relaxed) {
            return;
        }
        if !self.has_buffer(record) {
            self.lost += 1;
            self.gap += 1;
            return;
        }
        let Some(buffer) = &mut self.buffer else { return };
        self.encoder.put(buffer, record, backlog);
        self.records += 1;
        let room = BUFFER - buffer.len();
        let old = record.event == Event::Tick && record.at.since(self.begun) >= KEPT_MAX;
        // A record may be preceded by that of a gap.
        if room < 2 * self.encoder.record_max() || old {
            self.flush();
        }
    }

    /// Whether there is room for `record`; begins a new block if need be.
    fn has_buffer(&mut self, record: &Record) -> bool {
        if self.buffer.is_some() {
            return true;
        }
        let Ok(mut buffer) = self.empty.try_recv() else { return false };
        buffer.clear();
        buffer.extend([0; BLOCK_HEAD]);
        if self.gap > 0 {
            let gap = Event::Gap { lost: std::mem::take(&mut self.gap) };
            self.encoder.put(&mut buffer, &Record { event: gap, ..*record }, None);
        }
        self.buffer = Some(buffer);
        self.begun = record.at;
        true
    }

    /// Hands over what there is.
    pub(crate) fn flush(&mut self) {
        let Some(buffer) = self.buffer.take() else { return };
        // There is room for every buffer; only a writer that is gone takes none.
        if self.full.as_ref().is_none_or(|full| full.try_send(buffer).is_err()) {
            self.stopped.store(true, Ordering::Relaxed);
        }
    }

    /// Nothing more will come: the writer need not wait.
    pub(crate) fn hang_up(&mut self) {
        self.full = None;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{channel, sync_channel};

    use tamarisk_control::Concurrency;

    use super::*;
    use crate::decode::Decoder;
    use crate::wire::Bytes;

    const BACKLOG: Backlog<'_> = Backlog {
        queued: &[3],
        running: &[1],
        queued_total: 3,
        running_total: 1,
        workers: Concurrency::ONE,
    };

    fn tick(millis: u64) -> Record {
        let at = Timestamp::from_nanos(millis * 1_000_000);
        Record { at, limit: None, event: Event::Tick }
    }

    #[test]
    fn records_without_a_buffer_are_counted_and_leave_a_gap() {
        let (full, written) = sync_channel(2);
        let (give_back, empty) = channel();
        let mut pen = Pen::new(1, full, empty, Arc::default());
        pen.put(&tick(0), Some(&BACKLOG));
        pen.put(&tick(100), Some(&BACKLOG));
        give_back.send(Vec::new()).unwrap();
        pen.put(&tick(200), Some(&BACKLOG));
        pen.flush();
        assert_eq!(pen.counts(), (1, 2));

        let block = written.recv().unwrap();
        let (mut bytes, mut decoder) = (Bytes::new(&block[BLOCK_HEAD..]), Decoder::new(1));
        let gap = decoder.next(&mut bytes).unwrap();
        assert_eq!(gap.event, Event::Gap { lost: 2 });
        assert_eq!(decoder.next(&mut bytes), Some(tick(200)));
        assert_eq!(decoder.backlog().queued_total, 3);
        assert!(bytes.is_empty());
    }

    #[test]
    fn what_is_a_second_old_is_handed_over() {
        let (full, written) = sync_channel(2);
        let (give_back, empty) = channel();
        give_back.send(Vec::new()).unwrap();
        let mut pen = Pen::new(1, full, empty, Arc::default());
        pen.put(&tick(0), Some(&BACKLOG));
        pen.put(&tick(900), Some(&BACKLOG));
        assert!(written.try_recv().is_err());
        pen.put(&tick(1000), Some(&BACKLOG));
        assert!(written.try_recv().is_ok());
    }
}
