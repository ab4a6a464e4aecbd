//! Rejections over HTTP/2.

use std::convert::Infallible;
use std::future::ready;

use http_body_util::{Empty, Full};
use hyper::client::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::io::duplex;

use super::*;
use crate::connection::{self, Client};
use crate::connection_entry::Entry;
use crate::prepared::WithoutFastPath;
use crate::settings::ConnectionSettings;
use crate::transport::stream::Stream;
use crate::{DrainTrigger, Server};

const PAUSE: Duration = Duration::from_millis(100);

#[tokio::test(start_paused = true)]
async fn a_rejection_is_counted_and_waits_and_what_is_asked_beside_it_does_not() {
    let (server, backoff) = (Server::default(), RejectionBackoff::with_pause(PAUSE));
    let (_trigger, drain) = DrainTrigger::new();
    let settings = Arc::new(ConnectionSettings::of(&server, backoff.clone(), drain));
    let service = WithoutFastPath(service_fn(|request: Request<ClientBody>| {
        let mut answer = Response::new(Full::<Bytes>::default());
        if request.uri().path() == "/rejected" {
            answer.extensions_mut().insert(Rejection);
        }
        ready(Ok::<_, Infallible>(answer))
    }));
    let (client, stream) = duplex(4096);
    let served = Client::on(Stream::Other(Box::new(stream)), &settings);
    let permit = server.connections.enter(crate::UNKNOWN_CLIENT, 1, Entry::new).unwrap();
    tokio::spawn(connection::serve(served, service, settings, permit));
    let shaking = http2::handshake(TokioExecutor::new(), TokioIo::new(client));
    let (mut sender, speaking) = shaking.await.unwrap();
    tokio::spawn(speaking);

    let start = Instant::now();
    let mut ask = |path: &str| {
        let request = Request::get(format!("http://a{path}"));
        tokio::spawn(sender.send_request(request.body(Empty::<Bytes>::new()).unwrap()))
    };
    let (rejected, other) = (ask("/rejected"), ask("/"));
    other.await.unwrap().unwrap();
    assert_eq!(start.elapsed(), Duration::ZERO);
    rejected.await.unwrap().unwrap();
    assert_eq!(start.elapsed(), PAUSE);
    // One of two.
    assert!((backoff.take_rejected() - 0.5).abs() < 1e-9);
}
