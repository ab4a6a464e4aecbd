//! How long a request holds its permit of the gate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::Frame;
use tamarisk_stage::GatePermit;

use crate::deadline::Deadline;
use crate::grpc::grpc_failure;

/// Bytes of body after which the permit is released: from here on the pace is the client's and the
/// network's. hyper takes in as many without waiting for the client, so a slow client never holds a
/// place.
pub const READY_BYTES: usize = 64 * 1024;

/// An answer that is not ready so long after its body first paused may be a stream (of
/// events, say): it has no place any more, and its time says nothing.
const STREAM_TIME: Duration = Duration::from_secs(5);

/// After this many pieces of data after a stream's first, the law is told how long they took.
const PROGRESS_PIECES: u32 = 8;

/// A stream that sends nothing for so long gives its place up. That is longer than a pause of an
/// upstream (to collect garbage, say), and shorter than the time between the events of a stream of
/// notifications, which uses no worker meanwhile. The law learns nothing from the time without a
/// place.
const SILENCE: Duration = Duration::from_secs(10);

/// A permit, from the head of an answer to the moment it counts as ready.
pub struct Hold {
    permit: Option<GatePermit>,
    end: End,
    /// What it is, if it is held to its end.
    stream: Option<Stream>,
    /// What comes after [`STREAM_TIME`].
    late: Late,
    bytes: usize,
    /// For an answer to become ready; for a stream to send more.
    patience: Deadline,
    outcome: Option<HeldOutcome>,
}

/// What the accounts say of a request whose place is held, for the access log. Clones
/// share it.
#[derive(Clone, Debug)]
pub struct HeldOutcome(Arc<AtomicU8>);

/// Where the place is held still, [`OUTCOMES`] has what becomes of a request whose client leaves now.
const HELD: u8 = 0;
const COMPLETED: u8 = 1;
const FAILED: u8 = 2;
const ABANDONED: u8 = 3;
const OUTCOMES: [&str; 4] = ["abandoned", "completed", "failed", "abandoned"];

impl HeldOutcome {
    /// The answer is over for its client: what the accounts say of the request, or will say. If
    /// its place is held still, it counts as abandoned from now on.
    pub fn settle(&self) -> &'static str {
        OUTCOMES[usize::from(self.decide(ABANDONED))]
    }

    /// The outcome: this one, unless another has been decided on before.
    fn decide(&self, outcome: u8) -> u8 {
        let order = Ordering::Relaxed;
        self.0.compare_exchange(HELD, outcome, order, order).err().unwrap_or(outcome)
    }
}

/// What the end of an answer says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum End {
    /// The upstream did its work.
    Done,
    /// It did not, and why.
    Failed(String),
    /// Nothing: it was abandoned.
    Abandoned,
}

/// What becomes of an answer that is not ready for long, and is not known to be a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Late {
    /// It is done.
    Completes,
    /// It gives its place up, and is open until it ends.
    WillStayOpen,
    /// It has done so.
    StaysOpen,
}

/// How far a stream is, and why it has no place, if it has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stream {
    /// How many pieces of data have come, counted until the law is told of its progress.
    pieces: u32,
    client_is_waited_for: bool,
    is_silent: bool,
}

impl Stream {
    fn has_data(&self) -> bool {
        self.pieces > 0
    }

    fn is_suspended(&self) -> bool {
        self.client_is_waited_for || self.is_silent
    }

    /// Gives the place of `permit` up or takes it again, if this change is a reason to.
    fn change(&mut self, permit: &mut GatePermit, change: impl FnOnce(&mut Self)) {
        let before = self.is_suspended();
        change(self);
        match (before, self.is_suspended()) {
            (false, true) => permit.suspend(),
            (true, false) => permit.resume(),
            _ => {}
        }
    }

    /// A piece of data has come.
    fn passes(&mut self, permit: &mut GatePermit) {
        const LAST: u32 = 1 + PROGRESS_PIECES;
        self.change(permit, |stream| stream.is_silent = false);
        if self.pieces == LAST {
            return;
        }
        self.pieces += 1;
        match self.pieces {
            1 => permit.first_data(),
            LAST => permit.progressed(),
            _ => {}
        }
    }
}

