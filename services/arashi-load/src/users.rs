//! The users of a run: who they are, and the types of what they ask for.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tamarisk_load::{EmulatedUser, Population, RequestType};

use crate::accounts::Accounts;
use crate::user::User;

/// What requests are called in results: those of [Welsh02 fig. 46] in its order, then the two that
/// a login takes besides.
pub const REQUEST_TYPES: [&str; 9] = [
    "login",
    "list-folders",
    "list-messages",
    "show-message",
    "delete",
    "refile",
    "search",
    "login-page",
    "log-out",
];

/// Users of Arashi, each with an account and a chain of random choices of its own.
#[derive(Clone, Debug)]
pub struct WebmailUsers {
    accounts: Accounts,
    classes: Vec<String>,
    types: Vec<RequestType>,
    seed: u64,
}

/// There is no such type of request.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is not a type of request; there are {}", REQUEST_TYPES.join(", "))]
pub struct UnknownRequestType {
    name: String,
}

impl WebmailUsers {
    /// Users who have these accounts. `seed` fixes what they choose.
    pub fn new(accounts: Accounts, seed: u64) -> Self {
        let request_type = |name: &str| RequestType { name: name.to_owned(), target: None };
        let types = REQUEST_TYPES.map(request_type).into();
        Self { classes: accounts.classes(), accounts, types, seed }
    }

    /// Gives a type of request a target of its own.
    ///
    /// # Errors
    /// If there is no such type.
    pub fn target(mut self, name: &str, target: Duration) -> Result<Self, UnknownRequestType> {
        let unknown = || UnknownRequestType { name: name.to_owned() };
        let found = self.types.iter_mut().find(|found| found.name == name).ok_or_else(unknown)?;
        found.target = Some(target);
        Ok(self)
    }
}

impl Population for WebmailUsers {
    fn request_types(&self) -> &[RequestType] {
        &self.types
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn user(&self, number: usize) -> Box<dyn EmulatedUser> {
        let account = self.accounts.of_user(number);
        let class = self.classes.iter().position(|class| *class == account.class);
        let class = class.expect("the classes are those of the accounts");
        let random = StdRng::seed_from_u64(seed_of(self.seed, number));
        Box::new(User::new(account.clone(), class, random))
    }
}

/// The seed of the user, or the account, of this number. Neighbouring seeds share none.
pub(crate) fn seed_of(seed: u64, number: usize) -> u64 {
    let of_run: u64 = StdRng::seed_from_u64(seed).random();
    of_run ^ number as u64
}
