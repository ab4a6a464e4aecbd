//! Arashi over HTTP: what a user does on each kind of database, the rest on SQLite.

pub(crate) mod browser;
pub(crate) mod served;

mod digest;
mod foreign;
mod forged;
mod injection;
mod locked;
mod log_ins;
mod long_mail;
mod outage;
mod overload;
mod sharing;
mod tour;