impl Hold {
    /// Of an answer that counts as failed, `failure` says why.
    pub fn new(permit: GatePermit, failure: Option<String>) -> Self {
        let end = failure.map_or(End::Done, End::Failed);
        let (permit, patience) = (Some(permit), Deadline::default());
        let late = Late::Completes;
        Self { permit, end, stream: None, late, bytes: 0, patience, outcome: None }
    }

    /// What the accounts will say of the request.
    pub fn outcome(&mut self) -> HeldOutcome {
        self.outcome.get_or_insert_with(|| HeldOutcome(Arc::new(AtomicU8::new(HELD)))).clone()
    }

    /// It is a stream: it is answered with its first data, and holds its place to its end, except
    /// while it sends nothing for long or its client is waited for.
    pub fn streams(&mut self) {
        self.stream = Some(Stream::default());
    }

    /// The reader of the answer notices when nothing comes of it any more. So an answer that is not
    /// ready for long is neither done nor failed: it gives its place up, and is open until it ends.
    pub fn stays_open(&mut self) {
        self.late = Late::WillStayOpen;
    }

    /// Whether its end is near, as far as can be told.
    pub fn ends_soon(&self) -> bool {
        self.stream.is_none() && self.late != Late::StaysOpen
    }

    /// Whether it is a stream.
    pub fn is_stream(&self) -> bool {
        self.stream.is_some()
    }

    /// Whether the answer is not ready.
    pub fn is_held(&self) -> bool {
        self.permit.is_some()
    }

    /// Follows what a poll of the answer's body has brought.
    pub fn follow<E>(
        &mut self,
        polled: &Poll<Option<Result<Frame<Bytes>, E>>>,
        cx: &mut Context<'_>,
    ) {
        match polled {
            Poll::Pending => self.waits(cx),
            Poll::Ready(Some(Err(_))) => self.breaks(),
            Poll::Ready(Some(Ok(frame))) if frame.is_data() => {
                self.passes(frame.data_ref().map_or(0, Bytes::len));
            }
            Poll::Ready(Some(Ok(trailers))) => {
                if let Some(why) = trailers.trailers_ref().and_then(grpc_failure) {
                    self.fails(why);
                }
                self.ends();
            }
            Poll::Ready(None) => self.ends(),
        }
    }

    /// All of the answer is there, with this many bytes of data.
    pub fn completes(&mut self, bytes: usize) {
        self.passes(bytes);
        self.ends();
    }

    /// The answer is ready.
    pub fn ends(&mut self) {
        let Some(permit) = self.permit.take() else { return };
        let outcome = match self.end {
            End::Done => COMPLETED,
            End::Failed(_) => FAILED,
            End::Abandoned => ABANDONED,
        };
        match (self.outcome.as_ref().map_or(outcome, |it| it.decide(outcome)), &mut self.end) {
            (COMPLETED, _) => permit.complete(),
            (FAILED, End::Failed(why)) => permit.fail_because(std::mem::take(why)),
            // Its caller had left, and the upstream has gone on.
            _ => permit.outlast(),
        }
    }

    /// The client has left.
    pub fn abandon(&mut self) {
        self.end = End::Abandoned;
    }

    /// Whether it is the client that a stream waits for. That time is no silence of the upstream.
    pub fn set_suspended(&mut self, suspended: bool) {
        if let (Some(stream), Some(permit)) = (&mut self.stream, &mut self.permit)
            && stream.client_is_waited_for != suspended
        {
            stream.change(permit, |stream| stream.client_is_waited_for = suspended);
            self.patience.stop();
        }
    }

    fn passes(&mut self, bytes: usize) {
        let Some(stream) = &mut self.stream else {
            self.bytes = self.bytes.saturating_add(bytes);
            if self.bytes > READY_BYTES {
                self.ends();
            }
            return;
        };
        if bytes > 0
            && let Some(permit) = &mut self.permit
        {
            self.patience.stop();
            stream.passes(permit);
        }
    }

    fn waits(&mut self, cx: &mut Context<'_>) {
        let Some(permit) = &mut self.permit else { return };
        match &mut self.stream {
            None if self.late == Late::StaysOpen => {}
            None => {
                if self.patience.poll_over(STREAM_TIME, cx).is_ready() {
                    permit.untimed();
                    match self.late {
                        Late::Completes => self.ends(),
                        Late::WillStayOpen | Late::StaysOpen => {
                            self.late = Late::StaysOpen;
                            permit.suspend();
                        }
                    }
                }
            }
            // Before its first data it is the upstream's work that a stream waits for.
            Some(stream) if stream.has_data() && !stream.is_suspended() => {
                if self.patience.poll_over(SILENCE, cx).is_ready() {
                    stream.change(permit, |stream| stream.is_silent = true);
                }
            }
            Some(_) => {}
        }
    }

