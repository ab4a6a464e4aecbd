//! Users who decide what they ask for next by what they were answered.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http::uri::PathAndQuery;
use http::{HeaderMap, Method, Response};

/// The users of a closed loop, each a state machine. When they ask, how long they think and how
/// many there are, the [`ClosedLoop`](crate::ClosedLoop) says.
pub trait Population: fmt::Debug + Send + Sync {
    /// The types of request that they make; results are told apart by them.
    fn request_types(&self) -> &[RequestType];

    /// The classes of users, one at least; results are told apart by them too.
    fn classes(&self) -> &[String];

    /// User `number`, from zero.
    fn user(&self, number: usize) -> Box<dyn EmulatedUser>;
}

/// One user. Asks for one thing at a time.
pub trait EmulatedUser {
    /// Its class, as a position in [`Population::classes`].
    fn class(&self) -> usize;

    /// What it asks for now.
    fn next_request(&mut self) -> UserRequest;

    /// Reads a complete answer that is no rejection, whatever its status, and decides what to ask
    /// for next.
    ///
    /// # Errors
    /// Why nothing can be done with the answer, which then counts as failed for this reason.
    fn read(&mut self, answer: &Response<Vec<u8>>) -> Result<(), &'static str>;

    /// The request was rejected or has failed: the user comes back after its pause.
    fn begin_again(&mut self);
}

/// A type of request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestType {
    /// What it is called in results.
    pub name: String,
    /// Answers within this latency are good ones; without it, the target of the plan counts.
    pub target: Option<Duration>,
}

/// A request of a user.
#[derive(Clone, Debug)]
pub struct UserRequest {
    /// Its type, as a position in [`Population::request_types`].
    pub request_type: usize,
    /// Its method.
    pub method: Method,
    /// What of the server is asked for.
    pub path: PathAndQuery,
    /// Its fields, but for `Host` and `Content-Length`.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}
