//! Fills a database with accounts and mailboxes for a load test, the same for the same seed.

use std::num::NonZeroUsize;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use rand_distr::{Distribution, LogNormal};
use tamarisk_arashi::import::sample;
use tamarisk_arashi::mail::new_message;
use tamarisk_arashi::store::{
    AccountClass, Database, FolderKind, Invalid, Store, StoreError, Untimed,
};

use crate::accounts::{Account, Accounts};
use crate::users::seed_of;

/// The largest mailbox of the papers [Welsh02 §6.3.4]; the smallest had one message.
const MESSAGES_MAX: u64 = 12_794;

/// Half of the mailboxes are smaller than this. The papers state the range alone. Sizes that
/// people's habits make are near to log-normal: most are small, few are a hundred times larger.
const MESSAGES_MEDIAN: f64 = 150.0;

/// The standard deviation of the logarithm: one mailbox of six has more than 670 messages, and one
/// of 700 would have more than the most.
const SPREAD: f64 = 1.5;

/// Threads, at most: each holds a connection, and one writes at a time.
const THREADS_MAX: usize = 4;

/// When all the messages came, in seconds since 1970, if they do not say when they were sent.
const RECEIVED_SECONDS: i64 = 1_764_000_000;

/// Why mailboxes cannot be prepared.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    /// There is an account of this name already.
    #[error("account `{0}` is there already: prepare an empty database, or choose another prefix")]
    Exists(String),
    /// Accounts have the classes gold and bronze.
    #[error("`{0}` is not a class of accounts: write `gold` or `bronze`")]
    Class(String),
    /// The database does not take an account or its mail.
    #[error("cannot prepare account `{account}`")]
    Store {
        /// Which account.
        account: String,
        /// What is wrong.
        source: StoreError,
    },
}

/// How far a preparation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// Accounts with all their mail.
    pub accounts: u64,
    /// Messages in their inboxes.
    pub messages: u64,
}

/// Makes `accounts` in `database`, each with an inbox of sample mail whose size is drawn by `seed`
/// from a log-normal distribution with a median of 150, cut to 1 to 12,794 messages. Calls
/// `on_account` after each account.
///
/// # Errors
/// [`PrepareError`]; the accounts that were made by then stay.
pub fn prepare(
    database: &Database,
    accounts: &Accounts,
    seed: u64,
    mut on_account: impl FnMut(Prepared),
) -> Result<Prepared, PrepareError> {
    let work: Vec<_> = accounts.all().iter().zip(sizes(seed)).enumerate().collect();
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get).min(THREADS_MAX);
    // The first connection makes the tables.
    let first = accounts.of_user(0).name.clone();
    database.connect().map_err(|source| PrepareError::Store { account: first, source })?;
    thread::scope(|scope| {
        let (sender, finished) = channel();
        for thread in 0..threads {
            let (work, sender) = (&work, sender.clone());
            scope.spawn(move || {
                let mut store = database.store();
                let share = work.iter().skip(thread).step_by(threads);
                for &(number, (account, size)) in share {
                    let made = fill(&mut store, account, seed_of(seed, number), size);
                    if !hand_over(&sender, made.map(|()| size)) {
                        return;
                    }
                }
            });
        }
        drop(sender);
        let mut prepared = Prepared::default();
        for made in finished {
            prepared.messages += made?;
            prepared.accounts += 1;
            on_account(prepared);
        }
        Ok(prepared)
    })
}

/// Whether the thread is to go on: after an error, nobody waits for the rest.
fn hand_over(sender: &Sender<Result<u64, PrepareError>>, made: Result<u64, PrepareError>) -> bool {
    let is_good = made.is_ok();
    sender.send(made).is_ok() && is_good
}

fn fill(store: &mut Store, account: &Account, seed: u64, size: u64) -> Result<(), PrepareError> {
    let Account { name, password, class } = account;
    let class = match class.as_str() {
        "gold" => AccountClass::Gold,
        "bronze" => AccountClass::Bronze,
        _ => return Err(PrepareError::Class(class.clone())),
    };
    let error = |source| match source {
        StoreError::Invalid(Invalid::AccountNameTaken) => PrepareError::Exists(name.clone()),
        source => PrepareError::Store { account: name.clone(), source },
    };
    let made = store.create_emulated_account(&Untimed, name, password, class).map_err(error)?;
    let folders = store.folders(&Untimed, made.id).map_err(error)?;
    let inbox = folders.iter().find(|folder| folder.kind == FolderKind::Inbox);
    let inbox = inbox.ok_or_else(|| error(StoreError::NotFound))?.id;
    let messages = sample::messages(seed, usize::try_from(size).unwrap_or(usize::MAX));
    let mut messages = messages.map(|raw| new_message(raw, RECEIVED_SECONDS));
    store.deliver_all(&Untimed, made.id, inbox, &mut messages).map_err(error)?;
    Ok(())
}

/// Sizes of mailboxes, one after the other.
fn sizes(seed: u64) -> impl Iterator<Item = u64> {
    let mut random = StdRng::seed_from_u64(seed);
    let sizes = LogNormal::new(MESSAGES_MEDIAN.ln(), SPREAD).expect("the constants are finite");
    std::iter::repeat_with(move || {
        let drawn = sizes.sample(&mut random).round() as u64;
        match drawn {
            1..=MESSAGES_MAX => drawn,
            // One of some hundreds; any size is as good.
            _ => random.random_range(1..=MESSAGES_MAX),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_mailboxes_are_small_and_few_are_large() {
        let mut drawn: Vec<_> = sizes(1).take(10_000).collect();
        assert_eq!(drawn, sizes(1).take(10_000).collect::<Vec<_>>());
        drawn.sort_unstable();
        assert!(drawn[0] >= 1 && drawn[9_999] <= MESSAGES_MAX);
        assert!((135..165).contains(&drawn[5_000]), "{}", drawn[5_000]);
        // e^(ln 150 + 1.5) = 672 is one standard deviation up: 84 of 100 are below.
        assert!((600..750).contains(&drawn[8_413]), "{}", drawn[8_413]);
        assert!(drawn[9_990] > 8_000, "{}", drawn[9_990]);
    }
}
