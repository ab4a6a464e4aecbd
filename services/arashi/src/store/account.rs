//! Who may log in.

/// An account, as the database numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct UserId(pub i64);

/// How an account is served under overload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AccountClass {
    /// Rejected last.
    Gold,
    /// Rejected first.
    Bronze,
}

/// Somebody who has mail here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its number.
    pub id: UserId,
    /// What is typed in to log in, and where mail is sent to.
    pub name: String,
    /// How it is served.
    pub class: AccountClass,
}
