//! Folders, and what is counted in them.

use tamarisk_arashi::store::{FolderId, FolderKind, Invalid, StoreError, Untimed};

use crate::store::{counts, folder, mail, user};
use crate::support::TestDatabase;

crate::store::on_each_database! {
    a_new_account_has_three_folders,
    folders_are_made_and_deleted,
    names_of_folders_are_checked,
    folders_of_others_are_not_found,
}

fn a_new_account_has_three_folders(test: &TestDatabase) {
    let mut store = test.connect();
    let ann = user(&mut store, "ann");
    let folders = store.folders(&Untimed, ann).unwrap();
    let kinds: Vec<_> = folders.iter().map(|folder| (folder.kind, folder.name.as_str())).collect();
    let expected =
        [(FolderKind::Inbox, "Inbox"), (FolderKind::Sent, "Sent"), (FolderKind::Trash, "Trash")];
    assert_eq!(kinds, expected);
}

fn folders_are_made_and_deleted(test: &TestDatabase) {
    let mut store = test.connect();
    let ann = user(&mut store, "ann");
    let zebra = store.create_folder(&Untimed, ann, "  Zebra ").unwrap();
    store.create_folder(&Untimed, ann, "Ärger '; DROP TABLE folders; --").unwrap();
    let first = store.deliver(&Untimed, ann, zebra, &mail("a@example.org", "one", 1)).unwrap();
    store.deliver(&Untimed, ann, zebra, &mail("a@example.org", "two", 2)).unwrap();
    store.message(&Untimed, ann, first).unwrap();
    let count = |name: &str, messages, unread| (name.to_owned(), messages, unread);
    let mut expected = vec![
        count("Inbox", 0, 0),
        count("Sent", 0, 0),
        count("Trash", 0, 0),
        count("Zebra", 2, 1),
        count("Ärger '; DROP TABLE folders; --", 0, 0),
    ];
    assert_eq!(counts(&mut store, ann), expected);
    store.delete_folder(&Untimed, ann, zebra).unwrap();
    expected.remove(3);
    expected[2] = count("Trash", 2, 1);
    assert_eq!(counts(&mut store, ann), expected);
    let trash = folder(&mut store, ann, FolderKind::Trash);
    assert_eq!(store.message(&Untimed, ann, first).unwrap().summary.folder, trash);
    let again = store.delete_folder(&Untimed, ann, zebra);
    assert!(matches!(again, Err(StoreError::NotFound)), "{again:?}");
}

fn names_of_folders_are_checked(test: &TestDatabase) {
    let mut store = test.connect();
    let ann = user(&mut store, "ann");
    let mut check = |name: &str, expected| match store.create_folder(&Untimed, ann, name) {
        Err(StoreError::Invalid(invalid)) => assert_eq!(Some(invalid), expected, "{name}"),
        other => assert!(other.is_ok() && expected.is_none(), "{name}: {other:?}"),
    };
    check("Work", None);
    check("work", None);
    check(" Work", Some(Invalid::FolderNameTaken));
    check("Inbox", Some(Invalid::FolderNameTaken));
    check(&"\u{1f4e7}".repeat(100), None);
    check(&"x".repeat(101), Some(Invalid::FolderName));
    for name in ["", "  ", "a\0b", "a\nb"] {
        check(name, Some(Invalid::FolderName));
    }
    for number in 6..200 {
        check(&number.to_string(), None);
    }
    check("one more", Some(Invalid::TooManyFolders));
    for kind in [FolderKind::Inbox, FolderKind::Sent, FolderKind::Trash] {
        let fixed = folder(&mut store, ann, kind);
        let deleted = store.delete_folder(&Untimed, ann, fixed);
        assert!(matches!(deleted, Err(StoreError::Invalid(Invalid::FixedFolder))), "{deleted:?}");
    }
}

fn folders_of_others_are_not_found(test: &TestDatabase) {
    let mut store = test.connect();
    let ann = user(&mut store, "ann");
    let bob = user(&mut store, "bob");
    let hers = store.create_folder(&Untimed, ann, "Hers").unwrap();
    let inbox = folder(&mut store, bob, FolderKind::Inbox);
    let id = store.deliver(&Untimed, bob, inbox, &mail("a@example.org", "one", 1)).unwrap();
    let before = (counts(&mut store, ann), counts(&mut store, bob));
    let order = Default::default();
    for folder in [hers, FolderId(0), FolderId(-1), FolderId(i64::MAX)] {
        let mail = mail("a@example.org", "two", 2);
        let answers = [
            store.list(&Untimed, bob, folder, order, 0, 10, true).map(drop),
            store.search(&Untimed, bob, Some(folder), "one", None, order, 0, 10).map(drop),
            store.refile(&Untimed, bob, &[id], folder).map(drop),
            store.deliver(&Untimed, bob, folder, &mail).map(drop),
            store.deliver_all(&Untimed, bob, folder, &mut [mail].into_iter()).map(drop),
            store.delete_folder(&Untimed, bob, folder),
        ];
        for (call, answer) in answers.iter().enumerate() {
            assert!(matches!(answer, Err(StoreError::NotFound)), "{folder:?} {call}: {answer:?}");
        }
    }
    assert_eq!((counts(&mut store, ann), counts(&mut store, bob)), before);
}
