//! Calls about accounts and sessions.

use std::time::Duration;

use super::connection::{Fault, Row, Value};
use super::password::Cost;
use super::store::{Statements, Store};
use super::{
    Account, AccountClass, FolderKind, Invalid, Session, SessionKey, StoreError, UserId, Work,
    password,
};

/// A session ends this long after it began,
const LONGEST_SECONDS: i64 = 7 * 24 * 3600;
/// or this long after it was last used.
const IDLE_SECONDS: i64 = 12 * 3600;
/// Its use is noted no more often than this, so that most pages write nothing.
const NOTE_SECONDS: i64 = 60;
/// For how long a page waits to note it: for three answers of a database that is far away.
const NOTE_LIMIT: Duration = Duration::from_millis(250);
/// How many sessions a user may have; the one that was not used for longest gives way.
const SESSIONS_PER_USER: i64 = 16;
const LONGEST_NAME: usize = 64;

impl Store {
    /// Makes an account with the folders Inbox, Sent and Trash.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] if the name or the password cannot be used, or the name is taken.
    pub fn create_account(
        &mut self,
        work: &dyn Work,
        name: &str,
        password: &str,
        class: AccountClass,
    ) -> Result<Account, StoreError> {
        self.create_with(work, name, password, class, Cost::SAFE)
    }

    /// The same for users that a load test emulates, who log in more often than people do: their
    /// passwords are hashed at the least cost, and are guessed soon by whoever has the database.
    ///
    /// # Errors
    /// As [`create_account`](Self::create_account).
    pub fn create_emulated_account(
        &mut self,
        work: &dyn Work,
        name: &str,
        password: &str,
        class: AccountClass,
    ) -> Result<Account, StoreError> {
        self.create_with(work, name, password, class, Cost::LEAST)
    }

    fn create_with(
        &mut self,
        work: &dyn Work,
        name: &str,
        password: &str,
        class: AccountClass,
        cost: Cost,
    ) -> Result<Account, StoreError> {
        if !is_name(name) {
            return Err(Invalid::AccountName.into());
        }
        let hash = password::hash(password, cost)?;
        let now = self.now_seconds();
        self.change(work, None, |statements| {
            let sql = "INSERT INTO users (name, class, password_hash, created_seconds) \
                       VALUES (?, ?, ?, ?)";
            let values = [
                Value::Text(name),
                Value::Integer(class.number()),
                Value::Text(&hash),
                Value::Integer(now),
            ];
            let user = statements.insert(sql, &values).map_err(|fault| match fault {
                Fault::Duplicate => Invalid::AccountNameTaken.into(),
                other => other,
            })?;
            for (kind, name) in [
                (FolderKind::Inbox, "Inbox"),
                (FolderKind::Sent, "Sent"),
                (FolderKind::Trash, "Trash"),
            ] {
                super::folders::insert(statements, UserId(user), kind, name)?;
            }
            Ok(Account { id: UserId(user), name: name.to_owned(), class })
        })
    }

    /// Gives an account another password and ends all of its sessions. `false`: nobody has this
    /// name.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] if the password cannot be used, and if the database cannot answer.
    pub fn set_password(
        &mut self,
        work: &dyn Work,
        name: &str,
        password: &str,
    ) -> Result<bool, StoreError> {
        let hash = password::hash(password, Cost::SAFE)?;
        let Some(account) = self.account(work, name)? else { return Ok(false) };
        let user = Value::Integer(account.id.0);
        self.change(work, Some(account.id), |statements| {
            let sql = "UPDATE users SET password_hash = ? WHERE id = ?";
            statements.execute(sql, &[Value::Text(&hash), user])?;
            statements.execute("DELETE FROM sessions WHERE user_id = ?", &[user]).map(drop)
        })?;
        Ok(true)
    }

    /// The account of this name.
    ///
    /// # Errors
    /// If the database cannot answer.
    pub fn account(&mut self, work: &dyn Work, name: &str) -> Result<Option<Account>, StoreError> {
        if !is_name(name) {
            return Ok(None);
        }
        let found = self.read(work, |statements| find(statements, name))?;
        Ok(found.map(|(account, _)| account))
    }

