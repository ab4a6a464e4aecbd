//! A worker on a thread of its own.

use futures_executor::block_on;

use super::panics::contained;
use super::seat::Seat;
use super::{Member, Ran, settle};
use crate::call::watched;
use crate::handler::BlockingHandler;

pub(super) fn serve<E, H, F>(mut member: Member<E>, factory: &F)
where
    E: Send + 'static,
    H: BlockingHandler<E>,
    F: Fn() -> H,
{
    let mut batch = member.batch();
    let mut seat = Seat::new(factory, &batch);
    while block_on(member.fill(&mut batch)) {
        while !batch.is_empty() {
            let offered = batch.len();
            let Some(handler) = seat.handler(&mut batch) else { continue };
            let (ran, unanswered) = watched(|| contained(|| handler.handle(&mut batch)));
            member.worker.note_unanswered(unanswered);
            let ran = ran.map_or_else(Ran::Panicked, Ran::Returned);
            if !settle(&mut batch, ran, offered) {
                seat.renew(&batch);
            }
        }
        batch.release();
    }
}
