//! The first start of a folder: a user, and sample mail to look at.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::Context;
use rand::RngExt;
use tamarisk_arashi::import::sample;
use tamarisk_arashi::mail::new_message;
use tamarisk_arashi::store::{
    AccountClass, Database, FolderId, FolderKind, Store, Untimed, UserId,
};

/// The user that a new folder has.
pub(super) const OWNER: &str = "owner";

/// Messages of the sample: some pages of them.
const SAMPLE_MESSAGES: usize = 120;
/// The same sample each time.
const SAMPLE_SEED: u64 = 1;

/// Letters and digits that are not taken for one another.
const PASSWORD_LETTERS: &[u8; 32] = b"abcdefghijkmnpqrstuvwxyz23456789";
/// 16 letters of 32 are 80 bits.
const PASSWORD_GROUPS: usize = 4;
const GROUP_LETTERS: usize = 4;

/// Makes the user, with sample mail, if the database has none of this name; returns the password.
pub(super) fn make_owner(database: &Database) -> anyhow::Result<Option<String>> {
    let mut store = database.connect().context("cannot open the database")?;
    if store.account(&Untimed, OWNER)?.is_some() {
        return Ok(None);
    }
    let password = draw_password();
    let owner = store.create_account(&Untimed, OWNER, &password, AccountClass::Gold)?;
    let folders = store.folders(&Untimed, owner.id)?;
    let inbox = folders.iter().find(|folder| folder.kind == FolderKind::Inbox);
    let inbox = inbox.context("the new user has no inbox")?;
    import_sample(&mut store, owner.id, inbox.id)?;
    Ok(Some(password))
}

fn import_sample(store: &mut Store, user: UserId, inbox: FolderId) -> anyhow::Result<()> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    let messages = sample::recent_messages(SAMPLE_SEED, SAMPLE_MESSAGES, now);
    let mut messages = messages.map(|raw| new_message(raw, now));
    store.deliver_all(&Untimed, user, inbox, &mut messages)?;
    Ok(())
}

fn draw_password() -> String {
    let mut random = rand::rng();
    let mut group = || -> String {
        let letter = |_| char::from(PASSWORD_LETTERS[random.random_range(0..32)]);
        (0..GROUP_LETTERS).map(letter).collect()
    };
    let groups: Vec<_> = (0..PASSWORD_GROUPS).map(|_| group()).collect();
    groups.join("-")
}
