//! A worker on a thread of its own.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_executor::block_on;

use super::{Crew, Ran, settle};
use crate::batch::Batch;
use crate::call::take_unanswered;
use crate::context::Worker;
use crate::handler::BlockingHandler;

pub(super) fn serve<E, H>(crew: &Crew<E>, worker: Arc<Worker>, factory: &dyn Fn() -> H)
where
    E: Send + 'static,
    H: BlockingHandler<E>,
{
    let mut batch = Batch::new(Arc::clone(&crew.core), Arc::clone(&worker));
    let mut handler = factory();
    while block_on(batch.fill(crew.batching(), || crew.retires())) {
        while !batch.is_empty() {
            let offered = batch.len();
            take_unanswered();
            let ran = catch_unwind(AssertUnwindSafe(|| handler.handle(&mut batch)));
            let ran = ran.map_or_else(Ran::Panicked, Ran::Returned);
            if !settle(&mut batch, ran, offered) {
                handler = factory();
            }
        }
        batch.release();
    }
    crew.leave(&worker);
}
