//! Arashi: webmail on stages [Welsh02 §6.3]. Each kind of request is a stage with a target of its
//! own; all of them ask one database.

#[cfg(any(test, fuzzing))]
pub mod fuzz;
pub mod import;
pub mod mail;
pub mod store;
