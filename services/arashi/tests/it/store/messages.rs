//! Messages delivered, shown, moved and deleted.

use tamarisk_arashi::store::{
    FolderKind, Invalid, MessageId, NewMessage, Order, StoreError, Untimed, UserId,
};

use crate::store::{counts, folder, mail, user};
use crate::support::TestDatabase;

crate::store::on_each_database! {
    a_message_comes_back_as_it_was,
    hostile_texts_are_kept_as_text,
    messages_are_moved_once,
    messages_are_deleted_by_way_of_trash,
    a_message_is_sent_to_all_or_to_none,
    users_who_write_to_one_another_do_not_wait_for_ever,
    messages_of_others_are_not_found,
    many_messages_are_delivered_in_transactions,
    more_than_a_call_takes_is_rejected,
}

fn a_message_comes_back_as_it_was(test: &TestDatabase) {
    let mut store = test.connect();
    let ann = user(&mut store, "ann");
    let inbox = folder(&mut store, ann, FolderKind::Inbox);
    let sent = folder(&mut store, ann, FolderKind::Sent);
    let raw: Vec<u8> = (0..=255).cycle().take(1 << 20).collect();
    let new = NewMessage { raw: raw.clone(), has_attachments: true, ..mail("Ann <a@b>", "Ü", -5) };
    let id = store.deliver(&Untimed, ann, inbox, &new).unwrap();
    assert_eq!(counts(&mut store, ann)[0], ("Inbox".into(), 1, 1));
    let listed = store.list(&Untimed, ann, inbox, Order::default(), 0, 10, true).unwrap();
    assert!(listed.messages[0].is_unread);
    for _ in 0..2 {
        let stored = store.message(&Untimed, ann, id).unwrap();
        assert_eq!(stored.raw, raw);
        let summary = stored.summary;
        assert_eq!((summary.id, summary.folder), (id, inbox));
        assert_eq!((summary.from.as_str(), summary.subject.as_str()), ("Ann <a@b>", "Ü"));
        assert_eq!((summary.date_seconds, summary.size_bytes), (-5, 1 << 20));
        assert_eq!((summary.is_unread, summary.has_attachments), (false, true));
        assert_eq!(counts(&mut store, ann)[0], ("Inbox".into(), 1, 0));
    }
    let empty = store.deliver(&Untimed, ann, sent, &NewMessage::default()).unwrap();
    assert_eq!(counts(&mut store, ann)[1], ("Sent".into(), 1, 0));
    assert_eq!(store.message(&Untimed, ann, empty).unwrap().raw, b"");
}

fn hostile_texts_are_kept_as_text(test: &TestDatabase) {
    let mut store = test.connect();
    let ann = user(&mut store, "ann");
    let inbox = folder(&mut store, ann, FolderKind::Inbox);
    let hostile = [
        "'; DROP TABLE messages; --",
        "\" OR \"\"=\"",
        "\\'; DELETE FROM users; #",
        "$1 ? :name @p %s {}",
        "\u{1f4a3}\u{202e}\u{feff}",
        "/* */ UNION SELECT 1",
    ];
    for text in hostile {
        let new = NewMessage {
            recipients: text.into(),
            headers: text.into(),
            snippet: text.into(),
            ..mail(text, text, 1)
        };
        let id = store.deliver(&Untimed, ann, inbox, &new).unwrap();
        let summary = store.message(&Untimed, ann, id).unwrap().summary;
        let kept = (summary.from.as_str(), summary.subject.as_str(), summary.snippet.as_deref());
        assert_eq!(kept, (text, text, Some(text)));
        let found = store.search(&Untimed, ann, None, text, None, Order::default(), 0, 10).unwrap();
        assert_eq!((found.total, found.messages[0].id), (1, id), "{text}");
    }
    let nul = NewMessage { snippet: "\0".repeat(9), ..mail("a\0b", "\0", 1) };
    let nul = store.deliver(&Untimed, ann, inbox, &nul).unwrap();
    assert_eq!(store.message(&Untimed, ann, nul).unwrap().summary.from, "ab");
    let long = "\u{e9}".repeat(100_000);
    let long = NewMessage { headers: long.clone(), snippet: long.clone(), ..mail(&long, &long, 1) };
    let long = store.deliver(&Untimed, ann, inbox, &long).unwrap();
    let summary = store.message(&Untimed, ann, long).unwrap().summary;
    assert!(summary.subject.len() <= 1024 && summary.from.len() <= 512);
    assert_eq!(counts(&mut store, ann)[0].1, 8);
}

