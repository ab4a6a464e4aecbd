//! The stages that touch the disk: one finds and reads files, one reads on in those
//! that are too long to be held.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tamarisk_control::{Classes, Timestamp};
use tamarisk_laws::Open;
use tamarisk_stage::{
    Batch, BlockingHandler, BoxError, BuildError, Clock, Request, Sink, Stage, StageBuilder,
    StageObservation,
};

use crate::disk::folder::{Disk, Folder, Located, OpenPage};
use crate::disk::path::SitePath;
use crate::disk::root::FileError;
use crate::page::page_file::{Chunk, ChunkRequest, PageFiles, ReadInto};
use crate::page::{Page, Stamp};

/// The name of the stage that finds and reads files.
pub(crate) const FILES_STAGE: &str = "files";

/// Files that one worker finds before it reads the first of them.
const BATCH: usize = 16;

/// Parts that may wait to be read: each answer under way waits for one at most, so
/// more than there can be connections and streams.
const CHUNKS_MAX: usize = 1 << 20;

/// What is asked of the disk.
#[derive(Debug)]
pub(crate) struct Load {
    pub(crate) folder: Arc<Folder>,
    pub(crate) path: SitePath,
    /// Nothing is read if the file is still this one.
    pub(crate) known: Option<Stamp>,
    /// When it was asked.
    pub(crate) at: Timestamp,
}

/// What the stage that reads files says.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) found: Result<Found, FileError>,
    /// How long the request was in the queue.
    pub(crate) queued: Duration,
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

type LoadRequest = Request<Load, Told>;

/// Both stages.
pub(crate) struct Files {
    loads: Arc<Stage<LoadRequest>>,
    load: Sink<LoadRequest>,
    classes: Classes,
    chunks: Arc<Stage<ChunkRequest>>,
    pub(crate) open: PageFiles,
    workers: u32,
}

impl Files {
    /// `workers` threads for each stage, who asks for a file is promised it by its class; so many
    /// files may be open that are not held.
    pub(crate) fn start(
        workers: u32,
        classes: Classes,
        open_max: usize,
    ) -> Result<Self, BuildError> {
        // An answer that has begun is not given up: these are not rejected.
        let chunks = StageBuilder::new("chunks")
            .law(Open)
            .workers(workers)
            .queue_capacity(CHUNKS_MAX)
            .threads(|| ChunkReader)?;
        let (open, chunks) = (PageFiles::new(chunks.sink(), open_max), Arc::new(chunks));
        let loads = Arc::new(loads(workers, classes.clone(), &open)?);
        Ok(Self { load: loads.sink(), loads, classes, chunks, open, workers })
    }

    /// The same stages for other classes; only if those differ in more than their targets, the one
    /// that reads files is a new one. It lasts as long as those who use it.
    pub(crate) fn with(&self, classes: Classes) -> Result<Self, BuildError> {
        let (chunks, open) = (Arc::clone(&self.chunks), self.open.clone());
        let names = |classes: &Classes| -> Vec<String> {
            classes.iter().map(|(_, class)| class.name.clone()).collect()
        };
        let loads = match names(&self.classes) == names(&classes) {
            true => Arc::clone(&self.loads),
            false => Arc::new(loads(self.workers, classes.clone(), &open)?),
        };
        Ok(Self { load: loads.sink(), loads, classes, chunks, open, workers: self.workers })
    }

    /// From now on its targets hold, for all clones of the stage.
    pub(crate) fn take_over(&self) {
        let targets = self.classes.iter().map(|(id, class)| (id, class.target));
        self.loads.set_targets(&targets.collect::<Vec<_>>());
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

#[cfg(test)]
impl Files {
    /// With a thread for each stage.
    pub(crate) fn for_tests() -> Self {
        let target = tamarisk_control::Target::p90(std::time::Duration::from_secs(1)).unwrap();
        Self::start(1, Classes::single(target), 8).unwrap()
    }

    /// The file at `path`, of which the kernel is taken to tell what it has in memory.
    pub(crate) fn open(&self, path: &std::path::Path) -> crate::page::page_file::PageFile {
        let file = std::fs::File::open(path).unwrap();
        let metadata = file.metadata().unwrap();
        crate::page::page_file::PageFile::new(file, &metadata, true, &self.open).unwrap()
    }
}

/// The stage that finds and reads files.
fn loads(
    workers: u32,
    classes: Classes,
    open: &PageFiles,
) -> Result<Stage<LoadRequest>, BuildError> {
    let open = open.clone();
    let reader = move || Reader { clock: Clock::default(), open: open.clone() };
    let stage = StageBuilder::new(FILES_STAGE).classes(classes).workers(workers).batch(BATCH);
    stage.threads(reader)
}

struct Reader {
    clock: Clock,
    open: PageFiles,
}

impl BlockingHandler<LoadRequest> for Reader {
    /// The shortest file of a batch first: so the most are answered soonest
    /// [Welsh02 §5.5.2].
    fn handle(&mut self, batch: &mut Batch<LoadRequest>) -> Result<(), BoxError> {
        let begun = self.clock.now();
        let answer = |request: LoadRequest, found| {
            let queued = begun.since(request.body.at);
            // A client that has left needs none.
            let _ = request.reply.send(Told { found, queued });
        };
        let mut found: Vec<(LoadRequest, OpenPage)> = Vec::new();
        for request in batch.drain().map(tamarisk_stage::Envelope::into_event) {
            match request.body.folder.locate(&request.body.path) {
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
            let page = request.body.folder.read(page, Disk::Asked, &self.open, self.clock.now());
            answer(request, page.map(|page| Found::Page(Arc::new(page))));
        }
        Ok(())
    }
}

struct ChunkReader;

impl BlockingHandler<ChunkRequest> for ChunkReader {
    fn handle(&mut self, batch: &mut Batch<ChunkRequest>) -> Result<(), BoxError> {
        while let Some((Request { body: Chunk { file, part, wanted }, reply }, _)) = batch.next() {
            let read = match wanted {
                // It was abandoned.
                _ if reply.is_abandoned() => Ok(Bytes::new()),
                ReadInto::Answer => file.read(part),
                ReadInto::Memory => file.touch(part).map(|()| Bytes::new()),
            };
            let _ = reply.send(read);
        }
        Ok(())
    }
}
