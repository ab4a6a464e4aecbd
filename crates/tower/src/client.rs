//! Who sent a request, as far as the server in front of the layer tells.

use std::net::IpAddr;

use http::request::Parts;
use tamarisk_http_gate::{ClientAddress, TrustedProxies, client_network};

/// What stands for the client of a request in shares; `None` if the server does not tell.
pub(crate) fn client_of(head: &Parts, proxies: &TrustedProxies) -> Option<IpAddr> {
    let address = match head.extensions.get() {
        Some(ClientAddress(address)) => *address,
        None => proxies.client(peer_of(head)?, &head.headers),
    };
    Some(client_network(address))
}

/// The other end of the connection, from axum's extension or tonic's.
fn peer_of(head: &Parts) -> Option<IpAddr> {
    #[cfg(feature = "axum")]
    {
        type ConnectInfo = axum::extract::ConnectInfo<std::net::SocketAddr>;
        if let Some(peer) = head.extensions.get::<ConnectInfo>() {
            return Some(peer.0.ip());
        }
    }
    #[cfg(feature = "tonic")]
    {
        type ConnectInfo = tonic::transport::server::TcpConnectInfo;
        if let Some(peer) = head.extensions.get::<ConnectInfo>() {
            return Some(peer.remote_addr()?.ip());
        }
    }
    let _ = head;
    None
}
