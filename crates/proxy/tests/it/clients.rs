//! What the gate is told of a request: whose it is, and what kind of work.

use std::sync::Arc;

use crate::support::{Recorder, exchange, proxy_to};
use parking_lot::Mutex;
use tamarisk_control::{AdmissionLaw, Arrival, Backlog, Decision, Timestamp};
use tamarisk_proxy::classify::Client;
use tamarisk_proxy::{Budget, Upstream};
use tamarisk_stage::StageBuilder;

/// Admits everyone, and notes who came and with what.
struct Noting(Arc<Mutex<Vec<(u64, u64)>>>);

impl AdmissionLaw for Noting {
    fn name(&self) -> &'static str {
        "noting"
    }

    fn on_arrival(&mut self, _: Timestamp, arrival: &Arrival, _: &Backlog<'_>) -> Decision {
        self.0.lock().push((arrival.flow, arrival.kind));
        Decision::Admit
    }
}

/// The flows and the kinds of requests for these paths with these fields.
async fn noted(client: Client, requests: &[(&str, &str)]) -> Vec<(u64, u64)> {
    let noted = Arc::default();
    let gate = StageBuilder::new("noting").law(Noting(Arc::clone(&noted))).gate().unwrap();
    let origin = format!("http://{}", Recorder::ok().await.address).parse().unwrap();
    let upstream = Upstream::new(&origin, gate).client(client);
    let (address, _drain) = proxy_to(upstream, Budget::default()).await;
    for (path, fields) in requests {
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n{fields}\r\n");
        assert!(exchange(address, request).await.ends_with("ok"));
    }
    noted.lock().clone()
}

#[tokio::test]
async fn whose_a_request_is_says_its_header_or_its_address() {
    let requests = [("/", "X-Key: a\r\n"), ("/", "X-Key: b\r\n"), ("/", "X-Key: a\r\n"), ("/", "")];
    let flows: Vec<_> = noted(Client::Header("x-key".parse().unwrap()), &requests)
        .await
        .into_iter()
        .map(|(flow, _)| flow)
        .collect();
    assert_eq!(flows[0], flows[2]);
    assert!(flows[0] != flows[1] && flows[0] != flows[3] && flows[1] != flows[3]);
    assert!(!flows.contains(&0));

    let by_address = noted(Client::Address, &requests).await;
    assert!(by_address.iter().all(|(flow, _)| *flow == flows[3]));
}

#[tokio::test]
async fn kinds_are_paths_without_what_varies() {
    let paths = ["/users/1?a=b", "/users/2", "/reports"].map(|path| (path, ""));
    let noted = noted(Client::Address, &paths).await;
    let kinds: Vec<_> = noted.into_iter().map(|(_, kind)| kind).collect();
    assert!(kinds[0] == kinds[1] && kinds[0] != kinds[2] && !kinds.contains(&0));
}