fn messages_are_moved_once(test: &TestDatabase) {
    let mut store = test.connect();
    let ann = user(&mut store, "ann");
    let inbox = folder(&mut store, ann, FolderKind::Inbox);
    let other = store.create_folder(&Untimed, ann, "Other").unwrap();
    let mut deliver = |number: i64| {
        let mail = mail("a@example.org", &number.to_string(), number);
        store.deliver(&Untimed, ann, inbox, &mail).unwrap()
    };
    let ids: Vec<MessageId> = (0..100).map(&mut deliver).collect();
    store.message(&Untimed, ann, ids[0]).unwrap();
    let doubled = [&ids[..75], &ids[..75], &[MessageId(-1)]].concat();
    assert_eq!(store.refile(&Untimed, ann, &doubled, other).unwrap(), 75);
    let before = counts(&mut store, ann);
    assert_eq!(store.refile(&Untimed, ann, &doubled, other).unwrap(), 75, "they lie there already");
    assert_eq!(counts(&mut store, ann), before);
    assert_eq!(store.refile(&Untimed, ann, &[], other).unwrap(), 0);
    let count = |name: &str, messages, unread| (name.to_owned(), messages, unread);
    let counted = counts(&mut store, ann);
    assert_eq!((&counted[0], &counted[3]), (&count("Inbox", 25, 25), &count("Other", 75, 74)));
    assert_eq!(store.refile(&Untimed, ann, &ids, inbox).unwrap(), 100);
    let listed = store.list(&Untimed, ann, inbox, Order::default(), 0, 200, false).unwrap();
    assert_eq!((listed.total, listed.messages.len()), (100, 100));
}

fn messages_are_deleted_by_way_of_trash(test: &TestDatabase) {
    let mut store = test.connect();
    let ann = user(&mut store, "ann");
    let inbox = folder(&mut store, ann, FolderKind::Inbox);
    let mut deliver =
        |text: &str| store.deliver(&Untimed, ann, inbox, &mail("a@example.org", text, 1)).unwrap();
    let (one, two, three) = (deliver("one"), deliver("two"), deliver("three"));
    assert_eq!(store.delete_from_trash(&Untimed, ann, &[one]).unwrap(), 0);
    // Once, however often it is asked for.
    for _ in 0..2 {
        assert_eq!(store.move_to_trash(&Untimed, ann, &[one]).unwrap(), 1);
    }
    assert_eq!(counts(&mut store, ann)[2], ("Trash".into(), 1, 1));
    // Only what lies in Trash.
    assert_eq!(store.delete_from_trash(&Untimed, ann, &[two, one, MessageId(0)]).unwrap(), 1);
    assert_eq!(store.move_to_trash(&Untimed, ann, &[two]).unwrap(), 1);
    let gone = store.message(&Untimed, ann, one);
    assert!(matches!(gone, Err(StoreError::NotFound)), "{gone:?}");
    assert_eq!(counts(&mut store, ann)[0], ("Inbox".into(), 1, 1));
    assert_eq!(counts(&mut store, ann)[2], ("Trash".into(), 1, 1));
    // A number is not given again.
    let four = store.deliver(&Untimed, ann, inbox, &mail("a@example.org", "four", 1)).unwrap();
    assert!(four > three && store.message(&Untimed, ann, three).is_ok());
}

fn a_message_is_sent_to_all_or_to_none(test: &TestDatabase) {
    let mut store = test.connect();
    let [ann, bob, carl] = ["ann", "bob", "carl"].map(|name| user(&mut store, name));
    let mut counted = |user| {
        let counts = counts(&mut store, user);
        (counts[0].1, counts[0].2, counts[1].1, counts[1].2)
    };
    assert_eq!(counted(ann), (0, 0, 0, 0));
    let new = mail("ann@localhost", "Hello", 1);
    let mut sender = test.connect();
    let gone = UserId(carl.0 + 1);
    let failed = sender.send(&Untimed, ann, &[bob, gone].into(), &new);
    assert!(matches!(failed, Err(StoreError::NotFound)), "{failed:?}");
    assert_eq!([ann, bob, carl].map(&mut counted), [(0, 0, 0, 0); 3]);
    sender.send(&Untimed, ann, &[bob, carl].into(), &new).unwrap();
    assert_eq!([ann, bob, carl].map(&mut counted), [(0, 0, 1, 0), (1, 1, 0, 0), (1, 1, 0, 0)]);
    sender.send(&Untimed, ann, &[ann].into(), &new).unwrap();
    assert_eq!(counted(ann), (1, 1, 2, 0));
}

