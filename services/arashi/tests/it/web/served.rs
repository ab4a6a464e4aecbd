//! A served Arashi on SQLite, and what is in it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{SystemTime, UNIX_EPOCH};

use tamarisk_arashi::mail::new_message;
use tamarisk_arashi::store::{
    AccountClass, Database, FolderId, FolderKind, MessageId, Store, Untimed, UserId,
};
use tamarisk_arashi::{Arashi, Options};
use tokio::sync::oneshot;

use crate::support::TestDatabase;
use crate::web::browser::Browser;

pub(crate) const PASSWORD: &str = "correct horse";

/// Arashi, served until this is dropped.
pub(crate) struct Served {
    pub(crate) address: SocketAddr,
    pub(crate) arashi: Arashi,
    /// Seconds by which the clock of the database is ahead.
    pub(crate) ahead_seconds: Arc<AtomicI64>,
    pub(crate) database: TestDatabase,
    stop: Option<oneshot::Sender<()>>,
    serving: Option<JoinHandle<()>>,
}

impl Served {
    pub(crate) fn start() -> Self {
        Self::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut Options)) -> Self {
        Self::on(TestDatabase::sqlite(), change)
    }

    pub(crate) fn on(database: TestDatabase, change: impl FnOnce(&mut Options)) -> Self {
        let ahead_seconds = Arc::<AtomicI64>::default();
        let ahead = Arc::clone(&ahead_seconds);
        let clock = move || {
            let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
            i64::try_from(since_1970).unwrap() + ahead.load(Ordering::Relaxed)
        };
        let mut options = Options::new(database.database.clone().with_clock(clock));
        change(&mut options);
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(2).enable_all().build().unwrap();
        let (started, starting) = std::sync::mpsc::channel();
        let (stop, stopped) = oneshot::channel();
        let serving = thread::spawn(move || {
            runtime.block_on(async {
                let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
                let arashi = Arashi::open(options).unwrap();
                started.send((listener.local_addr().unwrap(), arashi.clone())).unwrap();
                let stopped = async { drop(stopped.await) };
                let service = arashi.service();
                service.serve_until(listener, arashi.router(), stopped).await.unwrap();
            });
        });
        let (address, arashi) = starting.recv().unwrap();
        let (stop, serving) = (Some(stop), Some(serving));
        Self { address, arashi, ahead_seconds, database, stop, serving }
    }

    pub(crate) fn store(&self) -> Store {
        self.database.connect()
    }

    /// A user with this many messages in the inbox.
    pub(crate) fn user(&self, name: &str, class: AccountClass, messages: usize) -> UserId {
        let mut store = self.store();
        let user = store.create_account(&Untimed, name, PASSWORD, class).unwrap().id;
        let inbox = inbox(&mut store, user);
        let mut mails = (0..messages).map(|number| {
            let raw = format!(
                "From: Sender {number:03} <s{number:03}@example.org>\r\nTo: {name}@example.org\r\n\
                 Subject: Message {number:03} for {name}\r\n\
                 Date: Mon, 3 Nov 2025 10:{:02}:{:02} +0000\r\n\r\n\
                 Hello {name}, this is text {number}. See https://example.org/{number}.\r\n",
                number / 60 % 60,
                number % 60,
            );
            new_message(raw.into_bytes(), 0)
        });
        store.deliver_all(&Untimed, user, inbox, &mut mails).unwrap();
        user
    }

    /// Another message in the user's inbox.
    pub(crate) fn deliver(&self, user: UserId, raw: &[u8]) -> MessageId {
        let mut store = self.store();
        let inbox = inbox(&mut store, user);
        let mail = new_message(raw.to_vec(), 1_700_000_000);
        store.deliver(&Untimed, user, inbox, &mail).unwrap()
    }

    pub(crate) fn browser(&self) -> Browser {
        Browser::new(self.address)
    }

    /// A browser in which this user is logged in.
    pub(crate) fn logged_in(&self, name: &str) -> Browser {
        let mut browser = self.browser();
        let answer = browser.log_in(name, PASSWORD);
        assert_eq!((answer.status, answer.location()), (303, Some("/folders")), "{}", answer.body);
        browser
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(serving) = self.serving.take() {
            // A test that has failed already has more to say.
            let _ = serving.join();
        }
    }
}

pub(crate) fn inbox(store: &mut Store, user: UserId) -> FolderId {
    folder(store, user, FolderKind::Inbox)
}

pub(crate) fn folder(store: &mut Store, user: UserId, kind: FolderKind) -> FolderId {
    let folders = store.folders(&Untimed, user).unwrap();
    folders.iter().find(|folder| folder.kind == kind).unwrap().id
}

/// The messages of a folder, the latest first.
pub(crate) fn messages(store: &mut Store, user: UserId, folder: FolderId) -> Vec<MessageId> {
    let listing = store.list(&Untimed, user, folder, Default::default(), 0, 200, false).unwrap();
    listing.messages.iter().map(|message| message.id).collect()
}

/// All that a user has, to be compared: folders with their counts, and what lies where.
pub(crate) fn everything(database: &Database, user: UserId) -> String {
    let mut store = database.connect().unwrap();
    let folders = store.folders(&Untimed, user).unwrap();
    let lying: Vec<_> =
        folders.iter().map(|folder| messages(&mut store, user, folder.id)).collect();
    format!("{folders:?} {lying:?}")
}
