//! How long the calls of the store take with a mailbox of 12,794 messages, the largest of the
//! papers: `store_times [URL]`, by default on SQLite in a new folder.

use std::time::{Duration, Instant};

use tamarisk_arashi::store::{
    AccountClass, Database, FolderId, FolderKind, MessageId, NewMessage, Order, SortBy, Store,
    StoreError, Untimed, UserId,
};

const MESSAGES: u64 = 12_794;
const PAGE: u32 = 20;
const CALLS: usize = 300;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::temp_dir().join(format!("tamarisk-store-{}", std::process::id()));
    let url = std::env::args()
        .nth(1)
        .unwrap_or_else(|| format!("sqlite:{}", folder.join("mail.db").display()));
    let result = measure(&Database::at(&url)?);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    Ok(result?)
}

fn measure(database: &Database) -> Result<(), StoreError> {
    let mut store = database.connect()?;
    let account = store.create_account(&Untimed, "ann", "correct horse", AccountClass::Gold)?;
    let user = account.id;
    let folders = store.folders(&Untimed, user)?;
    let find = |kind| folders.iter().find(|folder| folder.kind == kind).map(|folder| folder.id);
    let inbox = find(FolderKind::Inbox).ok_or(StoreError::NotFound)?;
    let other = store.create_folder(&Untimed, user, "Other")?;
    let start = Instant::now();
    store.deliver_all(&Untimed, user, inbox, &mut (0..MESSAGES).map(mail))?;
    println!("import of {MESSAGES} messages: {:.2?}", start.elapsed());
    println!("{:<44} {:>10} {:>10} {:>10}", "call", "least us", "median us", "p99 us");
    measure_reads(&mut store, user, inbox)?;
    let all = listed(&mut store, user, inbox)?;
    let mut next = 0;
    measure_call("message, unread", CALLS, || {
        next += 1;
        store.message(&Untimed, user, all[next])
    })?;
    measure_call("message, read", CALLS, || store.message(&Untimed, user, all[1]))?;
    let mut targets = [other, inbox].into_iter().cycle();
    measure_call("refile, 1 message", CALLS, || {
        store.refile(&Untimed, user, &all[..1], targets.next().unwrap_or(inbox))
    })?;
    measure_call("refile, 20 messages", CALLS, || {
        store.refile(&Untimed, user, &all[..20], targets.next().unwrap_or(inbox))
    })?;
    let mut gone = all.iter();
    measure_call("delete, to Trash", CALLS, || {
        store.move_to_trash(&Untimed, user, &gone.next().copied().into_iter().collect::<Vec<_>>())
    })?;
    measure_call("deliver", CALLS, || store.deliver(&Untimed, user, inbox, &mail(1)))?;
    let logged_in = store.log_in(&Untimed, "ann", "correct horse")?;
    let (_, key) = logged_in.ok_or(StoreError::NotFound)?;
    measure_call("session", CALLS, || store.session(&Untimed, &key))?;
    measure_call("log_in", 20, || store.log_in(&Untimed, "ann", "correct horse"))
}

fn measure_reads(store: &mut Store, user: UserId, inbox: FolderId) -> Result<(), StoreError> {
    measure_call("folders", CALLS, || store.folders(&Untimed, user))?;
    for (name, by, first) in [
        ("list by date, first page", SortBy::Date, 0),
        ("list by author, first page", SortBy::Author, 0),
        ("list by subject, first page", SortBy::Subject, 0),
        ("list by date, page in the middle", SortBy::Date, MESSAGES / 2),
        ("list by date, last page", SortBy::Date, MESSAGES - u64::from(PAGE)),
    ] {
        let order = Order { by, reversed: false };
        measure_call(name, CALLS, || store.list(&Untimed, user, inbox, order, first, PAGE, true))?;
    }
    let newest = 1_000_000_000 + MESSAGES as i64 * 3600;
    for (name, text, since) in [
        ("search, finds some", "list7@", None),
        ("search, finds nothing", "no such text", None),
        ("search, finds all", "example.org", None),
        ("search, finds nothing in 1000 latest", "no such text", Some(newest - 3_600_000)),
    ] {
        measure_call(name, 30, || {
            store.search(&Untimed, user, None, text, since, Order::default(), 0, PAGE)
        })?;
    }
    Ok(())
}

fn listed(store: &mut Store, user: UserId, inbox: FolderId) -> Result<Vec<MessageId>, StoreError> {
    let mut all = Vec::new();
    for first in (0..800).step_by(200) {
        let page = store.list(&Untimed, user, inbox, Order::default(), first, 200, false)?;
        all.extend(page.messages.iter().map(|message| message.id));
    }
    Ok(all)
}

/// Prints the least, the median and the 99th percentile of `count` calls.
fn measure_call<T>(
    name: &str,
    count: usize,
    mut call: impl FnMut() -> Result<T, StoreError>,
) -> Result<(), StoreError> {
    let mut times = Vec::with_capacity(count);
    for _ in 0..count {
        let start = Instant::now();
        call()?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    let microseconds = |time: Duration| time.as_secs_f64() * 1e6;
    let [least, median, late] =
        [0, count / 2, count * 99 / 100].map(|index| microseconds(times[index]));
    println!("{name:<44} {least:>10.0} {median:>10.0} {late:>10.0}");
    Ok(())
}

/// Mail with 1.5 kB of headers and 4 kB of text.
fn mail(number: u64) -> NewMessage {
    // 97 and 211 have no common factors with the numbers of messages: authors come in any order.
    let author = format!("Author {} <a{}@example.org>", number * 97 % 500, number * 97 % 500);
    let subject = format!("Re: Subject {} of the list", number * 211 % 4000);
    let list = format!("list{}@example.org", number % 100);
    NewMessage {
        raw: vec![b'x'; 4096],
        from: author,
        recipients: list.clone(),
        subject,
        date_seconds: 1_000_000_000 + number as i64 * 3600,
        headers: format!("List-Id: {list}\n{}", "X-Header: some value of it\n".repeat(50)),
        snippet: "The text of the message begins like this.".repeat(3),
        has_attachments: number.is_multiple_of(10),
        is_read: false,
    }
}
