//! A gRPC service behind a gate: what is too much gets RESOURCE_EXHAUSTED and a pushback.
//!
//! `cargo run --release -p tamarisk --example tonic`

use std::time::Duration;

use tamarisk::tower::StageLayer;
use tamarisk::{BoxError, Stage};
use tonic::transport::Server;
use tonic_health::ServingStatus;

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let gate = Stage::builder("health").p90(Duration::from_millis(100)).gate()?;
    let (reporter, health) = tonic_health::server::health_reporter();
    reporter.set_service_status("shop", ServingStatus::Serving).await;

    println!("serving on http://127.0.0.1:50051");
    let stopped = async { drop(tokio::signal::ctrl_c().await) };
    Server::builder()
        .layer(StageLayer::new(gate.clone()))
        .add_service(health)
        .serve_with_shutdown("127.0.0.1:50051".parse()?, stopped)
        .await?;
    println!("{:#?}", gate.observe().total());
    Ok(())
}
