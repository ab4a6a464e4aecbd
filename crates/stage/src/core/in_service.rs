//! The events that callers run under a permit: since when, and whether they hold a place.

use std::time::Duration;

use tamarisk_control::{ClassId, Timestamp};

use crate::queue::EventMetadata;

/// How many events of a stage may be parked at once. Each may keep a connection open; with
/// the 20,000 files that systems commonly allow, half of them are left for others.
const PARKED_MAX: u32 = 4096;

/// How many may be suspended at once: more than have connections, for silent streams, which may be
/// most, are not to keep slow clients from it. They may all go on at the same moment.
const SUSPENDED_MAX: u32 = 16_384;

/// A position in [`InService`]; it belongs to one permit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ServiceSlot(u32);

/// Whether an event in service holds one of the stage's places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// It does.
    Held,
    /// It has been in service for too long to count.
    Parked,
    /// It does, but its caller is waited for, since this instant; until it is inside for too long.
    Paused(Timestamp),
    /// Its caller is waited for, or it is a stream that sends nothing, since this instant.
    Suspended(Timestamp),
}

/// What a slot knows of its event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Served {
    pub(crate) class: ClassId,
    pub(crate) flow: u64,
    pub(crate) kind: u64,
    pub(crate) started: Timestamp,
    pub(crate) place: Place,
    /// It is a stream, whose first data is out.
    pub(crate) has_data: bool,
    /// How long it was paused or suspended before, in nanoseconds.
    pub(crate) suspended: u64,
}

impl Served {
    /// For how many nanoseconds it has been paused or suspended, until now.
    pub(crate) fn suspended(&self, now: Timestamp) -> u64 {
        match self.place {
            Place::Paused(since) | Place::Suspended(since) => {
                self.suspended + now.nanos_since(since)
            }
            Place::Held | Place::Parked => self.suspended,
        }
    }

    /// How long it has been worked on.
    pub(crate) fn service(&self, now: Timestamp) -> Duration {
        let until = match self.place {
            Place::Paused(since) | Place::Suspended(since) => since,
            Place::Held | Place::Parked => now,
        };
        Duration::from_nanos(until.nanos_since(self.started).saturating_sub(self.suspended))
    }
}

/// All events in service under a permit, at most as many as there are permits.
#[derive(Debug, Default)]
pub(crate) struct InService {
    slots: Vec<Option<Served>>,
    free: Vec<u32>,
    parked: u32,
    suspended: u32,
}

impl InService {
    /// An event starts, holding a place.
    #[inline]
    pub(crate) fn begin(&mut self, now: Timestamp, meta: &EventMetadata) -> ServiceSlot {
        let EventMetadata { class, flow, kind, .. } = *meta;
        let place = Place::Held;
        let (started, has_data, suspended) = (now, false, 0);
        let served = Served { class, flow, kind, started, place, has_data, suspended };
        if let Some(index) = self.free.pop() {
            self.slots[index as usize] = Some(served);
            return ServiceSlot(index);
        }
        self.slots.push(Some(served));
        ServiceSlot(self.slots.len() as u32 - 1)
    }

    /// An event ends: what was known of it.
    #[inline]
    pub(crate) fn end(&mut self, slot: ServiceSlot) -> Served {
        let served = self.slots[slot.0 as usize].take().expect("a slot is ended once");
        self.free.push(slot.0);
        self.parked -= u32::from(served.place == Place::Parked);
        self.suspended -= u32::from(matches!(served.place, Place::Suspended(_)));
        served
    }

    /// Stops the time of what holds a place: what was known of it then.
    pub(crate) fn pause(&mut self, now: Timestamp, slot: ServiceSlot) -> Option<Served> {
        let served = self.get_mut(slot);
        let before = *served;
        (before.place == Place::Held).then(|| {
            served.place = Place::Paused(now);
            before
        })
    }

    /// Suspends what holds a place, unless too many are: what was known of it then.
    pub(crate) fn suspend(&mut self, now: Timestamp, slot: ServiceSlot) -> Option<Served> {
        let may = self.suspended < SUSPENDED_MAX;
        let served = self.get_mut(slot);
        if !may || served.place != Place::Held {
            return None;
        }
        let before = *served;
        served.place = Place::Suspended(now);
        self.suspended += 1;
        Some(before)
    }

    /// Suspends what is paused and has been inside for longer than `limit` says; returns each.
    pub(crate) fn suspend_paused(
        &mut self,
        now: Timestamp,
        limit: impl Fn(&Served) -> Option<Duration>,
    ) -> Vec<Served> {
        let mut suspended = Vec::new();
        for served in self.slots.iter_mut().flatten() {
            if let Place::Paused(since) = served.place
                && self.suspended < SUSPENDED_MAX
                && limit(served).is_some_and(|limit| now.since(served.started) > limit)
            {
                served.place = Place::Suspended(since);
                self.suspended += 1;
                suspended.push(*served);
            }
        }
        suspended
    }

    /// Lets the time go on of what is paused or suspended: what was known of it, and what is now.
    pub(crate) fn resume(&mut self, now: Timestamp, slot: ServiceSlot) -> Option<[Served; 2]> {
        let served = self.get_mut(slot);
        let before = *served;
        let (Place::Paused(since) | Place::Suspended(since)) = before.place else { return None };
        served.suspended += now.nanos_since(since);
        served.place = Place::Held;
        let resumed = *served;
        self.suspended -= u32::from(matches!(before.place, Place::Suspended(_)));
        Some([before, resumed])
    }

    pub(crate) fn get_mut(&mut self, slot: ServiceSlot) -> &mut Served {
        self.slots[slot.0 as usize].as_mut().expect("a slot is taken until it is ended")
    }

    /// Parks what holds a place and has been in service for longer than `limit` says;
    /// returns each.
    pub(crate) fn park(
        &mut self,
        now: Timestamp,
        limit: impl Fn(&Served) -> Option<Duration>,
    ) -> Vec<Served> {
        let mut parked = Vec::new();
        let held = self.slots.iter_mut().flatten().filter(|served| served.place == Place::Held);
        for served in held {
            if self.parked < PARKED_MAX
                && limit(served).is_some_and(|limit| served.service(now) > limit)
            {
                served.place = Place::Parked;
                self.parked += 1;
                parked.push(*served);
            }
        }
        parked
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_suspended_are_bounded_and_counted_back() {
        let mut in_service = InService::default();
        let now = Timestamp::ZERO;
        let meta = EventMetadata {
            requested: now,
            entered: now,
            deadline: Timestamp::MAX,
            flow: 0,
            kind: 0,
            cost: 1,
            class: ClassId::DEFAULT,
        };
        let slots: Vec<_> = (0..=SUSPENDED_MAX).map(|_| in_service.begin(now, &meta)).collect();
        let suspended = |in_service: &mut InService| {
            slots.iter().filter(|slot| in_service.suspend(now, **slot).is_some()).count()
        };
        assert_eq!(suspended(&mut in_service), SUSPENDED_MAX as usize);
        assert!(
            in_service.resume(now, slots[0]).is_some()
                && in_service.resume(now, slots[0]).is_none()
        );
        // The one that was one too many before, or the first again.
        assert_eq!(suspended(&mut in_service), 1);
        in_service.end(slots[1]);
        assert_eq!(in_service.suspended, SUSPENDED_MAX - 1);
    }
}
