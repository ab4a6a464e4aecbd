//! Clients that hang up: nothing is done for them, and who stays is answered.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use tamarisk_axum::{Part, Service, answers};
use tamarisk_control::Target;
use tamarisk_stage::{Accounts, Context, Stage, StageBuilder};
use tamarisk_tower::StageLayer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};

/// How long a request is worked on, by the only worker.
const SERVICE: Duration = Duration::from_millis(200);
/// For how long an impatient client waits: a few are served meanwhile.
const PATIENCE: Duration = Duration::from_millis(500);
/// With all of them before it, a patient client would wait for 20 s.
const IMPATIENT: u64 = 100;
/// More than any machine needs for what it is to do by then.
const LONG: Duration = Duration::from_secs(60);

const REQUEST: &str =
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nConnection: close\r\n\r\n1";

/// Its target lets all of them in.
fn described() -> StageBuilder {
    let target = Target::p90(2 * LONG).unwrap();
    Stage::builder("slow").target(target).workers(1).queue_capacity(1000)
}

async fn client(address: SocketAddr) -> TcpStream {
    let mut client = TcpStream::connect(address).await.unwrap();
    client.write_all(REQUEST.as_bytes()).await.unwrap();
    client
}

/// Serves `router`, to which a crowd comes that hangs up, and then one client that does not.
async fn hang_up(part: &impl Part, router: Router, begun: &AtomicU64) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let serving = Service::new().stage(part).serve_until(listener, router, async {
        let _ = stopped.await;
    });
    let serving = tokio::spawn(serving);
    let observe = || {
        let total = part.observe()[0].total();
        assert!(total.balance(), "{total:?}");
        total
    };
    let mut crowd = Vec::new();
    for _ in 0..IMPATIENT {
        crowd.push(client(address).await);
    }
    until(|| observe().offered == IMPATIENT).await;
    sleep(PATIENCE).await;
    drop(crowd);
    let mut answer = String::new();
    let mut patient = client(address).await;
    timeout(LONG, patient.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    until(|| observe().inside() == 0).await;
    let Accounts { completed, abandoned, .. } = observe();
    assert_eq!(completed + abandoned, IMPATIENT + 1);
    let begun = begun.load(Ordering::Relaxed);
    assert!(begun < IMPATIENT / 2, "{begun} were begun, {abandoned} abandoned");
    stop.send(()).unwrap();
    serving.await.unwrap().unwrap();
}

/// Waits until this is so.
async fn until(holds: impl Fn() -> bool) {
    let looking = async {
        while !holds() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(LONG, looking).await.unwrap();
}

#[tokio::test]
async fn a_stage_works_for_those_who_stay() {
    let begun = Arc::<AtomicU64>::default();
    let noted = Arc::clone(&begun);
    let stage = described()
        .handler(async move |_: String, _: Context| {
            noted.fetch_add(1, Ordering::Relaxed);
            sleep(SERVICE).await;
            Ok("done")
        })
        .unwrap();
    let router = Router::new().route("/", post(answers(&stage)));
    hang_up(&stage, router, &begun).await;
}

#[tokio::test]
async fn a_gate_lets_those_in_who_stay() {
    let begun = Arc::<AtomicU64>::default();
    let noted = Arc::clone(&begun);
    let gate = described().gate().unwrap();
    let work = move || {
        noted.fetch_add(1, Ordering::Relaxed);
        sleep(SERVICE)
    };
    let router = Router::new().route("/", post(work));
    hang_up(&gate, router.layer(StageLayer::new(gate.clone())), &begun).await;
}
