//! Calls that list messages: folders page by page, and what a search finds.

use super::connection::{Fault, Row, Value};
use super::store::{Statements, Store};
use super::{
    FolderId, Invalid, Listing, MessageId, Order, SortBy, StoreError, Summary, UserId, Work,
};

const LONGEST_PAGE: u32 = 200;
const LONGEST_SEARCH_BYTES: usize = 800;

/// What [`summary`] reads, but for the snippet.
pub(super) const SUMMARY: &str = "m.id, m.folder_id, m.author, m.recipients, m.subject, \
                                  m.date_seconds, m.size_bytes, m.is_unread, m.has_attachments";

impl Store {
    /// `count` messages of a folder, from the one with the index `first` on.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the user has no such folder.
    #[expect(clippy::too_many_arguments, reason = "each is of a type of its own")]
    pub fn list(
        &mut self,
        work: &dyn Work,
        user: UserId,
        folder: FolderId,
        order: Order,
        first: u64,
        count: u32,
        snippets: bool,
    ) -> Result<Listing, StoreError> {
        let page = Page::new(first, count)?;
        let direction = columns(order);
        let snippet = if snippets { "m.snippet" } else { "NULL" };
        // The page is cut from an index alone; rows are read for what is on it.
        let sql = format!(
            "SELECT {SUMMARY}, {snippet} FROM (SELECT id AS page_id FROM messages \
             WHERE user_id = ? AND folder_id = ? ORDER BY {} LIMIT ? OFFSET ?) page \
             JOIN messages m ON m.id = page.page_id ORDER BY {}",
            direction.within(""),
            direction.within("m."),
        );
        self.read(work, |statements| {
            let total = total(statements, user, folder)?;
            let values = [user.0, folder.0, page.count, page.first].map(Value::Integer);
            let rows = statements.query(&sql, &values)?;
            let messages = rows.into_iter().map(|mut row| summary(&mut row));
            Ok(Listing { messages: messages.collect::<Result<_, _>>()?, total })
        })
    }

    /// `count` of the messages in whose headers `text` stands, without regard to case, from the
    /// one with the index `first` on: of one folder or all, and since a time or ever.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if the user has no such folder; [`StoreError::Invalid`] if the
    /// text is too long.
    #[expect(clippy::too_many_arguments, reason = "each is of a type of its own")]
    pub fn search(
        &mut self,
        work: &dyn Work,
        user: UserId,
        folder: Option<FolderId>,
        text: &str,
        since_seconds: Option<i64>,
        order: Order,
        first: u64,
        count: u32,
    ) -> Result<Listing, StoreError> {
        let page = Page::new(first, count)?;
        if text.len() > LONGEST_SEARCH_BYTES {
            return Err(Invalid::SearchText.into());
        }
        let text = super::delivery::search_text(text);
        self.read(work, |statements| {
            let mut values = vec![Value::Integer(user.0)];
            let mut condition = "user_id = ?".to_owned();
            if let Some(folder) = folder {
                total(statements, user, folder)?;
                condition.push_str(" AND folder_id = ?");
                values.push(Value::Integer(folder.0));
            }
            if let Some(since) = since_seconds {
                condition.push_str(" AND date_seconds >= ?");
                values.push(Value::Integer(since));
            }
            condition.push_str(" AND ");
            condition.push_str(statements.dialect().contains());
            values.push(Value::Text(&text));
            find(statements, &condition, values, order, page)
        })
    }
}

/// The part of a list that is asked for.
#[derive(Clone, Copy)]
struct Page {
    first: i64,
    count: i64,
}

impl Page {
    fn new(first: u64, count: u32) -> Result<Self, StoreError> {
        if count > LONGEST_PAGE {
            return Err(Invalid::TooLongPage.into());
        }
        // No list is that long.
        Ok(Self { first: i64::try_from(first).unwrap_or(i64::MAX), count: i64::from(count) })
    }
}

/// How many messages the user's folder has.
fn total(statements: &mut Statements<'_>, user: UserId, folder: FolderId) -> Result<u64, Fault> {
    let sql = "SELECT message_count FROM folders WHERE user_id = ? AND id = ?";
    statements.one(sql, &[user.0, folder.0].map(Value::Integer))?.count()
}

/// The page of what `condition` holds for.
fn find(
    statements: &mut Statements<'_>,
    condition: &str,
    mut values: Vec<Value<'_>>,
    order: Order,
    page: Page,
) -> Result<Listing, Fault> {
    let direction = columns(order);
    let sql = format!(
        "SELECT {SUMMARY}, m.snippet, page.total FROM (SELECT id AS page_id, \
         COUNT(*) OVER () AS total FROM messages WHERE {condition} ORDER BY {} \
         LIMIT ? OFFSET ?) page JOIN messages m ON m.id = page.page_id ORDER BY {}",
        direction.within(""),
        direction.within("m."),
    );
    let conditions = values.len();
    values.extend([page.count, page.first].map(Value::Integer));
    let mut listing = Listing::default();
    for mut row in statements.query(&sql, &values)? {
        listing.messages.push(summary(&mut row)?);
        listing.total = row.count()?;
    }
    // A page behind the end has no row that could tell the number.
    if listing.messages.is_empty() && (page.first > 0 || page.count == 0) {
        let sql = format!("SELECT COUNT(*) FROM messages WHERE {condition}");
        listing.total = statements.one(&sql, &values[..conditions])?.count()?;
    }
    Ok(listing)
}

/// What a list is sorted by, as columns that an index has in this order.
fn columns(order: Order) -> Columns {
    match order.by {
        SortBy::Date => Columns { key: None, latest_first: !order.reversed },
        SortBy::Author => {
            Columns { key: Some(("author_key", order.reversed)), latest_first: !order.reversed }
        }
        SortBy::Subject => {
            Columns { key: Some(("subject_key", order.reversed)), latest_first: !order.reversed }
        }
    }
}

struct Columns {
    /// A column, and whether it is from Z to A.
    key: Option<(&'static str, bool)>,
    latest_first: bool,
}

impl Columns {
    /// `ORDER BY` of these, for a table of this prefix.
    fn within(&self, prefix: &str) -> String {
        let direction = |is_falling: bool| if is_falling { "DESC" } else { "ASC" };
        let date = direction(self.latest_first);
        let date = format!("{prefix}date_seconds {date}, {prefix}id {date}");
        match self.key {
            Some((key, is_falling)) => format!("{prefix}{key} {}, {date}", direction(is_falling)),
            None => date,
        }
    }
}

/// A message in a list, from the columns of [`SUMMARY`] and a snippet.
pub(super) fn summary(row: &mut Row) -> Result<Summary, Fault> {
    Ok(Summary {
        id: MessageId(row.integer()?),
        folder: FolderId(row.integer()?),
        from: row.text()?,
        recipients: row.text()?,
        subject: row.text()?,
        date_seconds: row.integer()?,
        size_bytes: row.count()?,
        is_unread: row.flag()?,
        has_attachments: row.flag()?,
        snippet: row.optional_text()?,
    })
}
