//! The stages that touch the disk: one finds and reads files, one reads on in those
//! that are too long to be held.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use bytes::Bytes;
use tamarisk_control::{Classes, Open};
use tamarisk_stage::{
    Batch, BlockingHandler, BoxError, BuildError, Clock, Request, Sink, Stage, StageBuilder,
    StageObservation,
};

use crate::cache::PageKey;
use crate::folder::{Folder, Located, OpenPage};
use crate::page::{Page, Stamp};
use crate::root::FileError;

/// Files that one worker finds before it reads the first of them.
const BATCH: usize = 16;

/// Parts that may wait to be read: each answer under way waits for one at most, so
/// more than there can be connections and streams.
const CHUNKS_MAX: usize = 1 << 20;

/// What is asked of the disk.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) key: PageKey,
    /// Nothing is read if the file is still this one.
    pub(crate) known: Option<Stamp>,
}

/// What the disk has.
#[derive(Clone, Debug)]
pub(crate) enum Found {
    Page(Arc<Page>),
    /// A folder, asked for without the slash at its end.
    Folder,
    /// The file that is known.
    Same,
}

/// A part of a file.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub(crate) file: Arc<File>,
    pub(crate) at: u64,
    pub(crate) length: usize,
}

type LoadRequest = Request<Load, Result<Found, FileError>>;
type ChunkRequest = Request<Chunk, io::Result<Bytes>>;

/// Both stages.
pub(crate) struct Files {
    loads: Stage<LoadRequest>,
    load: Sink<LoadRequest>,
    chunks: Stage<ChunkRequest>,
    pub(crate) chunk: Sink<ChunkRequest>,
}

impl Files {
    /// `workers` threads for each stage, who asks for a file is promised it by its class.
    pub(crate) fn start(
        folders: Arc<[Folder]>,
        workers: u32,
        classes: Classes,
    ) -> Result<Self, BuildError> {
        let reader = move || Reader { folders: Arc::clone(&folders), clock: Clock::default() };
        let loads = StageBuilder::new("files")
            .classes(classes)
            .workers(workers)
            .batch(BATCH)
            .threads(reader)?;
        // An answer that has begun is not given up: these are not refused.
        let chunks = StageBuilder::new("chunks")
            .law(Open)
            .workers(workers)
            .queue_capacity(CHUNKS_MAX)
            .threads(|| ChunkReader)?;
        Ok(Self { load: loads.sink(), chunk: chunks.sink(), loads, chunks })
    }

    pub(crate) const fn load(&self) -> &Sink<LoadRequest> {
        &self.load
    }

    pub(crate) fn observe(&self) -> [StageObservation; 2] {
        [self.loads.observe(), self.chunks.observe()]
    }

    pub(crate) fn close(&self) {
        self.loads.close();
        self.chunks.close();
    }
}

struct Reader {
    folders: Arc<[Folder]>,
    clock: Clock,
}

impl BlockingHandler<LoadRequest> for Reader {
    /// The shortest file of a batch first: so the most are answered soonest
    /// [Welsh02 §5.5.2].
    fn handle(&mut self, batch: &mut Batch<LoadRequest>) -> Result<(), BoxError> {
        let mut found: Vec<(LoadRequest, OpenPage)> = Vec::new();
        for request in batch.drain().map(tamarisk_stage::Envelope::into_event) {
            let PageKey { folder, path } = &request.body.key;
            match self.folders[*folder as usize].locate(path) {
                Err(error) => answer(request, Err(error)),
                Ok(Located::Folder) => answer(request, Ok(Found::Folder)),
                Ok(Located::Page(page)) if page.is_still(request.body.known.as_ref()) => {
                    answer(request, Ok(Found::Same));
                }
                Ok(Located::Page(page)) => found.push((request, page)),
            }
        }
        found.sort_by_key(|(_, page)| page.length());
        for (request, page) in found {
            let folder = &self.folders[request.body.key.folder as usize];
            let page = folder.read(page, self.clock.now());
            answer(request, page.map(|page| Found::Page(Arc::new(page))));
        }
        Ok(())
    }
}

fn answer(request: LoadRequest, found: Result<Found, FileError>) {
    // A client that has left needs none.
    let _ = request.reply.send(found);
}

struct ChunkReader;

impl BlockingHandler<ChunkRequest> for ChunkReader {
    fn handle(&mut self, batch: &mut Batch<ChunkRequest>) -> Result<(), BoxError> {
        while let Some((Request { body, reply }, _)) = batch.next() {
            let mut bytes = vec![0; body.length];
            let read = body.file.read_exact_at(&mut bytes, body.at);
            let _ = reply.send(read.map(|()| bytes.into()));
        }
        Ok(())
    }
}
