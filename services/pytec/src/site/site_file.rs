//! `pytec.toml` in the folder of a site: targets of single pages.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};
use tamarisk::Ratio;
use tamarisk::control::parse_duration;

use crate::options::{PageOptions, SiteOptions};

/// The largest file; it has some lines for each page.
const BYTES_MAX: u64 = 1 << 20;

/// What the file of a site says.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SiteFile {
    #[serde(default)]
    all: OfPages,
    #[serde(default)]
    page: BTreeMap<String, OfPages>,
}

/// What is said of all pages, or of one.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct OfPages {
    #[serde(default, deserialize_with = "time")]
    p90: Option<Duration>,
    #[serde(default, deserialize_with = "time")]
    time: Option<Duration>,
    #[serde(default, deserialize_with = "ratio")]
    least_quality: Option<Ratio>,
}

impl SiteFile {
    /// The file in this folder; there need be none.
    ///
    /// # Errors
    /// What is wrong with it, with its line.
    pub(crate) fn read(folder: &Path) -> Result<Self, String> {
        use std::io::{ErrorKind, Read};
        let mut text = String::new();
        let read = std::fs::File::open(folder.join("pytec.toml"))
            .and_then(|file| file.take(BYTES_MAX).read_to_string(&mut text));
        match read {
            Ok(_) => Self::parse(&text),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn parse(text: &str) -> Result<Self, String> {
        let file: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        match file.page.keys().find(|path| !path.starts_with('/')) {
            Some(path) => Err(format!("page {path:?}: write its path, \"/{path}\"")),
            None => Ok(file),
        }
    }

    /// The pages that it speaks of.
    pub(crate) fn pages(&self) -> impl Iterator<Item = &String> {
        self.page.keys()
    }

    /// What the page of this path is started with.
    pub(crate) fn page(&self, path: &str, options: &SiteOptions) -> PageOptions {
        let own = self.page.get(path).copied().unwrap_or_default();
        PageOptions {
            p90: own.p90.or(self.all.p90).unwrap_or(options.p90),
            time_max: own.time.or(self.all.time).unwrap_or(options.time_max),
            least_quality: own.least_quality.or(self.all.least_quality),
            processes: options.processes,
            classes: options.classes.clone(),
        }
    }
}

fn time<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(value)?;
    let time = parse_duration(&text).map_err(de::Error::custom)?;
    if time.is_zero() {
        return Err(de::Error::custom("must be longer than 0s"));
    }
    Ok(Some(time))
}

fn ratio<'de, D: Deserializer<'de>>(value: D) -> Result<Option<Ratio>, D::Error> {
    Ratio::new(f64::deserialize(value)?).map(Some).map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_own_options_or_those_of_all() {
        let file = SiteFile::parse(
            "[all]\np90 = \"300ms\"\n[page.\"/report\"]\np90 = \"2s\"\nleast_quality = 0.25\n",
        )
        .unwrap();
        let options = SiteOptions::new("site");
        let (report, other) = (file.page("/report", &options), file.page("/", &options));
        assert_eq!((report.p90, other.p90), (Duration::from_secs(2), Duration::from_millis(300)));
        assert_eq!(
            (report.least_quality, other.least_quality),
            (Some(Ratio::saturating(0.25)), None)
        );
        assert_eq!(report.time_max, options.time_max);
    }

    #[test]
    fn a_mistake_is_told_with_its_line() {
        for (text, part) in [
            ("[all]\np90 = \"1s\"\np9O = \"1s\"", "line 3"),
            ("[page.\"/a\"]\nleast_quality = 2.0", "line 2"),
            ("[all]\np90 = \"soon\"", "line 2"),
            ("[page.\"/a\"]\ntime = \"0s\"", "longer than 0s"),
            ("[page.a]", "write its path, \"/a\""),
        ] {
            let error = SiteFile::parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
