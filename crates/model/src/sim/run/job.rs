//! Jobs: requests, and the clients that send another, in reused slots.

use std::ops::{Index, IndexMut};

use tamarisk_control::{ClassId, Timestamp, Waiting};

use crate::sim::plan::random::Stream;

/// A request on its way, or a client between two of its requests or attempts.
#[derive(Clone, Debug)]
pub(super) struct Job {
    /// What the client does: its classes, what its requests are, how long it thinks.
    pub(super) behaviour: Stream,
    /// What the present request is: the same seed, the same work and ways.
    pub(super) seed: u64,
    /// How far the present attempt has drawn from it.
    pub(super) draws: Stream,
    /// Of the attempt.
    pub(super) number: u64,
    /// When the attempt came to the network, in nanoseconds.
    pub(super) arrived: u64,
    /// When it came to its present stage.
    pub(super) entered: u64,
    /// When it left the queue there.
    pub(super) started: u64,
    /// [`u64::MAX`] if there is none.
    pub(super) deadline: u64,
    /// How long its first step at the entry takes, if that was recorded; else [`u64::MAX`].
    pub(super) recorded: u64,
    /// When its present step is done, if that is in the calendar; else [`u64::MAX`]. An
    /// entry of another instant is that of a step which was ended early.
    pub(super) due: u64,
    /// When it is ended if it still runs; else [`u64::MAX`].
    pub(super) limit: u64,
    /// When its client leaves if it still waits for its answer; else [`u64::MAX`].
    pub(super) leaves: u64,
    /// When its client sends another one if it still waits for this one's answer; else
    /// [`u64::MAX`].
    pub(super) resend: u64,
    /// When the first data of a stream is out, once that is known; else [`u64::MAX`].
    pub(super) first_data: u64,
    /// Of its stay at its present stage: no two stays have the same.
    pub(super) visit: u64,
    pub(super) class: ClassId,
    /// As laws see it; 0 if it is of no kind.
    pub(super) kind: u32,
    /// Of its class and kind together: the place of its services, routes and lines in plans.
    pub(super) request_type: u32,
    pub(super) stage: u32,
    pub(super) client: u32,
    pub(super) flow: u32,
    /// As laws see it; 0 if they are not told.
    pub(super) told_flow: u32,
    /// Its present one, in the list of the plan.
    pub(super) step: u32,
    /// Retries so far.
    pub(super) attempts: u32,
    /// The page that it is a call of; else [`NOBODY`].
    pub(super) page: u32,
    /// Requests of its client before it that were not answered in time, in a row.
    pub(super) unanswered: u32,
    /// Who is next in its batch; else [`NOBODY`].
    pub(super) follower: u32,
    /// Whether it has not yet been served at the stage it came in by.
    pub(super) at_entry: bool,
    pub(super) phase: Phase,
    /// Whether one of the workers of its stage is its own.
    pub(super) has_worker: bool,
    /// Whether its reply will never come.
    pub(super) is_lost: bool,
    /// Whether its client has left while it ran.
    pub(super) is_left: bool,
    /// Whether its client has sent another one, and goes on with that one's answer.
    pub(super) is_superseded: bool,
}

/// Where a job is at its stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// At none, or rejected there.
    Away,
    Queued,
    /// In a worker's batch, and not begun.
    Held,
    Running,
    /// Running without a place.
    Parked,
}

/// No job has this index.
pub(super) const NOBODY: u32 = u32::MAX;

/// All of them. An index is valid until its slot is freed.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    slots: Vec<Job>,
    free: Vec<u32>,
}

/// Sixteen million requests inside or waiting to be sent again: two gigabytes.
const JOBS_MAX: usize = 1 << 24;

impl Jobs {
    /// A slot for `job`; `None` if there are too many.
    #[inline]
    pub(super) fn insert(&mut self, job: Job) -> Option<u32> {
        if let Some(id) = self.free.pop() {
            self.slots[id as usize] = job;
            return Some(id);
        }
        if self.slots.len() == JOBS_MAX {
            return None;
        }
        self.slots.push(job);
        Some(self.slots.len() as u32 - 1)
    }

    #[inline]
    pub(super) fn free(&mut self, id: u32) {
        self.free.push(id);
    }
}

impl Index<u32> for Jobs {
    type Output = Job;

    #[inline]
    fn index(&self, id: u32) -> &Job {
        &self.slots[id as usize]
    }
}

impl IndexMut<u32> for Jobs {
    #[inline]
    fn index_mut(&mut self, id: u32) -> &mut Job {
        &mut self.slots[id as usize]
    }
}

#[inline]
pub(super) fn deadline(job: &Job) -> Option<Timestamp> {
    (job.deadline != u64::MAX).then_some(Timestamp::from_nanos(job.deadline))
}

#[inline]
pub(super) fn waiting(job: &Job) -> Waiting {
    let entered = Timestamp::from_nanos(job.entered);
    let (flow, kind) = (u64::from(job.told_flow), u64::from(job.kind));
    Waiting { class: job.class, entered, deadline: deadline(job), flow, kind }
}
