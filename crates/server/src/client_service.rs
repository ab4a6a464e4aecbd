//! The service of a client's connection, as all of the server knows it.

use std::error::Error;

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use hyper::service::Service;

use crate::client_body::ClientBody;
use crate::prepared::FastPath;

/// A name for the bounds of [`Server::serve`](crate::Server::serve).
pub(crate) trait ClientService:
    Service<
        Request<ClientBody>,
        Response = Response<<Self as ClientService>::Sent>,
        Future: Send + 'static,
        Error: Into<Box<dyn Error + Send + Sync>>,
    > + FastPath
    + Send
    + 'static
{
    /// The bodies of its answers.
    type Sent: Body<Data = Bytes, Error: Into<Box<dyn Error + Send + Sync>>> + Send + 'static;
}

impl<S, B> ClientService for S
where
    S: Service<Request<ClientBody>, Response = Response<B>> + FastPath + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    type Sent = B;
}
