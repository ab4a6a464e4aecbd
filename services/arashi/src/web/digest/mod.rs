//! The page of the digest: written in PyTeC, run by a Python process.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;

use tamarisk::{CallError, Context};
use tamarisk_pytec::{Page, PageAnswer, PageRequest, Site, SiteOptions};
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::kind::RequestKind;
use super::options::{OpenError, Options};

/// The page, unless an operator has another one.
const PAGE: &str = include_str!("digest.pytec");
/// The longest that Python may work on a digest; usually it takes milliseconds.
const TIME_MAX: Duration = Duration::from_secs(5);
/// How often a worker that waits for Python asks whether its request is to end.
const CHECK_EVERY: Duration = Duration::from_millis(10);
/// The largest page of an operator, in bytes: as much as a file of a site may have.
const PAGE_BYTES_MAX: u64 = 1 << 20;

/// The page of the digest, as workers have it.
pub(crate) struct DigestPage {
    page: Page,
    runtime: Handle,
}

/// Opens a site of this one page, which at most so many requests ask at once, each with a Python
/// process. None is started before it is needed.
pub(crate) fn open(
    options: &Options,
    classes: &[&str],
    processes: u32,
) -> Result<(Site, DigestPage), OpenError> {
    let runtime = Handle::try_current().map_err(|_| OpenError::NoRuntime)?;
    let page = match &options.digest_page {
        None => PAGE.to_owned(),
        Some(path) => {
            read(path).map_err(|source| OpenError::DigestPage { path: path.to_owned(), source })?
        }
    };
    let mut site = SiteOptions::embedded([("digest.pytec", page)]);
    site.p90 = options.targets.of(RequestKind::Digest);
    site.time_max = TIME_MAX;
    site.processes = processes;
    site.python.clone_from(&options.python);
    site.classes = classes.iter().map(|&class| class.to_owned()).collect();
    let site = Site::open(site)?;
    let page = site.page("/digest").expect("it is the page that the site was opened with");
    Ok((site, DigestPage { page, runtime }))
}

impl DigestPage {
    /// Has Python write the page of these values. The worker waits for it, and is let go if its
    /// request is to end.
    pub(crate) fn render(
        &self,
        cx: &Context,
        values: serde_json::Value,
    ) -> Result<PageAnswer, CallError> {
        let request = PageRequest::get(self.page.path()).values(values);
        self.runtime.block_on(async {
            tokio::select! {
                answer = self.page.render(cx.entry(), request) => answer,
                () = ended(cx) => Err(CallError::Terminated),
            }
        })
    }
}

/// Is done when the request is to end.
async fn ended(cx: &Context) {
    while cx.checkpoint().is_ok() {
        sleep(CHECK_EVERY).await;
    }
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(PAGE_BYTES_MAX + 1).read_to_string(&mut text)?;
    if text.len() as u64 > PAGE_BYTES_MAX {
        return Err(io::Error::other(format!("it is larger than {PAGE_BYTES_MAX} bytes")));
    }
    Ok(text)
}
