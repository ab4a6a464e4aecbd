//! Lists in each order, page by page, and what a search finds.

use tamarisk_arashi::store::{FolderKind, NewMessage, Order, SortBy, Store, Untimed, UserId};

use crate::store::{folder, mail, user};
use crate::support::TestDatabase;

crate::store::on_each_database! {
    lists_are_sorted_and_cut_into_pages,
    a_search_finds_text_as_it_is_in_all_headers,
    a_search_is_bounded_by_folder_and_time,
}

fn lists_are_sorted_and_cut_into_pages(test: &TestDatabase) {
    let mut store = test.connect();
    let ann = user(&mut store, "ann");
    let inbox = folder(&mut store, ann, FolderKind::Inbox);
    for (from, subject, date) in [
        ("zoe", "Re: apple", 1),
        ("\"Adam\"", "banana", 2),
        ("Émile", "Apple", 3),
        ("adam", "cherry", 4),
        ("bea", "Fwd: RE: apple", 4),
    ] {
        store.deliver(&Untimed, ann, inbox, &mail(from, subject, date)).unwrap();
    }
    let mut check = |by, reversed, expected: [&str; 5]| {
        let order = Order { by, reversed };
        let mut list = |first, count| {
            let listing = store.list(&Untimed, ann, inbox, order, first, count, false).unwrap();
            assert_eq!(listing.total, 5);
            assert!(listing.messages.iter().all(|message| message.snippet.is_none()));
            listing.messages.into_iter().map(|message| message.subject).collect::<Vec<_>>()
        };
        assert_eq!(list(0, 10), expected, "{order:?}");
        assert_eq!(list(0, 2), expected[..2], "{order:?}");
        assert_eq!(list(2, 2), expected[2..4], "{order:?}");
        assert_eq!(list(4, 2), expected[4..], "{order:?}");
        assert!(list(5, 2).is_empty() && list(u64::MAX, 2).is_empty() && list(0, 0).is_empty());
    };
    let dates = ["Fwd: RE: apple", "cherry", "Apple", "banana", "Re: apple"];
    check(SortBy::Date, false, dates);
    check(SortBy::Date, true, reversed(dates));
    // The quoted Adam is the same, of whom the later message is first; accents come after z.
    let authors = ["cherry", "banana", "Fwd: RE: apple", "Re: apple", "Apple"];
    check(SortBy::Author, false, authors);
    check(SortBy::Author, true, reversed(authors));
    let subjects = ["Fwd: RE: apple", "Apple", "Re: apple", "banana", "cherry"];
    check(SortBy::Subject, false, subjects);
    check(SortBy::Subject, true, reversed(subjects));
}

fn reversed(mut list: [&str; 5]) -> [&str; 5] {
    list.reverse();
    list
}

/// The subjects of what a search for `text` in all folders finds.
fn found(store: &mut Store, user: UserId, text: &str) -> Vec<String> {
    let order = Order { reversed: true, ..Order::default() };
    let listing = store.search(&Untimed, user, None, text, None, order, 0, 200).unwrap();
    assert_eq!(listing.total, listing.messages.len() as u64);
    listing.messages.into_iter().map(|message| message.subject).collect()
}

fn a_search_finds_text_as_it_is_in_all_headers(test: &TestDatabase) {
    let mut store = test.connect();
    let ann = user(&mut store, "ann");
    let inbox = folder(&mut store, ann, FolderKind::Inbox);
    for (date, subject) in
        ["100% sure", "100 sure", "a_b", "axb", "c\\d", "ÄRGER", "it's"].into_iter().enumerate()
    {
        let new = NewMessage {
            headers: format!("List-Id: list{date}"),
            recipients: format!("to{date}@example.org"),
            ..mail(&format!("From{date} <f@example.org>"), subject, date as i64)
        };
        store.deliver(&Untimed, ann, inbox, &new).unwrap();
    }
    let mut check = |text, expected: &[&str]| assert_eq!(found(&mut store, ann, text), expected);
    check("100%", &["100% sure"]);
    check("0% S", &["100% sure"]);
    check("a_b", &["a_b"]);
    check("c\\d", &["c\\d"]);
    check("\\", &["c\\d"]);
    check("%", &["100% sure"]);
    check("_", &["a_b"]);
    check("ärger", &["ÄRGER"]);
    check("it's", &["it's"]);
    check("LIST3", &["axb"]);
    check("to2@", &["a_b"]);
    check("from1", &["100 sure"]);
    check("nowhere", &[]);
    check("text.", &[]);
    assert_eq!(found(&mut store, ann, "").len(), 7);
}

fn a_search_is_bounded_by_folder_and_time(test: &TestDatabase) {
    let mut store = test.connect();
    let ann = user(&mut store, "ann");
    let inbox = folder(&mut store, ann, FolderKind::Inbox);
    let other = store.create_folder(&Untimed, ann, "Other").unwrap();
    for date in 0..30 {
        let to = if date % 3 == 0 { other } else { inbox };
        let subject = if date % 2 == 0 { "even" } else { "odd" };
        store.deliver(&Untimed, ann, to, &mail("a@example.org", subject, date)).unwrap();
    }
    let mut search = |folder, since, first, count| {
        let order = Order::default();
        let text = "EVEN";
        let found = store.search(&Untimed, ann, folder, text, since, order, first, count).unwrap();
        let dates: Vec<i64> = found.messages.iter().map(|message| message.date_seconds).collect();
        (found.total, dates)
    };
    assert_eq!(search(None, None, 0, 3), (15, vec![28, 26, 24]));
    assert_eq!(search(None, None, 14, 3), (15, vec![0]));
    assert_eq!(search(None, None, 15, 3), (15, vec![]));
    assert_eq!(search(None, None, 0, 0), (15, vec![]));
    assert_eq!(search(Some(other), None, 0, 3), (5, vec![24, 18, 12]));
    assert_eq!(search(Some(other), Some(13), 0, 3), (2, vec![24, 18]));
    assert_eq!(search(None, Some(25), 0, 3), (2, vec![28, 26]));
    assert_eq!(search(None, Some(29), 0, 3), (0, vec![]));
}