    /// Accounts by name, the first `count` of those behind `after`; all are behind an empty name.
    ///
    /// # Errors
    /// If the database cannot answer.
    pub fn accounts(
        &mut self,
        work: &dyn Work,
        after: &str,
        count: u32,
    ) -> Result<Vec<Account>, StoreError> {
        self.read(work, |statements| {
            let sql = "SELECT id, name, class FROM users WHERE name > ? ORDER BY name LIMIT ?";
            let values = [Value::Text(after), Value::Integer(count.into())];
            let rows = statements.query(sql, &values)?;
            rows.into_iter().map(|mut row| account(&mut row)).collect()
        })
    }

    /// Removes an account with its sessions and all of its mail. `false`: nobody has this name.
    ///
    /// # Errors
    /// If the database cannot answer.
    pub fn remove_account(&mut self, work: &dyn Work, name: &str) -> Result<bool, StoreError> {
        let Some(account) = self.account(work, name)? else { return Ok(false) };
        self.change(work, Some(account.id), |statements| {
            // What is the account's goes with it.
            let sql = "DELETE FROM users WHERE id = ?";
            statements.execute(sql, &[Value::Integer(account.id.0)]).map(drop)
        })?;
        Ok(true)
    }

    /// Begins a session, if the password is right. It takes as long for names that nobody has.
    ///
    /// # Errors
    /// If the database cannot answer.
    pub fn log_in(
        &mut self,
        work: &dyn Work,
        name: &str,
        password: &str,
    ) -> Result<Option<(Account, SessionKey)>, StoreError> {
        let name = if is_name(name) { name } else { "" };
        let found = self.read(work, |statements| find(statements, name))?;
        let hash = found.as_ref().map(|(_, hash)| hash.as_str());
        let is_right = self.verified()?.verify(password, hash, self.now_seconds())?;
        let Some((account, hash)) = found.filter(|_| is_right) else { return Ok(None) };
        let key = SessionKey::draw()?;
        let now = self.now_seconds();
        let is_begun = self.change(work, Some(account.id), |statements| {
            // The password may have been changed since it was verified.
            let sql = "SELECT id FROM users WHERE id = ? AND password_hash = ?";
            let values = [Value::Integer(account.id.0), Value::Text(&hash)];
            if statements.row(sql, &values)?.is_none() {
                return Ok(false);
            }
            make_room(statements, account.id, now)?;
            begin_session(statements, account.id, &key, now)?;
            Ok(true)
        })?;
        Ok(is_begun.then_some((account, key)))
    }

    /// Gives an account another password, ends all of its sessions and begins another one. None:
    /// `current` is not its password.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] if `new` cannot be used, and if the database cannot answer.
    pub fn change_password(
        &mut self,
        work: &dyn Work,
        name: &str,
        current: &str,
        new: &str,
    ) -> Result<Option<(Session, SessionKey)>, StoreError> {
        let Some((account, before)) = self.read(work, |statements| find(statements, name))? else {
            return Ok(None);
        };
        if !self.verified()?.verify(current, Some(&before), self.now_seconds())? {
            return Ok(None);
        }
        let after = password::hash(new, Cost::SAFE)?;
        let key = SessionKey::draw()?;
        let now = self.now_seconds();
        let is_changed = self.change(work, Some(account.id), |statements| {
            let user = Value::Integer(account.id.0);
            // Another change may have come before.
            let sql = "UPDATE users SET password_hash = ? WHERE id = ? AND password_hash = ?";
            if statements.execute(sql, &[Value::Text(&after), user, Value::Text(&before)])? == 0 {
                return Ok(false);
            }
            statements.execute("DELETE FROM sessions WHERE user_id = ?", &[user])?;
            begin_session(statements, account.id, &key, now)?;
            Ok(true)
        })?;
        let expires_seconds = now + LONGEST_SECONDS;
        let session = Session { account, csrf: key.csrf(), expires_seconds };
        Ok(is_changed.then_some((session, key)))
    }

