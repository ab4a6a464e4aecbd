//! Accounts and sessions.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use tamarisk::Shield;
use tamarisk_arashi::store::{
    AccountClass, Database, FolderKind, Invalid, IsEnded, NewMessage, Order, SessionKey, Store,
    StoreError, Untimed, Work,
};

use crate::store::{PASSWORD, folder, user};
use crate::support::TestDatabase;

crate::store::on_each_database! {
    an_account_is_found_by_its_name,
    accounts_are_listed_by_name,
    an_account_goes_with_all_that_is_in_it,
    names_and_passwords_are_checked,
    only_the_right_password_logs_in,
    a_password_that_was_changed_ends_all_sessions,
    a_password_that_is_changed_after_it_was_verified_begins_no_session,
    users_change_their_passwords,
    of_two_changes_at_once_one_is_made,
    a_session_stands_for_its_account_until_log_out,
    a_session_ends_after_seven_days_or_twelve_idle_hours,
    the_session_that_was_not_used_for_longest_gives_way,
}

fn an_account_is_found_by_its_name(test: &TestDatabase) {
    let mut store = test.connect();
    let gold = store.create_account(&Untimed, "ann", PASSWORD, AccountClass::Gold).unwrap();
    let bronze = store.create_account(&Untimed, "Ann", PASSWORD, AccountClass::Bronze).unwrap();
    assert_ne!(gold.id, bronze.id);
    assert_eq!(store.account(&Untimed, "ann").unwrap(), Some(gold));
    assert_eq!(store.account(&Untimed, "Ann").unwrap(), Some(bronze));
    for unknown in ["ANN", "ann ", "", "' OR '1'='1", "a%", "_nn", "ann\0"] {
        assert_eq!(store.account(&Untimed, unknown).unwrap(), None, "{unknown}");
    }
}

fn accounts_are_listed_by_name(test: &TestDatabase) {
    let mut store = test.connect();
    for name in ["carl", "ann", "Bob"] {
        user(&mut store, name);
    }
    let mut names = |after: &str, count| {
        let accounts = store.accounts(&Untimed, after, count).unwrap();
        accounts.into_iter().map(|account| account.name).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(names("", 10), "Bob ann carl");
    assert_eq!((names("", 2), names("ann", 2)), ("Bob ann".into(), "carl".into()));
}

fn an_account_goes_with_all_that_is_in_it(test: &TestDatabase) {
    let mut store = test.connect();
    let (ann, bob) = (user(&mut store, "ann"), user(&mut store, "bob"));
    for (user, subject) in [(ann, "Hers"), (bob, "His")] {
        let mail = NewMessage { subject: subject.into(), ..NewMessage::default() };
        let inbox = folder(&mut store, user, FolderKind::Inbox);
        store.deliver_all(&Untimed, user, inbox, &mut std::iter::once(mail)).unwrap();
    }
    let (_, key) = store.log_in(&Untimed, "ann", PASSWORD).unwrap().unwrap();
    assert!(store.remove_account(&Untimed, "ann").unwrap());
    assert!(!store.remove_account(&Untimed, "ann").unwrap());
    assert_eq!(store.account(&Untimed, "ann").unwrap(), None);
    assert_eq!(store.session(&Untimed, &key).unwrap(), None);
    assert_eq!(store.folders(&Untimed, ann).unwrap(), []);
    let of = |store: &mut Store, user, text: &str| {
        let order = Order::default();
        store.search(&Untimed, user, None, text, None, order, 0, 10).unwrap().total
    };
    assert_eq!((of(&mut store, ann, "hers"), of(&mut store, bob, "his")), (0, 1));
    // Whoever has the name next has nothing of hers.
    let next = user(&mut store, "ann");
    assert_eq!(of(&mut store, next, "hers"), 0);
}

fn names_and_passwords_are_checked(test: &TestDatabase) {
    let mut store = test.connect();
    let mut check = |name: &str, password: &str, expected| {
        let made = store.create_account(&Untimed, name, password, AccountClass::Gold);
        match made {
            Err(StoreError::Invalid(invalid)) => assert_eq!(Some(invalid), expected, "{name}"),
            other => assert_eq!(other.is_ok(), expected.is_none(), "{name}: {other:?}"),
        }
    };
    check("a.b-c_9", PASSWORD, None);
    check("a.b-c_9", PASSWORD, Some(Invalid::AccountNameTaken));
    check(&"n".repeat(64), PASSWORD, None);
    check(&"n".repeat(65), PASSWORD, Some(Invalid::AccountName));
    for name in ["", "a b", "a@b", "é", "x'; DROP TABLE users; --", "a\0", "%"] {
        check(name, PASSWORD, Some(Invalid::AccountName));
    }
    check("short", "1234567", Some(Invalid::Password));
    check("long", &"p".repeat(1025), Some(Invalid::Password));
}

fn only_the_right_password_logs_in(test: &TestDatabase) {
    let mut store = test.connect();
    let id = user(&mut store, "ann");
    let mut log_in = |name, password| {
        let begun = store.log_in(&Untimed, name, password).unwrap();
        begun.map(|(account, _)| account.id)
    };
    assert_eq!(log_in("ann", PASSWORD), Some(id));
    for (name, password) in [
        ("ann", "correct horsf"),
        ("ann", ""),
        ("ann", "' OR 1=1 --"),
        ("Ann", PASSWORD),
        ("nobody", PASSWORD),
        ("' OR 1=1 --", PASSWORD),
        ("ann\0", PASSWORD),
    ] {
        assert_eq!(log_in(name, password), None, "{name} {password}");
    }
}

fn a_password_that_was_changed_ends_all_sessions(test: &TestDatabase) {
    const CHANGED: &str = "battery staple";
    let mut store = test.connect();
    let ann = user(&mut store, "ann");
    user(&mut store, "bob");
    let mut begin = |name, password| store.log_in(&Untimed, name, password).unwrap();
    let (_, of_ann) = begin("ann", PASSWORD).unwrap();
    let (_, of_bob) = begin("bob", PASSWORD).unwrap();
    assert!(store.set_password(&Untimed, "ann", CHANGED).unwrap());
    assert!(store.session(&Untimed, &of_ann).unwrap().is_none());
    assert!(store.session(&Untimed, &of_bob).unwrap().is_some());
    assert!(store.log_in(&Untimed, "ann", PASSWORD).unwrap().is_none());
    let (account, _) = store.log_in(&Untimed, "ann", CHANGED).unwrap().unwrap();
    assert_eq!(account.id, ann);
    assert!(!store.set_password(&Untimed, "nobody", CHANGED).unwrap());
    let short = store.set_password(&Untimed, "ann", "short");
    assert!(matches!(short, Err(StoreError::Invalid(Invalid::Password))), "{short:?}");
    assert!(store.log_in(&Untimed, "ann", CHANGED).unwrap().is_some());
}

/// Work whose second call of the database finds another password than the first.
struct ChangesPassword<'a> {
    test: &'a TestDatabase,
    calls: Cell<u32>,
}

