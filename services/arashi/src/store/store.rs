//! A connection as callers have it: calls made of statements, tried again where that is safe.

use std::time::Duration;

use super::connection::{Connection, Dialect, Ending, Fault, Row, Value};
use super::database::Database;
use super::device_key::DeviceKey;
use super::verified::VerifiedPasswords;
use super::work::Limited;
use super::{SessionKey, StoreError, UserId, Work};

/// How often a call is repeated that the database could not serve next to others.
const TRIES: u32 = 5;

/// What the key of devices is called in the table of secrets.
const DEVICE_KEY: &str = "device_key";

/// A connection to a database, opened when it is first used and again after a loss. Calls block,
/// and must not be made by asynchronous code: a stage has threads for them.
pub struct Store {
    database: Database,
    connection: Option<Box<dyn Connection>>,
}

impl Database {
    /// Connects now.
    ///
    /// # Errors
    /// If the database cannot be reached, or cannot be used.
    pub fn connect(&self) -> Result<Store, StoreError> {
        let mut store = self.store();
        store.read(&super::Untimed, |_| Ok(()))?;
        Ok(store)
    }

    /// Connects when it is first used.
    pub fn store(&self) -> Store {
        Store { database: self.clone(), connection: None }
    }
}

impl Store {
    /// Seconds since 1970, as the clock of the database has it.
    pub(crate) fn now_seconds(&self) -> i64 {
        self.database.now_seconds()
    }

    pub(super) fn verified(&self) -> Result<&VerifiedPasswords, StoreError> {
        self.database.verified()
    }

    /// The key that signs cookies of devices, drawn by whoever needs it first.
    ///
    /// # Errors
    /// If the database cannot answer, or the system has no random numbers.
    pub(crate) fn device_key(&mut self, work: &dyn Work) -> Result<DeviceKey, StoreError> {
        if let Some(key) = self.database.device_key() {
            return Ok(key.clone());
        }
        let key = match self.kept_device_key(work)? {
            Some(key) => key,
            None => {
                self.keep_device_key(work, &SessionKey::draw()?.to_string())?;
                let kept = self.kept_device_key(work)?;
                kept.ok_or_else(|| StoreError::Failed("the key of devices was not kept".into()))?
            }
        };
        Ok(self.database.know_device_key(DeviceKey::new(&key)).clone())
    }

    fn kept_device_key(&mut self, work: &dyn Work) -> Result<Option<String>, StoreError> {
        self.read(work, |statements| {
            let sql = "SELECT value FROM secrets WHERE name = ?";
            let row = statements.row(sql, &[Value::Text(DEVICE_KEY)])?;
            row.map(|mut row| row.text()).transpose()
        })
    }

    fn keep_device_key(&mut self, work: &dyn Work, key: &str) -> Result<(), StoreError> {
        let kept = self.change(work, None, |statements| {
            let sql = "INSERT INTO secrets (name, value) VALUES (?, ?)";
            match statements.insert(sql, &[Value::Text(DEVICE_KEY), Value::Text(key)]) {
                // Another process was first. The transaction is rolled back, whatever else it holds.
                Err(Fault::Duplicate) => Err(Fault::Answer(StoreError::NotFound)),
                inserted => inserted.map(drop),
            }
        });
        match kept {
            Err(StoreError::NotFound) => Ok(()),
            kept => kept,
        }
    }

