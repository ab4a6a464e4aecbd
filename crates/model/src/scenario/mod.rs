//! Scenarios from TOML files, for the simulator and for the closed forms.
//!
//! ```toml
//! duration = "60s"                     # what is measured, after
//! warm_up = "10s"                      # none by default
//! batches = 20                         # for confidence intervals within one run
//! p90 = "200ms"                        # or p50, p99 …: the whole way through, for classes without
//!
//! [classes.gold]                       # without classes there is one, `default`
//! priority = 0                         # 1 by default; lower ones go first
//! weight = 3                           # among its priority, if not all can be served
//! p90 = "100ms"
//!
//! [classes.plain]
//!
//! [kinds.report]                       # what laws tell apart besides; requests of one kind take about as long
//! class = "plain"                      # the first class by default
//!
//! [kinds.poll]
//! [kinds.stream]
//!
//! [resources.processor]                # what stages share
//! cores = 4                            # in equal parts, or …
//! [resources.table]
//! connections = 20                     # … one at a time
//!
//! [global]                             # over all stages together; none by default
//! law = "global-controller"
//! period_seconds = 0.5                 # a constant of its own
//!
//! [stages.web]
//! workers = 8                          # or "unlimited"
//! queue = 100000                       # places; a million by default
//! discipline = "priority"              # or "fifo" (the default), "adaptive-lifo", "earliest-due"
//! service = [{ exponential = "5ms" }, { on = "processor", constant = "2ms" }]
//! cores = 2                            # which its workers share; with `knee = 16` they contend, and
//!                                      # with `penalty = { threads = 20, free = 15, loss = 0.2 }` each
//!                                      # thread beyond `free` costs `loss` workers
//! slow = [{ from = "20s", until = "30s", times = 5 }]
//! to = { db = 0.3 }                    # the rest leaves
//! admission = "predict-gate-trim"      # laws as `protect`'s file names them; by default none
//!
//! lost = 0.001                         # the share of which no reply comes: they use no worker, and …
//! answer_time = "30s"                  # … have failed after this time; 60s by default
//! outages = [{ from = "40s", until = "45s" }] # everything that is sent then is lost
//! pauses = [{ from = "50s", until = "51s" }]  # all its own work stands still, and goes on after
//!
//! [stages.web.kinds.report]            # what is different for it; else it is as its class
//! service = "800ms"
//! lost = 0.01
//!
//! [stages.web.kinds.poll]
//! service = "25s"
//! worker = false                       # it uses none
//!
//! [stages.web.kinds.stream]            # its response time ends at the first data, which comes so long
//! service = "10s"                      # after it has a worker; it keeps that for all its service
//! first_data = { exponential = "50ms" }
//!
//! [stages.web.classes.gold]            # what is different for it
//! service = { exponential = "2ms" }
//! to = {}
//!
//! [stages.db]
//! workers = { law = "pool-sizing", workers_min_count = 20, workers_max_count = 40 }
//! service = { on = "table", log_normal = "30ms", variation = 2 }
//! admission = { law = "red", queue_min_count = 10 }
//! dropping = "selective-dropper"
//! batching = "throughput-batching"
//! batch_cost = "4ms"                   # of each batch, besides its events; nothing by default
//! quality = { law = "degradation", quality_least_ratio = 0.2 }
//! degradable = 0.8                     # the share of the work that falls with quality; all by default
//! termination = "termination-threshold"
//! clean_up = "1ms"                     # of a worker whose event was ended; nothing by default
//!
//! [clients.crowd]                      # open: they come whether others are answered or not
//! enter = "web"                        # may be left out if there is one stage only
//! open = "100/s"
//! gaps = { erlang = "1s", stages = 4 } # their shape; Poisson by default
//! changes = [
//!     { spike = "1000/s", from = "10s", until = "20s" },
//!     { ramp = "500/s", from = "30s", until = "40s" },
//!     { step = "100/s", at = "50s" },
//! ]
//! mix = { gold = 0.2, plain = 0.7, report = 0.05, poll = 0.03, stream = 0.02 } # classes and kinds; the first class by default
//! flows = 100
//! greedy = 0.5                         # the share of the first flow; as the others by default
//! patience = "2s"                      # after that it is not started any more; laws know of it
//! leaves = { exponential = "5s" }      # the client leaves, of which nobody knows before
//! retry = { attempts = 3, pause = { exponential = "1s" }, growth = 2, most = "30s", heed = true }
//!
//! [clients.users]                      # closed: each waits for its answer, and thinks
//! enter = "web"
//! closed = 3
//! changes = [{ spike = 1000, from = "10s", until = "20s" }]
//! think = { exponential = "20ms" }
//!
//! [clients.visitors]                   # partly open: sessions come, and stay for a while
//! enter = "web"
//! sessions = "10/s"
//! stay = 0.8
//! think = "1s"
//!
//! # [clients.recorded]                 # what came to a stage that `protect --record` has recorded
//! # enter = "web"
//! # trace = "live.trace"
//! ```
//!
//! A time is always the same (`"20ms"` or `{ constant = "20ms" }`) or drawn:
//! `{ exponential = MEAN }`, `{ erlang = MEAN, stages = 4 }`,
//! `{ hyper_exponential = MEAN, variation = 2 }`, `{ log_normal = MEAN, variation = 2 }`
//! (the variation is standard deviation ÷ mean), `{ pareto = LEAST, shape = 2.5 }`,
//! `{ uniform = ["1ms", "3ms"] }`, `{ measured = ["11ms", "9ms", "40ms"] }`
//! or `{ measured = "FILE" }` with a time on each line of the file (or a trace), or
//! `{ mixture = [{ share = 0.9, constant = "5ms" }, { share = 0.1, exponential = "80ms" }] }`.
//!
//! Mistakes are shown where they stand. So is a stage that cannot keep up, when the
//! closed form is asked for: see [`File::network`].
//!
//! # Modules, in reading order
//! `read` the whole file; `stages`, `clients`, `distributions`, `laws` its parts; `files`
//! what it takes from others; `places` where what the simulator finds wrong stands; `closed_form` the same
//! stages as a network.

mod clients;
mod closed_form;
mod distributions;
mod files;
mod laws;
mod places;
mod read;
mod stages;

use std::path::Path;

use tamarisk_laws::catalogue::Laws;
use tamarisk_settings::{ConfigError, Document};

use self::files::Files;
use self::places::Places;
use crate::sim::Scenario;

/// A scenario file that was read and found sound.
#[derive(Debug)]
pub struct File {
    /// What it describes.
    pub scenario: Scenario,
    /// The stages that name laws, and these.
    pub laws: Vec<(String, Laws)>,
    name: String,
    text: String,
    places: Places,
}

/// Reads the scenario in the file at `path`.
///
/// # Errors
/// [`ConfigError`]: the file cannot be read, or says something that cannot be.
pub fn load(path: &Path) -> Result<File, ConfigError> {
    let (name, text) = tamarisk_settings::read(path)?;
    parse(&name, &text)
}

/// Reads the scenario in `text`, which errors call `name`. Files that it names stand beside
/// a file of that name.
///
/// # Errors
/// [`ConfigError::Invalid`] if it says something that cannot be.
pub fn parse(name: &str, text: &str) -> Result<File, ConfigError> {
    let files = Files::beside(Path::new(name));
    let read = |document: &Document<'_>| read::file(document, files);
    let (scenario, laws, places) = tamarisk_settings::parse(name, text, read)?;
    Ok(File { scenario, laws, name: name.to_owned(), text: text.to_owned(), places })
}