    /// Who is logged in by this key; none if the session has expired or been ended.
    ///
    /// # Errors
    /// If the database cannot answer.
    pub fn session(
        &mut self,
        work: &dyn Work,
        key: &SessionKey,
    ) -> Result<Option<Session>, StoreError> {
        let now = self.now_seconds();
        let hash = key.hash();
        let found = self.read(work, |statements| {
            let sql = "SELECT u.id, u.name, u.class, s.created_seconds, s.used_seconds \
                       FROM sessions s JOIN users u ON u.id = s.user_id WHERE s.key_hash = ?";
            let Some(mut row) = statements.row(sql, &[Value::Text(&hash)])? else {
                return Ok(None);
            };
            Ok(Some((account(&mut row)?, row.integer()?, row.integer()?)))
        })?;
        let Some((account, created, used)) = found else { return Ok(None) };
        let expires_seconds = created + LONGEST_SECONDS;
        if now >= expires_seconds || now >= used + IDLE_SECONDS {
            return Ok(None);
        }
        if now >= used + NOTE_SECONDS {
            self.change_within(NOTE_LIMIT, work, None, |statements| {
                let sql = "UPDATE sessions SET used_seconds = ? WHERE key_hash = ?";
                statements.execute(sql, &[Value::Integer(now), Value::Text(&hash)]).map(drop)
            })?;
        }
        Ok(Some(Session { account, csrf: key.csrf(), expires_seconds }))
    }

    /// Ends a session, if there is one.
    ///
    /// # Errors
    /// If the database cannot answer.
    pub fn log_out(&mut self, work: &dyn Work, key: &SessionKey) -> Result<(), StoreError> {
        let hash = key.hash();
        self.change(work, None, |statements| {
            let sql = "DELETE FROM sessions WHERE key_hash = ?";
            statements.execute(sql, &[Value::Text(&hash)]).map(drop)
        })
    }
}

fn is_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
    (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// The account of this name, and its password's hash.
fn find(statements: &mut Statements<'_>, name: &str) -> Result<Option<(Account, String)>, Fault> {
    let sql = "SELECT id, name, class, password_hash FROM users WHERE name = ?";
    let Some(mut row) = statements.row(sql, &[Value::Text(name)])? else { return Ok(None) };
    Ok(Some((account(&mut row)?, row.text()?)))
}

/// Deletes the user's sessions that have expired, and the oldest of as many as one may have.
fn make_room(statements: &mut Statements<'_>, user: UserId, now: i64) -> Result<(), Fault> {
    let sql = "DELETE FROM sessions \
               WHERE user_id = ? AND (created_seconds <= ? OR used_seconds <= ?)";
    let bounds = [now - LONGEST_SECONDS, now - IDLE_SECONDS].map(Value::Integer);
    statements.execute(sql, &[Value::Integer(user.0), bounds[0], bounds[1]])?;
    let sql = "SELECT id FROM sessions WHERE user_id = ? \
               ORDER BY used_seconds DESC, id DESC LIMIT 100 OFFSET ?";
    let values = [user.0, SESSIONS_PER_USER - 1].map(Value::Integer);
    for mut row in statements.query(sql, &values)? {
        let sql = "DELETE FROM sessions WHERE user_id = ? AND id = ?";
        statements.execute(sql, &[Value::Integer(user.0), Value::Integer(row.integer()?)])?;
    }
    Ok(())
}

fn begin_session(
    statements: &mut Statements<'_>,
    user: UserId,
    key: &SessionKey,
    now: i64,
) -> Result<(), Fault> {
    let sql = "INSERT INTO sessions (key_hash, user_id, created_seconds, used_seconds) \
               VALUES (?, ?, ?, ?)";
    let [user, now] = [user.0, now].map(Value::Integer);
    statements.insert(sql, &[Value::Text(&key.hash()), user, now, now]).map(drop)
}

fn account(row: &mut Row) -> Result<Account, Fault> {
    let id = UserId(row.integer()?);
    let name = row.text()?;
    let class = AccountClass::numbered(row.integer()?)?;
    Ok(Account { id, name, class })
}

impl AccountClass {
    fn number(self) -> i64 {
        match self {
            Self::Gold => 0,
            Self::Bronze => 1,
        }
    }

    fn numbered(number: i64) -> Result<Self, Fault> {
        match number {
            0 => Ok(Self::Gold),
            1 => Ok(Self::Bronze),
            other => Err(Fault::Failed(format!("unknown class {other} of an account"))),
        }
    }
}
