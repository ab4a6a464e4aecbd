//! What pages leave out while their stage is degraded.

use std::time::Duration;

use maud::{Markup, Render, html};
use tamarisk::Ratio;

const DAY: Duration = Duration::from_secs(24 * 3600);

/// The least messages on a page: fewer are no list.
const MESSAGES_LEAST: u32 = 5;

/// Below this quality, lists show no beginnings of texts.
const SNIPPETS_QUALITY: f64 = 0.85;

/// How far back searches go, by the quality below which they do.
const HORIZONS: [(f64, u32); 3] = [(0.5, 30), (0.7, 90), (0.9, 365)];

/// What a page leaves out. The quality of the stage decides; the page says so.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shortening {
    quality: f64,
    /// How many messages there are, and how many otherwise.
    messages: (u32, u32),
    /// What is done with so many.
    unit: &'static str,
    leaves_snippets_out: bool,
    /// How many days a search goes back.
    days: Option<u32>,
}

impl Shortening {
    /// Of a page of a list; none at full quality.
    pub(crate) fn of_list(quality: Ratio, page_size: u32) -> Option<Self> {
        let quality = quality.get();
        (quality < 1.0).then(|| Self {
            quality,
            messages: (messages(quality, page_size), page_size),
            unit: "messages a page",
            leaves_snippets_out: quality < SNIPPETS_QUALITY,
            days: None,
        })
    }

    /// Of a page of a search; none at full quality.
    pub(crate) fn of_search(quality: Ratio, page_size: u32) -> Option<Self> {
        let horizon = HORIZONS.iter().find(|(below, _)| quality.get() < *below);
        let days = horizon.map(|(_, days)| *days);
        Some(Self { leaves_snippets_out: false, days, ..Self::of_list(quality, page_size)? })
    }

    /// Of a digest of at most so many messages; none at full quality.
    pub(crate) fn of_digest(quality: Ratio, messages_max: u32) -> Option<Self> {
        Some(Self { unit: "messages digested", ..Self::of_list(quality, messages_max)? })
    }

    /// How many messages there are on a page, or in a digest.
    pub(crate) fn messages(&self) -> u32 {
        self.messages.0
    }

    pub(crate) fn shows_snippets(&self) -> bool {
        !self.leaves_snippets_out
    }

    /// From when on messages are searched, in seconds since 1970.
    pub(crate) fn since_seconds(&self, now_seconds: i64) -> Option<i64> {
        let age = i64::try_from((DAY * self.days?).as_secs()).unwrap_or(i64::MAX);
        Some(now_seconds.saturating_sub(age))
    }

    /// The quality, for programs.
    pub(crate) fn quality(&self) -> String {
        format!("{:.2}", self.quality)
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and a page")]
fn messages(quality: f64, page_size: u32) -> u32 {
    let messages = (f64::from(page_size) * quality).round() as u32;
    messages.clamp(MESSAGES_LEAST.min(page_size), page_size)
}

impl Render for Shortening {
    fn render(&self) -> Markup {
        let (shown, usual) = self.messages;
        html! {
            (shown) " " (self.unit) " instead of " (usual)
            @if self.leaves_snippets_out { ", no beginnings of texts" }
            @if let Some(days) = self.days { ", mail of the last " (days) " days only" }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(value: f64) -> Ratio {
        Ratio::saturating(value)
    }

    #[test]
    fn nothing_is_left_out_at_full_quality() {
        assert_eq!(Shortening::of_list(Ratio::ONE, 20), None);
        assert_eq!(Shortening::of_search(Ratio::ONE, 20), None);
    }

    #[test]
    fn lists_become_shorter_and_lose_their_snippets() {
        let slightly = Shortening::of_list(ratio(0.9), 20).unwrap();
        assert_eq!((slightly.messages(), slightly.shows_snippets()), (18, true));
        let much = Shortening::of_list(ratio(0.1), 20).unwrap();
        assert_eq!((much.messages(), much.shows_snippets()), (5, false));
        assert_eq!(
            much.render().into_string(),
            "5 messages a page instead of 20, no beginnings of texts"
        );
    }

    #[test]
    fn digests_are_of_fewer_messages() {
        assert_eq!(Shortening::of_digest(Ratio::ONE, 500), None);
        let much = Shortening::of_digest(ratio(0.3), 500).unwrap();
        assert_eq!((much.messages(), much.shows_snippets()), (150, false));
        assert_eq!(
            much.render().into_string(),
            "150 messages digested instead of 500, no beginnings of texts"
        );
    }

    #[test]
    fn searches_go_less_far_back() {
        let now = 1_000_000_000;
        for (quality, days) in [(0.95, None), (0.8, Some(365)), (0.6, Some(90)), (0.2, Some(30))] {
            let shortening = Shortening::of_search(ratio(quality), 20).unwrap();
            let since = days.map(|days| now - days * 86_400);
            assert_eq!(shortening.since_seconds(now), since, "{quality}");
        }
    }
}