impl Work for ChangesPassword<'_> {
    /// Is called once for each call of the database, before that begins.
    fn is_ended(&self) -> IsEnded {
        self.calls.set(self.calls.get() + 1);
        if self.calls.get() == 2 {
            let mut store = self.test.connect();
            assert!(store.set_password(&Untimed, "ann", "a new password").unwrap());
        }
        Untimed.is_ended()
    }

    fn time_left(&self) -> Option<Duration> {
        None
    }

    fn shield(&self) -> Option<Shield> {
        None
    }
}

fn a_password_that_is_changed_after_it_was_verified_begins_no_session(test: &TestDatabase) {
    let mut store = test.connect();
    user(&mut store, "ann");
    let work = ChangesPassword { test, calls: Cell::new(0) };
    let begun = store.log_in(&work, "ann", PASSWORD).unwrap();
    assert!(work.calls.get() >= 2, "the password was changed");
    assert_eq!(begun, None);
    assert!(store.log_in(&Untimed, "ann", "a new password").unwrap().is_some());
}

fn users_change_their_passwords(test: &TestDatabase) {
    let mut store = test.connect();
    user(&mut store, "ann");
    let (_, key) = store.log_in(&Untimed, "ann", PASSWORD).unwrap().unwrap();
    let change = |store: &mut Store, current: &str, new: &str| {
        store.change_password(&Untimed, "ann", current, new)
    };
    for _ in 0..20 {
        assert!(change(&mut store, "another", "a new password").unwrap().is_none());
        let Err(StoreError::Invalid(Invalid::Password)) = change(&mut store, PASSWORD, "short")
        else {
            panic!("a short password")
        };
    }
    assert!(store.session(&Untimed, &key).unwrap().is_some(), "what is rejected ends nothing");
    let (session, next) = change(&mut store, PASSWORD, "a new password").unwrap().unwrap();
    assert_eq!(store.session(&Untimed, &next).unwrap(), Some(session));
    assert_eq!(store.session(&Untimed, &key).unwrap(), None);
    assert_eq!(store.log_in(&Untimed, "ann", PASSWORD).unwrap(), None);
    assert!(store.log_in(&Untimed, "ann", "a new password").unwrap().is_some());
}

