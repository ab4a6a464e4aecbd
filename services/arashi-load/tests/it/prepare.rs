//! Mailboxes for a load test, in SQLite.

use std::path::PathBuf;

use tamarisk_arashi::store::{AccountClass, Database, FolderKind, Order, Untimed};
use tamarisk_arashi_load::{Accounts, PrepareError, Prepared, prepare};

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn database(&self, name: &str) -> Database {
        Database::at(&format!("sqlite:{}", self.0.join(name).display())).unwrap()
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Left-over files in the system's temporary folder harm nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn accounts(count: usize) -> Accounts {
    Accounts::numbered("user", count, "correct horse", 0.5).unwrap()
}

/// What each account's inbox has.
fn inboxes(database: &Database, accounts: &Accounts) -> Vec<(AccountClass, u64)> {
    let mut store = database.connect().unwrap();
    let all = accounts.all().iter();
    all.map(|account| {
        let found = store.log_in(&Untimed, &account.name, &account.password).unwrap();
        let (found, _) = found.expect("the password is right");
        let folders = store.folders(&Untimed, found.id).unwrap();
        let inbox = folders.iter().find(|folder| folder.kind == FolderKind::Inbox).unwrap();
        (found.class, inbox.messages)
    })
    .collect()
}

#[test]
fn the_same_seed_makes_the_same_mailboxes() {
    let scratch = Scratch::new("arashi-prepare");
    let accounts = accounts(4);
    let [first, second] = ["first.db", "second.db"].map(|name| {
        let database = scratch.database(name);
        let mut last = Prepared::default();
        let prepared = prepare(&database, &accounts, 9, |so_far| last = so_far).unwrap();
        assert_eq!((prepared, prepared.accounts), (last, 4));
        let inboxes = inboxes(&database, &accounts);
        assert_eq!(inboxes.iter().map(|(_, messages)| messages).sum::<u64>(), prepared.messages);
        inboxes
    });
    assert_eq!(first, second);
    let classes: Vec<_> = first.iter().map(|(class, _)| *class).collect();
    use AccountClass::{Bronze, Gold};
    assert_eq!(classes, [Bronze, Bronze, Gold, Gold]);
    assert!(first.iter().all(|(_, messages)| *messages >= 1));
}

/// The first message of each account's inbox.
fn first_messages(database: &Database, accounts: &Accounts) -> Vec<Vec<u8>> {
    let mut store = database.connect().unwrap();
    let all = accounts.all().iter();
    all.map(|account| {
        let user = store.account(&Untimed, &account.name).unwrap().expect("it was made").id;
        let folders = store.folders(&Untimed, user).unwrap();
        let inbox = folders.iter().find(|folder| folder.kind == FolderKind::Inbox).unwrap().id;
        let order = Order { reversed: true, ..Order::default() };
        let listing = store.list(&Untimed, user, inbox, order, 0, 1, false).unwrap();
        store.message(&Untimed, user, listing.messages[0].id).unwrap().raw
    })
    .collect()
}

#[test]
fn neighbouring_seeds_make_other_mail() {
    let scratch = Scratch::new("arashi-prepare-seeds");
    let accounts = accounts(2);
    let mut all: Vec<_> = [1, 2]
        .into_iter()
        .flat_map(|seed| {
            let database = scratch.database(&format!("{seed}.db"));
            prepare(&database, &accounts, seed, |_| {}).unwrap();
            first_messages(&database, &accounts)
        })
        .collect();
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 4);
}

#[test]
fn an_account_that_is_there_is_left_alone() {
    let scratch = Scratch::new("arashi-prepare-again");
    let (database, accounts) = (scratch.database("mail.db"), accounts(1));
    prepare(&database, &accounts, 1, |_| {}).unwrap();
    let before = inboxes(&database, &accounts);
    let error = prepare(&database, &accounts, 2, |_| {}).unwrap_err();
    assert!(matches!(&error, PrepareError::Exists(name) if name == "user0"), "{error}");
    assert_eq!(inboxes(&database, &accounts), before);
}
