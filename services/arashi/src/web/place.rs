//! Places that pages link to.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use super::local_path::LocalPath;
use crate::store::{FolderId, MessageId, Order, SortBy};

/// A part of the list of a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListPlace {
    pub(crate) folder: FolderId,
    /// How many messages come before.
    pub(crate) first: u64,
    pub(crate) order: Order,
}

/// A part of what a search finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SearchPlace {
    pub(crate) text: String,
    /// All folders if none.
    pub(crate) folder: Option<FolderId>,
    pub(crate) first: u64,
    pub(crate) order: Order,
    /// From when on messages are searched, in seconds since 1970. The first page decides it, the
    /// following ones keep it: where it changed, they would leave messages out.
    pub(crate) since_seconds: Option<i64>,
}

/// The days of a digest, unless stated.
pub(crate) const DAYS: u32 = 7;

/// The most days that a digest is of: more are no digest.
pub(crate) const DAYS_MAX: u32 = 365;

/// The longest address of a list that the addresses of its messages have in them.
const BACK_BYTES_MAX: usize = 300;

/// A digest of what a search finds, or of all mail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DigestPlace {
    /// All mail if empty.
    pub(crate) text: String,
    /// All folders if none.
    pub(crate) folder: Option<FolderId>,
    /// Of the last so many days.
    pub(crate) days: u32,
}

/// A message, as it is meant or as it came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MessagePlace {
    pub(crate) id: MessageId,
    pub(crate) source: bool,
    /// The list that it was opened from, if that is another than the first page of its folder.
    pub(crate) back: Option<LocalPath>,
}

/// A list of messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    List(ListPlace),
    Search(SearchPlace),
}

impl ListPlace {
    /// The first messages of a folder.
    pub(crate) fn start_of(folder: FolderId) -> Self {
        Self { folder, first: 0, order: Order::default() }
    }

    pub(crate) fn href(&self) -> String {
        format!("/list?folder={}{}", self.folder.0, part(self.first, self.order))
    }
}

impl SearchPlace {
    pub(crate) fn href(&self) -> String {
        let looked_for = looked_for(&self.text, self.folder);
        let since = self.since_seconds.filter(|_| self.first > 0);
        let since = since.map(|since| format!("&since={since}")).unwrap_or_default();
        format!("/search?{looked_for}{}{since}", part(self.first, self.order))
    }
}

impl DigestPlace {
    /// A digest of what a search finds.
    pub(crate) fn of(search: &SearchPlace) -> Self {
        Self { text: search.text.clone(), folder: search.folder, days: DAYS }
    }

    pub(crate) fn href(&self) -> String {
        format!("/digest?{}&days={}", looked_for(&self.text, self.folder), self.days)
    }
}

impl MessagePlace {
    pub(crate) fn href(&self) -> String {
        let source = if self.source { "&source=1" } else { "" };
        let back = self
            .back
            .as_ref()
            .map(|back| format!("&back={}", utf8_percent_encode(back.as_str(), NON_ALPHANUMERIC)));
        format!("/message?id={}{source}{}", self.id.0, back.unwrap_or_default())
    }
}

impl Place {
    pub(crate) fn href(&self) -> String {
        match self {
            Self::List(list) => list.href(),
            Self::Search(search) => search.href(),
        }
    }

    pub(crate) fn first(&self) -> u64 {
        match self {
            Self::List(list) => list.first,
            Self::Search(search) => search.first,
        }
    }

    pub(crate) fn order(&self) -> Order {
        match self {
            Self::List(list) => list.order,
            Self::Search(search) => search.order,
        }
    }

    /// What leads back to it from a message, unless the message's folder does. A long search is not
    /// carried along.
    pub(crate) fn back(&self) -> Option<LocalPath> {
        let is_plain =
            matches!(self, Self::List(list) if *list == ListPlace::start_of(list.folder));
        let href = Some(self.href()).filter(|href| !is_plain && href.len() <= BACK_BYTES_MAX);
        LocalPath::new(&href?)
    }