fn of_two_changes_at_once_one_is_made(test: &TestDatabase) {
    user(&mut test.connect(), "ann");
    let made = std::thread::scope(|scope| {
        let changes: Vec<_> = ["a new password", "another new one"]
            .map(|new| {
                scope.spawn(move || {
                    let mut store = test.connect();
                    let changed = store.change_password(&Untimed, "ann", PASSWORD, new).unwrap();
                    changed.map(|_| new)
                })
            })
            .into();
        let made = changes.into_iter().filter_map(|change| change.join().unwrap());
        made.collect::<Vec<_>>()
    });
    let [new] = made[..] else { panic!("{made:?}") };
    assert!(test.connect().log_in(&Untimed, "ann", new).unwrap().is_some());
}

fn a_session_stands_for_its_account_until_log_out(test: &TestDatabase) {
    let mut store = test.connect();
    user(&mut store, "ann");
    let (account, key) = store.log_in(&Untimed, "ann", PASSWORD).unwrap().unwrap();
    let (_, other) = store.log_in(&Untimed, "ann", PASSWORD).unwrap().unwrap();
    let session = store.session(&Untimed, &key).unwrap().unwrap();
    assert_eq!(session.account, account);
    assert_ne!(session.csrf, store.session(&Untimed, &other).unwrap().unwrap().csrf);
    let unknown: SessionKey = "0".repeat(64).parse().unwrap();
    assert_eq!(store.session(&Untimed, &unknown).unwrap(), None);
    store.log_out(&Untimed, &key).unwrap();
    store.log_out(&Untimed, &key).unwrap();
    assert_eq!(store.session(&Untimed, &key).unwrap(), None);
    assert!(store.session(&Untimed, &other).unwrap().is_some());
}

/// The database by a clock that starts at 1,000,000 s and is set by the test.
fn with_clock(test: &TestDatabase) -> (Database, Arc<AtomicI64>) {
    let time = Arc::new(AtomicI64::new(1_000_000));
    let clock = Arc::clone(&time);
    (test.database.clone().with_clock(move || clock.load(Ordering::Relaxed)), time)
}

fn a_session_ends_after_seven_days_or_twelve_idle_hours(test: &TestDatabase) {
    let (database, time) = with_clock(test);
    let mut store = database.connect().unwrap();
    user(&mut store, "ann");
    let (_, idle) = store.log_in(&Untimed, "ann", PASSWORD).unwrap().unwrap();
    let (_, used) = store.log_in(&Untimed, "ann", PASSWORD).unwrap().unwrap();
    let mut is_alive = |key, seconds: i64| {
        time.store(1_000_000 + seconds, Ordering::Relaxed);
        store.session(&Untimed, key).unwrap().is_some()
    };
    let hour = 3600;
    assert!(is_alive(&used, 11 * hour));
    assert!(is_alive(&idle, 12 * hour - 1 - 12 * hour + 30));
    assert!(!is_alive(&idle, 12 * hour));
    for hours in (22..168).step_by(11) {
        assert!(is_alive(&used, hours * hour), "{hours} h");
    }
    assert!(is_alive(&used, 168 * hour - 1));
    assert!(!is_alive(&used, 168 * hour));
}

fn the_session_that_was_not_used_for_longest_gives_way(test: &TestDatabase) {
    let (database, time) = with_clock(test);
    let mut store = database.connect().unwrap();
    user(&mut store, "ann");
    let mut keys = Vec::new();
    for _ in 0..16 {
        time.fetch_add(1, Ordering::Relaxed);
        keys.push(store.log_in(&Untimed, "ann", PASSWORD).unwrap().unwrap().1);
    }
    time.fetch_add(100, Ordering::Relaxed);
    assert!(store.session(&Untimed, &keys[0]).unwrap().is_some());
    store.log_in(&Untimed, "ann", PASSWORD).unwrap().unwrap();
    let are_alive: Vec<bool> =
        keys.iter().map(|key| store.session(&Untimed, key).unwrap().is_some()).collect();
    assert_eq!(are_alive.iter().filter(|&&is_alive| !is_alive).count(), 1);
    assert!(!are_alive[1]);
}
