//! What pages leave out while their stage is degraded.

use maud::{Markup, Render, html};
use tamarisk::Ratio;

const DAY_SECONDS: i64 = 24 * 3600;

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
        (quality.get() < 1.0).then(|| Self::of_page(quality, page_size))
    }

    fn of_page(quality: Ratio, page_size: u32) -> Self {
        let quality = quality.get();
        Self {
            quality,
            messages: (messages(quality, page_size), page_size),
            unit: "messages a page",
            leaves_snippets_out: quality < SNIPPETS_QUALITY,
            days: None,
        }
    }

    /// Of a page of a search of mail that is `age_seconds` old at most; none at full quality if it
    /// may have any age.
    pub(crate) fn of_search(
        quality: Ratio,
        page_size: u32,
        age_seconds: Option<i64>,
    ) -> Option<Self> {
        let days = age_seconds.map(|age| {
            let days = age.saturating_add(DAY_SECONDS / 2) / DAY_SECONDS;
            u32::try_from(days.max(1)).unwrap_or(u32::MAX)
        });
        (quality.get() < 1.0 || days.is_some()).then(|| Self {
            leaves_snippets_out: false,
            days,
            ..Self::of_page(quality, page_size)
        })
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

    /// The quality, for programs.
    pub(crate) fn quality(&self) -> String {
        format!("{:.2}", self.quality)
    }
}

/// How old the mail is at most that a search looks through, in seconds; none for any age.
pub(crate) fn horizon_seconds(quality: Ratio) -> Option<i64> {
    let horizon = HORIZONS.iter().find(|(below, _)| quality.get() < *below);
    horizon.map(|(_, days)| DAY_SECONDS * i64::from(*days))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and a page")]
fn messages(quality: f64, page_size: u32) -> u32 {
    let messages = (f64::from(page_size) * quality).round() as u32;
    messages.clamp(MESSAGES_LEAST.min(page_size), page_size)
}

impl Render for Shortening {
    fn render(&self) -> Markup {
        let (shown, usual) = self.messages;
        // A search may have been shortened by its first page alone.
        let are_fewer = shown < usual || self.days.is_none();
        html! {
            @if are_fewer { (shown) " " (self.unit) " instead of " (usual) }
            @if self.leaves_snippets_out { ", no beginnings of texts" }
            @if let Some(days) = self.days {
                @if are_fewer { ", " } "mail of the last " (days) " days only"
            }
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
        assert_eq!(Shortening::of_search(Ratio::ONE, 20, None), None);
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
        for (quality, days) in [(0.95, None), (0.8, Some(365)), (0.6, Some(90)), (0.2, Some(30))] {
            let age = horizon_seconds(ratio(quality));
            assert_eq!(age, days.map(|days| days * 86_400), "{quality}");
        }
    }

    #[test]
    fn the_age_of_a_searchs_mail_is_said_in_days_at_full_quality_too() {
        for (age, days) in [(30 * 86_400 + 90, 30), (-5, 1), (i64::MAX, u32::MAX)] {
            let shortening = Shortening::of_search(Ratio::ONE, 20, Some(age)).unwrap();
            let text = shortening.render().into_string();
            assert_eq!(text, format!("mail of the last {days} days only"));
        }
        let much = Shortening::of_search(ratio(0.1), 20, Some(90 * 86_400)).unwrap();
        assert_eq!(
            much.render().into_string(),
            "5 messages a page instead of 20, mail of the last 90 days only"
        );
    }
}