    /// The same list from another message on.
    pub(crate) fn at(&self, first: u64) -> Self {
        match self {
            Self::List(list) => Self::List(ListPlace { first, ..list.clone() }),
            Self::Search(search) => Self::Search(SearchPlace { first, ..search.clone() }),
        }
    }

    /// The last page of the same list, with so many messages a page.
    pub(crate) fn last_page(&self, messages: u64, page_size: u32) -> Self {
        let page_size = u64::from(page_size.max(1));
        self.at(messages.saturating_sub(1) / page_size * page_size)
    }

    /// The same list from its beginning, sorted by something else, or the other way round.
    pub(crate) fn sorted(&self, by: SortBy) -> Self {
        let now = self.order();
        let order = Order { by, reversed: now.by == by && !now.reversed };
        match self {
            Self::List(list) => Self::List(ListPlace { first: 0, order, ..list.clone() }),
            Self::Search(search) => Self::Search(SearchPlace { first: 0, order, ..search.clone() }),
        }
    }
}

/// What a search or a digest looks for, in an address.
fn looked_for(text: &str, folder: Option<FolderId>) -> String {
    let text = utf8_percent_encode(text, NON_ALPHANUMERIC);
    let folder = folder.map(|folder| format!("&folder={}", folder.0));
    format!("q={text}{}", folder.unwrap_or_default())
}

/// The end of the address of a part of a list; what is the default is left out.
fn part(first: u64, order: Order) -> String {
    let mut part = String::new();
    if first > 0 {
        part.push_str(&format!("&first={first}"));
    }
    match order.by {
        SortBy::Date => {}
        SortBy::Author => part.push_str("&sort=author"),
        SortBy::Subject => part.push_str("&sort=subject"),
    }
    if order.reversed {
        part.push_str("&reversed=1");
    }
    part
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_click_on_a_head_reverses_the_order() {
        let place = Place::List(ListPlace { first: 40, ..ListPlace::start_of(FolderId(7)) });
        assert_eq!(place.href(), "/list?folder=7&first=40");
        let by_author = place.sorted(SortBy::Author);
        assert_eq!(by_author.href(), "/list?folder=7&sort=author");
        assert_eq!(
            by_author.sorted(SortBy::Author).href(),
            "/list?folder=7&sort=author&reversed=1"
        );
        assert_eq!(place.sorted(SortBy::Date).href(), "/list?folder=7&reversed=1");
    }

    #[test]
    fn a_message_leads_back_to_where_it_was_opened_unless_its_folder_does() {
        let plain = Place::List(ListPlace::start_of(FolderId(7)));
        assert_eq!(plain.back(), None);
        let back = plain.at(20).back();
        assert_eq!(back.as_ref().map(LocalPath::as_str), Some("/list?folder=7&first=20"));
        let message = MessagePlace { id: MessageId(3), source: false, back };
        assert_eq!(message.href(), "/message?id=3&back=%2Flist%3Ffolder%3D7%26first%3D20");
        let search = |text: String| {
            let (first, order) = (0, Order::default());
            Place::Search(SearchPlace { text, folder: None, first, order, since_seconds: None })
        };
        assert!(search("storm".into()).back().is_some());
        assert!(search("ü".repeat(100)).back().is_none());
    }

    #[test]
    fn a_search_keeps_its_text() {
        let place = SearchPlace {
            text: "a&b=ü \"<".into(),
            folder: None,
            first: 0,
            order: Order::default(),
            since_seconds: None,
        };
        assert_eq!(place.href(), "/search?q=a%26b%3D%C3%BC%20%22%3C");
    }

    #[test]
    fn only_the_following_pages_of_a_search_keep_its_start_time() {
        let search = SearchPlace {
            text: "storm".into(),
            folder: None,
            first: 0,
            order: Order::default(),
            since_seconds: Some(1_000),
        };
        assert_eq!(search.href(), "/search?q=storm");
        let next = Place::Search(search).at(20);
        assert_eq!(next.href(), "/search?q=storm&first=20&since=1000");
        assert_eq!(next.last_page(35, 20).href(), next.href());
        assert_eq!(next.sorted(SortBy::Author).href(), "/search?q=storm&sort=author");
    }
}