fn users_who_write_to_one_another_do_not_wait_for_ever(test: &TestDatabase) {
    const MESSAGES: usize = 40;
    let mut store = test.connect();
    let [ann, bob] = ["ann", "bob"].map(|name| user(&mut store, name));
    std::thread::scope(|scope| {
        for (author, recipient) in [(ann, bob), (bob, ann)] {
            let mut store = test.connect();
            scope.spawn(move || {
                for _ in 0..MESSAGES {
                    let new = mail("a@localhost", "Hello", 1);
                    store.send(&Untimed, author, &[recipient].into(), &new).unwrap();
                }
            });
        }
    });
    for user in [ann, bob] {
        let counts = counts(&mut store, user);
        assert_eq!([counts[0].1, counts[1].1], [MESSAGES as u64; 2]);
    }
}

fn messages_of_others_are_not_found(test: &TestDatabase) {
    let mut store = test.connect();
    let ann = user(&mut store, "ann");
    let bob = user(&mut store, "bob");
    let inbox = folder(&mut store, ann, FolderKind::Inbox);
    let his = folder(&mut store, bob, FolderKind::Inbox);
    let hers = store.deliver(&Untimed, ann, inbox, &mail("a@example.org", "secret", 1)).unwrap();
    let before = counts(&mut store, ann);
    let shown = store.message(&Untimed, bob, hers);
    assert!(matches!(shown, Err(StoreError::NotFound)), "{shown:?}");
    assert_eq!(store.refile(&Untimed, bob, &[hers], his).unwrap(), 0);
    assert_eq!(store.move_to_trash(&Untimed, bob, &[hers]).unwrap(), 0);
    assert_eq!(store.delete_from_trash(&Untimed, bob, &[hers]).unwrap(), 0);
    let found = store.search(&Untimed, bob, None, "secret", None, Order::default(), 0, 10).unwrap();
    assert_eq!(found.total, 0);
    assert_eq!(counts(&mut store, ann), before);
    assert!(
        store.list(&Untimed, ann, inbox, Order::default(), 0, 9, true).unwrap().messages[0]
            .is_unread
    );
}

fn many_messages_are_delivered_in_transactions(test: &TestDatabase) {
    let mut store = test.connect();
    let ann = user(&mut store, "ann");
    let inbox = folder(&mut store, ann, FolderKind::Inbox);
    let mut mails = (0..450).map(|number| mail("a@example.org", &format!("m{number}"), number));
    assert_eq!(store.deliver_all(&Untimed, ann, inbox, &mut mails).unwrap(), 450);
    assert_eq!(counts(&mut store, ann)[0], ("Inbox".into(), 450, 450));
    // The transaction with the message that is too large is undone, those before are kept.
    let mut mails = (0..450).map(|number| NewMessage {
        raw: if number == 250 { vec![0; (15 << 20) + 1] } else { vec![b'x'] },
        ..mail("a@example.org", "more", number)
    });
    let failed = store.deliver_all(&Untimed, ann, inbox, &mut mails);
    assert!(matches!(failed, Err(StoreError::Invalid(Invalid::MessageSize))), "{failed:?}");
    assert_eq!(counts(&mut store, ann)[0], ("Inbox".into(), 650, 650));
    let listed = store.list(&Untimed, ann, inbox, Order::default(), 0, 1, false).unwrap();
    assert_eq!((listed.total, listed.messages[0].date_seconds), (650, 449));
    // One at a time they are counted, long ones too.
    let mut mails = (0..10).map(|number| NewMessage {
        raw: vec![b'x'; 3 << 20],
        ..mail("a@example.org", "long", number)
    });
    let next = || store.deliver_next(&Untimed, ann, inbox, &mut mails).unwrap();
    assert_eq!(std::iter::repeat_with(next).take(5).collect::<Vec<_>>(), [3, 3, 3, 1, 0]);
    assert_eq!(counts(&mut store, ann)[0], ("Inbox".into(), 660, 660));
}

fn more_than_a_call_takes_is_rejected(test: &TestDatabase) {
    let mut store = test.connect();
    let ann = user(&mut store, "ann");
    let inbox = folder(&mut store, ann, FolderKind::Inbox);
    let ids = vec![MessageId(1); 1001];
    let order = Order::default();
    let long = "x".repeat(801);
    let answers = [
        store.refile(&Untimed, ann, &ids, inbox).map(drop),
        store.move_to_trash(&Untimed, ann, &ids).map(drop),
        store.delete_from_trash(&Untimed, ann, &ids).map(drop),
        store.list(&Untimed, ann, inbox, order, 0, 201, true).map(drop),
        store.search(&Untimed, ann, None, &long, None, order, 0, 10).map(drop),
    ];
    for answer in answers {
        assert!(matches!(answer, Err(StoreError::Invalid(_))), "{answer:?}");
    }
}
