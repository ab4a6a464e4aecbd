//! Emulated users of Arashi [Welsh02 §6.3.4]: they log in, read, search, refile and delete as the
//! users of a department did, and find their way by the marks of the pages.
//!
//! [`WebmailUsers`] is a [`Population`](tamarisk_load::Population) of them, for a plan of
//! `tamarisk-load`; [`Accounts`] says as whom they log in, and [`prepare()`] makes those accounts and their mail.
//!
//! What it does not do: it keeps no time and has no socket. The load generator sends what a user
//! asks for, and waits between requests.
//!
//! Reading order: `markov` is the table of the paper, `page` reads what comes, `form` fills in what
//! is sent back, and `user` goes from one to the other.

mod accounts;
mod cookies;
mod form;
mod markov;
mod page;
mod prepare;
mod reason;
mod user;
mod users;

pub use accounts::{Account, Accounts, InvalidAccounts};
pub use prepare::{PrepareError, Prepared, prepare};
pub use users::{REQUEST_TYPES, UnknownRequestType, WebmailUsers};
