//! What the head of a request says of it, read in one pass: whose it is, what it is called, how long
//! its client waits.

use std::net::IpAddr;
use std::time::Duration;

use http::HeaderMap;
use http::header::HeaderName;
use ipnet::IpNet;
use tamarisk_http_gate::{client_network, timeout};
use tamarisk_observe::{RequestId, RequestIds};
use tamarisk_stage::Entry;

use super::condition::cookie;
use super::routes::Choice;
use crate::instance::Instance;
use crate::peer::Peer;

/// How the clients of a service are told apart, so that none takes the shares of the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Client {
    /// By their addresses: those of one IPv6 network of 64 bits are one client.
    #[default]
    Address,
    /// By the value of this header; by the address if there is none.
    Header(HeaderName),
    /// By the value of this cookie; by the address if there is none.
    Cookie(String),
}

impl Client {
    /// Marks `entry` as one of the client's, whose address belongs to this `network`.
    fn mark(&self, entry: Entry, headers: &HeaderMap, network: IpAddr) -> Entry {
        let value = match self {
            Self::Address => None,
            Self::Header(name) => headers.get(name).map(http::HeaderValue::as_bytes),
            Self::Cookie(name) => cookie(headers, name),
        };
        match value {
            Some(value) => entry.flow(value),
            None => entry.flow(network),
        }
    }
}

/// What the head of a request says that its route does not decide on.
#[derive(Debug)]
pub(crate) struct RequestFacts {
    /// Who asks, by address.
    pub(crate) client: IpAddr,
    /// What stands for the client in bounds and shares.
    pub(crate) network: IpAddr,
    /// The client's name of the request, or ours.
    pub(crate) id: RequestId,
    /// How long the client waits, if it says so.
    pub(crate) timeout: Option<Duration>,
    /// How it asks for its place.
    pub(crate) entry: Entry,
    /// This proxy has passed it on before.
    pub(crate) has_been_here: bool,
}

/// How requests are read.
pub(crate) struct FactsReader<'a> {
    /// Proxies in front of this one.
    pub(crate) trusted: &'a [IpNet],
    /// Makes the names of requests that have none.
    pub(crate) ids: &'a RequestIds,
    /// How the clients of the upstream are told apart.
    pub(crate) clients: &'a Client,
    /// This proxy.
    pub(crate) instance: &'a Instance,
}

impl FactsReader<'_> {
    /// Reads the fields of a request of `peer`'s for which this choice was made.
    pub(crate) fn read(&self, headers: &HeaderMap, peer: &Peer, choice: &Choice) -> RequestFacts {
        let (mut id, mut has_timeout, mut has_been_here) = (None, false, false);
        for (name, value) in headers {
            match name.as_str() {
                "x-request-id" => id = id.or_else(|| RequestId::of_client(value.as_bytes())),
                "via" => has_been_here |= self.instance.is_in(value),
                "x-request-timeout" | "grpc-timeout" => has_timeout = true,
                _ => {}
            }
        }
        let client = peer.client(headers, self.trusted);
        let network = client_network(client);
        let timeout = if has_timeout { timeout(headers) } else { None };
        let mut entry = Entry::new().class(choice.class).kind(choice.kind);
        entry = self.clients.mark(entry, headers, network);
        if let Some(timeout) = timeout {
            entry = entry.timeout(timeout);
        }
        let id = id.unwrap_or_else(|| self.ids.next());
        RequestFacts { client, network, id, timeout, entry, has_been_here }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderValue;
    use http::header::COOKIE;

    use super::*;

    #[test]
    fn clients_are_told_apart_as_configured() {
        let mut headers = HeaderMap::new();
        headers.insert("x-api-key", HeaderValue::from_static("k1"));
        headers.insert(COOKIE, HeaderValue::from_static("a=b; session=s1"));
        let [one, other] = [1, 2].map(|last| IpAddr::from([192, 0, 2, last]));
        let mark = |client: &Client, headers: &HeaderMap, address| {
            client.mark(Entry::new(), headers, address)
        };
        let key = Client::Header(HeaderName::from_static("x-api-key"));
        let session = Client::Cookie("session".to_owned());
        let none = HeaderMap::new();
        for client in [&key, &session] {
            assert_eq!(mark(client, &headers, one), mark(client, &headers, other));
            assert_ne!(mark(client, &none, one), mark(client, &none, other));
            assert_ne!(mark(client, &headers, one), mark(client, &none, one));
        }
        assert_ne!(mark(&key, &headers, one), mark(&session, &headers, one));
        assert_ne!(mark(&Client::Address, &headers, one), mark(&Client::Address, &headers, other));
    }
}
