//! `protect --record`: records the laws' inputs and decisions as traces.

use std::ffi::OsString;
use std::future::pending;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use tamarisk_protect::Options;
use tamarisk_trace::{Close, Recorder};

/// A file that is full is noticed after this time.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// The traces of all upstreams.
pub(super) struct Recordings(Vec<(PathBuf, Recorder)>);

impl Recordings {
    /// Opens a file for each upstream of `options`, if there is to be any.
    pub(super) fn begin(
        path: Option<&Path>,
        bytes_max: u64,
        options: &mut Options,
    ) -> anyhow::Result<Self> {
        let Some(path) = path else { return Ok(Self(Vec::new())) };
        let alone = options.upstreams.len() == 1;
        let mut recordings = Vec::new();
        for upstream in &mut options.upstreams {
            let path = if alone { path.to_owned() } else { of_upstream(path, &upstream.name) };
            let recorder = Recorder::create(&path, bytes_max)
                .with_context(|| format!("cannot record to {}", path.display()))?;
            upstream.recorder = Some(recorder.clone());
            recordings.push((path, recorder));
        }
        Ok(Self(recordings))
    }

    /// Puts the files in their places, now that there is something to record.
    pub(super) fn announce(&self) {
        for (path, recorder) in &self.0 {
            let path = path.display();
            match recorder.take_place() {
                Ok(()) => tracing::info!("Recording to {path}"),
                Err(error) => tracing::error!("{path}: {:#}", anyhow::Error::from(error)),
            }
        }
    }

    /// Says which stop by themselves; never completes.
    pub(super) async fn watch(&self) {
        let mut going: Vec<_> = self.0.iter().collect();
        let mut looks = tokio::time::interval(LOOK_EVERY);
        while !going.is_empty() {
            looks.tick().await;
            going.retain(|(path, recorder)| {
                if recorder.is_full() {
                    tracing::info!(
                        "Recording ended: {} has reached its size limit.",
                        path.display()
                    );
                } else if recorder.has_stopped() {
                    tracing::info!("Recording ended: cannot write {} any more.", path.display());
                }
                !recorder.has_stopped()
            });
        }
        pending().await
    }

    /// Writes what is left, and says what has become of each.
    pub(super) fn end(&self) {
        for (path, recorder) in &self.0 {
            let path = path.display();
            match recorder.finish() {
                Ok(end) if end.lost > 0 => tracing::info!(
                    "{path}: {} records; {} were lost because the disk was too slow.",
                    end.records,
                    end.lost
                ),
                Ok(end) if end.close == Close::Full => {
                    tracing::info!("{path}: size limit reached, {} bytes.", end.bytes);
                }
                Ok(end) => {
                    tracing::info!("{path}: {} records in {} bytes.", end.records, end.bytes)
                }
                Err(error) => tracing::info!("{path}: {:#}", anyhow::Error::from(error)),
            }
        }
    }
}

/// `live.trace` of the upstream `app` is `live-app.trace`.
fn of_upstream(path: &Path, upstream: &str) -> PathBuf {
    let mut name = path.file_stem().map_or_else(OsString::new, OsString::from);
    name.push("-");
    name.push(upstream);
    if let Some(ending) = path.extension() {
        name.push(".");
        name.push(ending);
    }
    path.with_file_name(name)
}

/// `100MiB`, `1GB`, or a number of bytes; a megabyte at least.
pub(super) fn size(text: &str) -> Result<u64, String> {
    let bytes = crate::size::parse(text)?;
    match bytes >= Recorder::BYTES_LEAST {
        true => Ok(bytes),
        false => Err("a trace needs at least `1MiB`".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_has_a_least_size() {
        assert_eq!(size("1MiB"), Ok(1 << 20));
        for wrong in ["", "1kB"] {
            assert!(size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn each_upstream_has_its_own_file() {
        assert_eq!(of_upstream(Path::new("a/live.trace"), "app"), Path::new("a/live-app.trace"));
        assert_eq!(of_upstream(Path::new("live"), "app"), Path::new("live-app"));
    }
}