    /// Makes a call that only reads.
    pub(super) fn read<T>(
        &mut self,
        work: &dyn Work,
        mut call: impl FnMut(&mut Statements<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.repeat(work, |statements| call(statements).map_err(Attempt::Undone))
    }

    /// Makes a call that changes something, in a transaction; with a user, no other transaction
    /// changes this user's mail meanwhile.
    pub(super) fn change<T>(
        &mut self,
        work: &dyn Work,
        user: Option<UserId>,
        mut call: impl FnMut(&mut Statements<'_>) -> Result<T, Fault>,
    ) -> Result<T, StoreError> {
        self.repeat(work, |statements| {
            statements.connection.begin(statements.ending).map_err(Attempt::Undone)?;
            let changed = user
                .map_or(Ok(()), |user| statements.lock_user(user))
                .and_then(|()| call(statements));
            let ended = match changed {
                Ok(value) => {
                    let _shield = work.shield();
                    match statements.connection.commit() {
                        Ok(()) => return Ok(value),
                        Err(Fault::Lost(cause)) => return Err(Attempt::Unknown(cause)),
                        Err(fault) => fault,
                    }
                }
                Err(Fault::Lost(cause)) => return Err(Attempt::Undone(Fault::Lost(cause))),
                Err(fault) => fault,
            };
            // One that cannot be rolled back is closed, which undoes the transaction too.
            Err(match statements.connection.rollback() {
                Ok(()) => Attempt::Undone(ended),
                Err(_) => Attempt::Torn(ended),
            })
        })
    }

    /// Makes a change that may be left out: it is, if it would take longer than `limit`, or if the
    /// database cannot write. If that cannot be reached, the calls that read say so.
    pub(super) fn change_within(
        &mut self,
        limit: Duration,
        work: &dyn Work,
        user: Option<UserId>,
        call: impl FnMut(&mut Statements<'_>) -> Result<(), Fault>,
    ) -> Result<(), StoreError> {
        match self.change(&Limited::to(limit, work), user, call) {
            Err(
                StoreError::Terminated
                | StoreError::Unavailable(_)
                | StoreError::Unknown(_)
                | StoreError::Failed(_),
            ) if !work.is_ended()() => Ok(()),
            changed => changed,
        }
    }

    fn repeat<T>(
        &mut self,
        work: &dyn Work,
        mut attempt: impl FnMut(&mut Statements<'_>) -> Result<T, Attempt>,
    ) -> Result<T, StoreError> {
        let ending = Ending::of(work);
        for tries in 1.. {
            if ending.is_due() {
                return Err(StoreError::Terminated);
            }
            let (mut connection, is_new) = match self.connection.take() {
                Some(connection) => (connection, false),
                None => (self.database.open(&ending).map_err(StoreError::from)?, true),
            };
            let mut statements = Statements { connection: connection.as_mut(), ending: &ending };
            let fault = match attempt(&mut statements) {
                Ok(value) => {
                    self.connection = Some(connection);
                    return Ok(value);
                }
                Err(Attempt::Unknown(cause)) => {
                    return Err(StoreError::Unknown(self.database.cause_of_loss(&cause)));
                }
                Err(Attempt::Torn(fault)) => fault,
                Err(Attempt::Undone(fault)) => {
                    if connection.is_usable() && !matches!(fault, Fault::Lost(_)) {
                        self.connection = Some(connection);
                    }
                    fault
                }
            };
            match fault {
                // The server may have been restarted since it was used last.
                Fault::Lost(_) if !is_new => {}
                Fault::Lost(cause) => {
                    return Err(StoreError::Unavailable(self.database.cause_of_loss(&cause)));
                }
                Fault::Busy(_) if tries < TRIES => {}
                other => return Err(other.into()),
            }
        }
        unreachable!("the loop ends by itself only after 2^31 tries")
    }
}

/// Why an attempt at a call has no result.
enum Attempt {
    /// Nothing has been changed.
    Undone(Fault),
    /// Nothing will have been changed once the connection is closed.
    Torn(Fault),
    /// The connection was lost while the change was being committed.
    Unknown(String),
}

/// What a call runs its statements by.
pub(super) struct Statements<'a> {
    connection: &'a mut dyn Connection,
    ending: &'a Ending<'a>,
}

impl Statements<'_> {
    pub(super) fn dialect(&self) -> Dialect {
        self.connection.dialect()
    }

    pub(super) fn query(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>, Fault> {
        self.connection.query(self.ending, sql, values)
    }

    /// The first row, if there is one.
    pub(super) fn row(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Option<Row>, Fault> {
        Ok(self.query(sql, values)?.into_iter().next())
    }

    /// The first row, without which something is not found.
    pub(super) fn one(&mut self, sql: &str, values: &[Value<'_>]) -> Result<Row, Fault> {
        self.row(sql, values)?.ok_or(Fault::Answer(StoreError::NotFound))
    }

    pub(super) fn execute(&mut self, sql: &str, values: &[Value<'_>]) -> Result<u64, Fault> {
        self.connection.execute(self.ending, sql, values)
    }

    pub(super) fn insert(&mut self, sql: &str, values: &[Value<'_>]) -> Result<i64, Fault> {
        self.connection.insert(self.ending, sql, values)
    }

    /// Makes other transactions that change the user's mail wait until this one ends: so that
    /// counts stay right, and none waits for another that waits for it.
    pub(super) fn lock_user(&mut self, user: UserId) -> Result<(), Fault> {
        let sql = match self.dialect().for_update() {
            "" => return Ok(()),
            for_update => format!("SELECT id FROM users WHERE id = ?{for_update}"),
        };
        self.one(&sql, &[Value::Integer(user.0)]).map(drop)
    }
}
