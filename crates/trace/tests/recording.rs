//! Traces as files: what is written, what is read, and what is noticed.
#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

#[path = "../../laws/tests/it/every_ability/mod.rs"]
mod every_ability;

use std::path::{Path, PathBuf};
use std::time::Duration;

use tamarisk_control::{
    AdmissionLaw, Arrival, Backlog, ClassId, Classes, Concurrency, Ending, Finished, Target,
    Timestamp, Together, Weight,
};
use tamarisk_laws::PredictGateTrim;
use tamarisk_trace::{Close, End, Event, ReadError, Reader, RecordError, Recorder, Traced};

fn scratch(name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

fn classes() -> Classes {
    let classes = Classes::single(Target::p90(Duration::from_millis(200)).unwrap());
    classes.weighted(ClassId::DEFAULT, Weight::new(3).unwrap())
}

fn traced(recorder: &Recorder) -> Traced {
    let law = Box::new(PredictGateTrim::new(&classes()));
    recorder.trace(law, "web", &classes(), &[("standing_wait_ratio", 0.1)])
}

/// `count` arrivals, each of which ends after 5 ms.
fn rule(law: &mut dyn AdmissionLaw, count: u64) {
    for number in 0..count {
        let now = Timestamp::from_nanos(number * 7_000_000);
        let mut backlog = Backlog {
            queued: &[0],
            running: &[0],
            queued_total: 0,
            running_total: 0,
            workers: Concurrency::new(4),
        };
        let class = ClassId::DEFAULT;
        law.on_arrival(now, &Arrival { class, deadline: None, flow: number, kind: 0 }, &backlog);
        backlog.running = &[1];
        backlog.running_total = 1;
        let service = Duration::from_millis(5);
        let finished = Finished {
            class,
            service,
            response: service,
            ending: Ending::Completed,
            kind: 0,
            together: Together::ALONE,
        };
        law.on_finish(now + service, &finished, &backlog);
    }
}

/// The whole of a trace: how many records, and how it ended.
fn read(bytes: &[u8]) -> Result<(u64, Option<End>), ReadError> {
    let mut reader = Reader::new(bytes)?;
    let mut records = 0;
    while reader.next()?.is_some() {
        records += 1;
    }
    Ok((records, reader.end()))
}

fn recorded(name: &str, count: u64) -> (Vec<u8>, End) {
    let path = scratch(name);
    let recorder = Recorder::create(&path, Recorder::BYTES_MAX).unwrap();
    let mut law = traced(&recorder);
    rule(&mut law, count);
    let end = recorder.finish().unwrap();
    (std::fs::read(path).unwrap(), end)
}

#[test]
fn a_file_holds_what_the_law_was_told() {
    let (bytes, end) = recorded("told.trace", 20_000);
    assert_eq!(
        end,
        End { close: Close::Finished, records: 40_000, lost: 0, bytes: bytes.len() as u64 }
    );
    assert_eq!(read(&bytes).unwrap(), (40_000, Some(end)));
    assert!(bytes.len() < 20 * 40_000, "{} bytes", bytes.len());

    let mut reader = Reader::new(&*bytes).unwrap();
    let head = reader.head();
    assert_eq!((&*head.stage, &*head.law), ("web", "predict-gate-trim"));
    assert_eq!(head.knobs, [("standing_wait_ratio".to_owned(), 0.1)]);
    assert_eq!(head.classes, classes());
    let Event::Arrival { arrival, .. } = reader.next().unwrap().unwrap().event else {
        panic!("it began with an arrival");
    };
    assert_eq!(arrival.flow, 0);
    assert_eq!(reader.backlog().workers.get(), 4);
}

#[test]
fn a_flipped_bit_is_found_out_wherever_it_is() {
    let (mut bytes, _) = recorded("flipped.trace", 60);
    for place in 0..bytes.len() {
        bytes[place] ^= 1 << (place % 8);
        assert!(read(&bytes).is_err(), "byte {place} of {}", bytes.len());
        bytes[place] ^= 1 << (place % 8);
    }
    assert!(read(&bytes).is_ok());
}

#[test]
fn a_cut_file_is_cut_short_or_has_no_end() {
    let (bytes, _) = recorded("cut.trace", 60);
    for length in 0..bytes.len() {
        assert!(!matches!(read(&bytes[..length]), Ok((_, Some(_)))), "{length} bytes");
    }
    let (_, end) = read(&bytes[..bytes.len() - 1]).map_or((0, None), |read| read);
    assert_eq!(end, None);
}

#[test]
fn a_cut_file_gives_the_records_before_the_cut() {
    let (bytes, _) = recorded("stump.trace", 20_000);
    // The last block says how the trace ended; the one before it has the last records.
    for (length, expected) in [(bytes.len() - 1, 40_000..40_001), (bytes.len() - 60, 1..40_000)] {
        let mut reader = Reader::new(&bytes[..length]).unwrap();
        let mut records = 0;
        while reader.next_complete().unwrap().is_some() {
            records += 1;
        }
        assert!(expected.contains(&records), "{records} in {length} bytes");
        assert_eq!(reader.end(), None);
        assert!(matches!(read(&bytes[..length]), Err(ReadError::Truncated { .. })));
    }
    assert!(matches!(Reader::new(&bytes[..20]), Err(ReadError::Truncated { .. })));
}

#[test]
fn errors_say_what_and_where() {
    let (bytes, _) = recorded("errors.trace", 60);
    let error = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    assert_eq!(error(b"PNG, rather"), "not a trace: the file does not begin with `TAMTRACE`");
    assert_eq!(error(b"TAMTRACE\x07..."), "the trace has version 7; this program reads version 4");
    assert_eq!(error(&bytes[..20]), "the trace is cut short: the block at byte 9 is not complete");
    let mut damaged = bytes.clone();
    damaged[30] ^= 1;
    assert!(error(&damaged).ends_with("the checksum of the block at byte 9 is wrong"));
    let behind = [&*bytes, b"."].concat();
    assert!(error(&behind).ends_with(&format!("invalid record at byte {}", bytes.len())));
    let huge = [b"TAMTRACE\x04", &[0xff; 8][..]].concat();
    assert!(error(&huge).ends_with("invalid record at byte 9"));
}

#[test]
fn a_full_file_ends_in_good_order() {
    let path = scratch("full.trace");
    let recorder = Recorder::create(&path, 0).unwrap();
    let mut law = traced(&recorder);
    while !recorder.is_full() {
        rule(&mut law, 1000);
    }
    let end = recorder.finish().unwrap();
    assert_eq!(end.close, Close::Full);
    assert!(end.bytes <= Recorder::BYTES_LEAST && end.bytes > Recorder::BYTES_LEAST / 2);
    let (records, read) = read(&std::fs::read(path).unwrap()).unwrap();
    assert_eq!(read.unwrap().close, Close::Full);
    assert!(records > 10_000 && records <= end.records);
}

#[test]
fn a_disk_without_room_is_reported_and_holds_nothing_up() {
    let full = Recorder::create(Path::new("/dev/full"), Recorder::BYTES_MAX);
    assert!(matches!(full, Err(RecordError::Write(_))));
    assert!(Recorder::create(&scratch("no/such/place"), 0).is_err());
}

#[test]
fn a_second_law_is_let_alone() {
    let path = scratch("second.trace");
    let recorder = Recorder::create(&path, Recorder::BYTES_MAX).unwrap();
    let (mut first, mut second) = (traced(&recorder), traced(&recorder));
    rule(&mut second, 100);
    rule(&mut first, 10);
    assert_eq!(recorder.finish().unwrap().records, 20);
    assert!(matches!(recorder.finish(), Err(RecordError::Nothing)));
}

#[test]
fn a_law_decides_as_it_does_unrecorded() {
    let recorder = Recorder::create(&scratch("every-ability"), 0).unwrap();
    let law = Box::new(every_ability::EveryAbility::default());
    let mut traced = recorder.trace(law, "web", &classes(), &[]);
    let mut alone = every_ability::EveryAbility::default();
    assert_eq!(every_ability::answers(&mut traced), every_ability::answers(&mut alone));
    let mut shown = Vec::new();
    traced.readings(&mut |reading| shown.push(reading.value));
    assert_eq!(shown, [alone.calls()]);
}