    /// Nothing has come of the answer for too long.
    pub fn stalls(&mut self) {
        self.fails("stopped within its answer".to_owned());
        self.ends();
    }

    fn breaks(&mut self) {
        self.fails("closed the connection within its answer".to_owned());
        self.ends();
    }

    fn fails(&mut self, why: String) {
        if self.end != End::Abandoned {
            self.end = End::Failed(why);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::future::poll_fn;

    use parking_lot::Mutex;
    use tamarisk_control::{
        AdmissionLaw, Arrival, Backlog, Change, Decision, Dequeue, Moved, Timestamp, Waiting,
    };
    use tamarisk_stage::{Accounts, Clock, Entry, Gate, StageBuilder};
    use tokio::time::{Instant, advance, timeout};

    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const SECOND: Duration = Duration::from_secs(1);

    /// A law that admits everything and notes what it is told of places.
    #[derive(Clone, Default)]
    struct Law(Arc<Mutex<Vec<(Change, Duration)>>>);

    impl AdmissionLaw for Law {
        fn name(&self) -> &'static str {
            "notes"
        }

        fn on_arrival(&mut self, _: Timestamp, _: &Arrival, _: &Backlog<'_>) -> Decision {
            Decision::Admit
        }

        fn on_dequeue(&mut self, _: Timestamp, _: &Waiting, _: &Backlog<'_>) -> Dequeue {
            Dequeue::Run
        }

        fn on_move(&mut self, _: Timestamp, moved: &Moved, _: &Backlog<'_>) {
            self.0.lock().push((moved.change, moved.time));
        }
    }

    /// A stream that holds the only place of a gate.
    struct Rig {
        gate: Gate,
        law: Law,
        hold: Hold,
    }

    impl Rig {
        fn new() -> Self {
            let law = Law::default();
            let builder = StageBuilder::new("gate").workers(1).clock(Clock::runtime());
            let gate = builder.law(law.clone()).gate().unwrap();
            let mut hold = Hold::new(gate.try_enter(Entry::new()).unwrap(), None);
            hold.streams();
            Self { gate, law, hold }
        }

        /// A stream whose first data has come.
        fn with_data() -> Self {
            let mut rig = Self::new();
            rig.data("first");
            rig
        }

        fn follow(&mut self, polled: Poll<Option<Frame<Bytes>>>, cx: &mut Context<'_>) {
            self.hold.follow(&polled.map(|frame| frame.map(Ok::<_, Infallible>)), cx);
        }

        fn data(&mut self, data: &'static str) {
            let frame = Frame::data(Bytes::from_static(data.as_bytes()));
            self.follow(
                Poll::Ready(Some(frame)),
                &mut Context::from_waker(std::task::Waker::noop()),
            );
        }

        /// `count` pieces of data come, each after `time`.
        async fn pieces(&mut self, count: u32, time: Duration) {
            for _ in 0..count {
                advance(time).await;
                self.data("more");
            }
        }

        /// The body pends for so long. When in that time its place was given up, if it was.
        async fn pends(&mut self, time: Duration) -> Option<Duration> {
            let start = Instant::now();
            let given_up = poll_fn(|cx| {
                let had_place = self.has_place();
                self.follow(Poll::Pending, cx);
                if had_place && !self.has_place() { Poll::Ready(()) } else { Poll::Pending }
            });
            let given_up = timeout(time, given_up).await.is_ok().then(|| start.elapsed());
            advance(time - start.elapsed()).await;
            given_up
        }

        fn accounts(&self) -> Accounts {
            let total = self.gate.observe().total();
            assert!(total.balance(), "{total:?}");
            total
        }

        fn has_place(&self) -> bool {
            let total = self.accounts();
            assert_eq!(total.running + total.suspended, 1, "{total:?}");
            total.running == 1
        }

        fn told(&self) -> Vec<(Change, Duration)> {
            self.law.0.lock().clone()
        }

        /// How long eight pieces took, each time that the law was told so.
        fn progress(&self) -> Vec<Duration> {
            let progressed = |(change, _): &(Change, Duration)| *change == Change::Progressed;
            self.told().into_iter().filter(progressed).map(|(_, time)| time).collect()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn eight_pieces_after_the_first_are_told_once_with_their_time() {
        let mut rig = Rig::new();
        rig.pieces(1, 40 * MS).await;
        for _ in 0..7 {
            rig.pieces(1, 10 * MS).await;
            rig.data("");
        }
        assert_eq!(rig.told(), [(Change::FirstData, 40 * MS)]);
        rig.pieces(1, 30 * MS).await;
        let told = [(Change::FirstData, 40 * MS), (Change::Progressed, 100 * MS)];
        assert_eq!(rig.told(), told);
        rig.pieces(20, 10 * MS).await;
        assert_eq!(rig.told(), told);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_of_eight_pieces_tells_of_no_progress() {
        let mut rig = Rig::new();
        rig.pieces(8, 10 * MS).await;
        rig.hold.ends();
        assert_eq!(rig.told(), [(Change::FirstData, 10 * MS)]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_of_progress_is_without_that_of_suspensions() {
        let mut rig = Rig::with_data();
        rig.pieces(3, 10 * MS).await;
        rig.hold.set_suspended(true);
        advance(SECOND).await;
        rig.hold.set_suspended(false);
        rig.pieces(3, 10 * MS).await;
        assert_eq!(rig.pends(60 * SECOND).await, Some(10 * SECOND));
        rig.pieces(2, 10 * MS).await;
        // Seven pieces took ten milliseconds each. Of the time before the other one counts what
        // passed until the place was given up.
        assert_eq!(rig.progress(), [10 * SECOND + 70 * MS]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_stream_has_no_place_until_its_next_data() {
        let mut rig = Rig::with_data();
        assert_eq!(rig.pends(25 * SECOND).await, Some(10 * SECOND));
        let other = rig.gate.try_enter(Entry::new()).unwrap();
        other.complete();
        rig.data("");
        assert!(!rig.has_place());
        rig.data("more");
        assert!(rig.has_place());
        // Each piece of data begins another ten seconds.
        assert_eq!(rig.pends(9 * SECOND).await, None);
        rig.data("more");
        assert_eq!(rig.pends(9 * SECOND).await, None);
        rig.data("more");
        assert_eq!(rig.pends(60 * SECOND).await, Some(10 * SECOND));
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_stream_ends_with_its_place() {
        let mut rig = Rig::with_data();
        assert!(rig.pends(20 * SECOND).await.is_some());
        rig.hold.ends();
        assert_eq!((rig.accounts().completed, rig.accounts().inside()), (1, 0));
        let changes: Vec<_> = rig.told().into_iter().map(|(change, _)| change).collect();
        assert_eq!(changes, [Change::FirstData, Change::StreamSuspended, Change::StreamResumed]);
    }

    #[tokio::test(start_paused = true)]
    async fn before_its_first_data_a_stream_keeps_its_place() {
        let mut rig = Rig::new();
        rig.data("");
        assert_eq!(rig.pends(60 * SECOND).await, None);
        assert_eq!(rig.told(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn a_stream_goes_on_when_it_is_neither_silent_nor_waits_for_its_client() {
        let mut rig = Rig::with_data();
        assert!(rig.pends(10 * SECOND + MS).await.is_some());
        rig.hold.set_suspended(true);
        rig.hold.set_suspended(false);
        assert!(!rig.has_place(), "it is silent still");
        rig.hold.set_suspended(true);
        rig.data("more");
        assert!(!rig.has_place(), "its client is waited for still");
        rig.hold.set_suspended(false);
        assert!(rig.has_place());
    }

    #[tokio::test(start_paused = true)]
    async fn while_its_client_is_waited_for_a_stream_is_not_silent() {
        let mut rig = Rig::with_data();
        assert_eq!(rig.pends(6 * SECOND).await, None);
        rig.hold.set_suspended(true);
        assert_eq!(rig.pends(60 * SECOND).await, None);
        rig.hold.set_suspended(false);
        assert!(rig.has_place());
        assert_eq!(rig.pends(60 * SECOND).await, Some(10 * SECOND));
    }
}
