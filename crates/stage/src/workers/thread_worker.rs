//! A worker on a thread of its own.

use futures_executor::block_on;

use super::handler_slot::HandlerSlot;
use super::{HandlerEnd, PoolWorker, record_end};
use crate::call::{BoxError, CallError, watch_replies};
use crate::handler::BlockingHandler;
use crate::panics::contained;

pub(super) fn serve<E, H, F>(mut this: PoolWorker<E>, factory: &F)
where
    E: Send + 'static,
    H: BlockingHandler<E>,
    F: Fn() -> Result<H, BoxError>,
{
    let mut batch = this.batch();
    let mut slot = HandlerSlot::new(factory, &batch);
    loop {
        let (wait, most) = slot.pace();
        std::thread::sleep(wait);
        if !block_on(this.fill(&mut batch, most)) {
            return;
        }
        while !batch.is_empty() {
            let offered = batch.len();
            let Some(handler) = slot.handler(&mut batch) else { continue };
            let (end, dropped) = watch_replies(|| contained(|| handler.handle(&mut batch)));
            let end = end.map(|end| end.map_err(|error| this.worker.stage.share(error)));
            this.worker.note_unanswered(dropped.any);
            dropped.fail(|| match &end {
                Ok(Err(error)) => CallError::returned(error),
                _ => CallError::Unanswered,
            });
            let end = end.map_or_else(HandlerEnd::Panicked, HandlerEnd::Returned);
            if !record_end(&mut batch, end, offered) {
                slot.renew(&batch);
            }
        }
        batch.release();
    }
}
