//! A request body that has come whole, read from its temporary file.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use tokio::task::JoinHandle;

use crate::blocking;
use crate::budget::Account;
use crate::budget::spool::Spool;

/// What is left of it.
#[derive(Debug)]
pub(crate) struct Spooled {
    source: Arc<Source>,
    at: u64,
    reading: Option<JoinHandle<io::Result<Bytes>>>,
}

/// Shared with a read that is under way, so that the file is counted until it is closed.
#[derive(Debug)]
struct Source {
    spool: Spool,
    /// What the body takes up. Dropped last.
    account: Account,
}

impl Spooled {
    /// All of it, from its beginning.
    pub(crate) fn new(spool: Spool, account: Account) -> Self {
        Self { source: Arc::new(Source { spool, account }), at: 0, reading: None }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.source.spool.length()
    }

    /// The next part of it; `None` at the end.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<Option<Bytes>>> {
        if self.is_at_end() {
            return Poll::Ready(Ok(None));
        }
        let (source, at) = (&self.source, self.at);
        let reading = match &mut self.reading {
            Some(reading) => Ok(reading),
            none => {
                let source = Arc::clone(source);
                blocking::spawn(move || source.spool.read(at)).map(|reading| none.insert(reading))
            }
        };
        let read = match reading {
            Ok(reading) => ready!(Pin::new(reading).poll(cx)).map_err(io::Error::other).flatten(),
            Err(no_thread) => Err(no_thread),
        };
        self.reading = None;
        self.source.account.budget().disk_failures().read(&read);
        let bytes = read?;
        self.at += bytes.len() as u64;
        Poll::Ready(Ok(Some(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;
    use crate::budget::Budget;

    #[tokio::test]
    async fn what_is_written_is_read() {
        let mut spool = Spool::create().unwrap();
        let written: Vec<u8> = (0..200_000_u32).map(|index| (index % 251) as u8).collect();
        for part in written.chunks(70_000) {
            spool.write(part, 0).unwrap();
        }
        assert_eq!(spool.length(), written.len() as u64);
        let account = Budget::default().account([192, 0, 2, 1].into());
        let mut spooled = Spooled::new(spool, account);
        let mut read = Vec::new();
        while let Some(bytes) = poll_fn(|cx| spooled.poll_next(cx)).await.unwrap() {
            read.extend_from_slice(&bytes);
        }
        assert!(spooled.is_at_end() && read == written);
    }
}
