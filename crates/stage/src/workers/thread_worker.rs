//! A worker on a thread of its own.

use futures_executor::block_on;

use super::handler_slot::HandlerSlot;
use super::{PoolWorker, Ran, settle};
use crate::call::{CallError, watched};
use crate::handler::BlockingHandler;
use crate::panics::contained;

pub(super) fn serve<E, H, F>(mut this: PoolWorker<E>, factory: &F)
where
    E: Send + 'static,
    H: BlockingHandler<E>,
    F: Fn() -> H,
{
    let mut batch = this.batch();
    let mut slot = HandlerSlot::new(factory, &batch);
    while block_on(this.fill(&mut batch)) {
        while !batch.is_empty() {
            let offered = batch.len();
            let Some(handler) = slot.handler(&mut batch) else { continue };
            let (ran, let_go) = watched(|| contained(|| handler.handle(&mut batch)));
            this.worker.note_unanswered(let_go.any);
            let_go.tell(|| match &ran {
                Ok(Err(error)) => CallError::returned(error),
                _ => CallError::Unanswered,
            });
            let ran = ran.map_or_else(Ran::Panicked, Ran::Returned);
            if !settle(&mut batch, ran, offered) {
                slot.renew(&batch);
            }
        }
        batch.release();
    }
}
