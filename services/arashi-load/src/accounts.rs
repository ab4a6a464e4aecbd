//! As whom the users log in.

use std::path::Path;

/// An account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its name.
    pub name: String,
    /// Its password.
    pub password: String,
    /// The class that the service knows it by, such as `gold`.
    pub class: String,
}

/// Accounts, in the order in which users take them: user number n has the n-th, and where there
/// are fewer accounts than users, the first ones again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Accounts(Vec<Account>);

/// Accounts that one run may have.
const ACCOUNTS_MAX: usize = 1_000_000;

/// Why there are no accounts.
#[derive(Debug, thiserror::Error)]
pub enum InvalidAccounts {
    /// The file cannot be read.
    #[error("cannot read the accounts from {path}")]
    Read {
        /// The file.
        path: String,
        /// What the system says.
        source: std::io::Error,
    },
    /// A line is no account.
    #[error("{path}, line {line}: `{text}` is not an account; write `name,password,class`")]
    Line {
        /// The file.
        path: String,
        /// The number of the line, from 1.
        line: usize,
        /// What stands there.
        text: String,
    },
    /// There are none, or too many.
    #[error("{0} accounts: a run takes 1 to 1,000,000")]
    Count(usize),
}

impl Accounts {
    /// The accounts in `path`, a line `name,password,class` each; empty lines and those that begin
    /// with `#` say nothing. Names and passwords have no commas.
    ///
    /// # Errors
    /// If the file cannot be read, or a line is no account.
    pub fn read(path: &Path) -> Result<Self, InvalidAccounts> {
        let shown = || path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|source| InvalidAccounts::Read { path: shown(), source })?;
        let lines = text.lines().map(str::trim).enumerate();
        let accounts = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
        let account = |(index, line): (usize, &str)| {
            let fields: Vec<_> = line.split(',').map(str::trim).collect();
            match fields.as_slice() {
                [name, password, class] if fields.iter().all(|field| !field.is_empty()) => {
                    Ok(Account {
                        name: (*name).to_owned(),
                        password: (*password).to_owned(),
                        class: (*class).to_owned(),
                    })
                }
                _ => Err(InvalidAccounts::Line {
                    path: shown(),
                    line: index + 1,
                    text: line.to_owned(),
                }),
            }
        };
        Self::new(accounts.map(account).collect::<Result<_, _>>()?)
    }

    /// `count` accounts, `prefix0` and so on, all with one password. The first are `bronze`, and
    /// the last `gold_share` of them, from 0 to 1, `gold`: of users who come later, those.
    ///
    /// # Errors
    /// If there are none, or too many.
    pub fn numbered(
        prefix: &str,
        count: usize,
        password: &str,
        gold_share: f64,
    ) -> Result<Self, InvalidAccounts> {
        if !(1..=ACCOUNTS_MAX).contains(&count) {
            return Err(InvalidAccounts::Count(count));
        }
        let bronze = count - (gold_share.clamp(0.0, 1.0) * count as f64).round() as usize;
        let account = |number| Account {
            name: format!("{prefix}{number}"),
            password: password.to_owned(),
            class: if number < bronze { "bronze" } else { "gold" }.to_owned(),
        };
        Self::new((0..count).map(account).collect())
    }

    fn new(accounts: Vec<Account>) -> Result<Self, InvalidAccounts> {
        if (1..=ACCOUNTS_MAX).contains(&accounts.len()) {
            Ok(Self(accounts))
        } else {
            Err(InvalidAccounts::Count(accounts.len()))
        }
    }

    /// All of them.
    pub fn all(&self) -> &[Account] {
        &self.0
    }

    /// That of user number `user`.
    pub fn of_user(&self, user: usize) -> &Account {
        &self.0[user % self.0.len()]
    }

    /// Their classes, each once, in the order in which they first stand.
    pub fn classes(&self) -> Vec<String> {
        let mut classes: Vec<String> = Vec::new();
        for account in &self.0 {
            if !classes.contains(&account.class) {
                classes.push(account.class.clone());
            }
        }
        classes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_of_numbered_accounts_are_gold() {
        let accounts = Accounts::numbered("user", 4, "secret", 0.5).unwrap();
        let shown: Vec<_> = accounts.all().iter().map(|a| (&*a.name, &*a.class)).collect();
        let gold_last =
            [("user0", "bronze"), ("user1", "bronze"), ("user2", "gold"), ("user3", "gold")];
        assert_eq!(shown, gold_last);
        assert_eq!(accounts.classes(), ["bronze", "gold"]);
        assert_eq!(accounts.of_user(5).name, "user1");
        assert!(Accounts::numbered("user", 0, "secret", 0.0).is_err());
    }

    #[test]
    fn a_line_that_is_no_account_is_named() {
        let path = std::env::temp_dir().join(format!("accounts-{}.csv", std::process::id()));
        std::fs::write(&path, "# name,password,class\n\nann, secret ,gold\nbob,secret\n").unwrap();
        let error = Accounts::read(&path).unwrap_err().to_string();
        assert!(
            error.ends_with("line 4: `bob,secret` is not an account; write `name,password,class`")
        );
        std::fs::write(&path, "ann, secret ,gold\r\n").unwrap();
        let read = Accounts::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(read.all()[0].password, "secret");
        let missing = Accounts::read(&path).unwrap_err().to_string();
        assert!(missing.starts_with("cannot read the accounts from"), "{missing}");
    }
}
