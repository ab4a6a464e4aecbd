//! An axum service that tells the requests too many at once, instead of serving
//! all of them late:
//!
//! `cargo run --release -p tamarisk --example axum`, then
//! `curl http://127.0.0.1:3000/` or `h2load --h1 -n 20000 -c 200 http://127.0.0.1:3000/`.

use std::time::Duration;

use axum::Router;
use axum::routing::get;
use tamarisk::Stage;
use tamarisk::tower::StageLayer;
use tokio::net::TcpListener;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let gate = Stage::builder("pages").p90(Duration::from_millis(200)).gate()?;

    let app = Router::new().route("/", get(page)).layer(StageLayer::new(gate.clone()));

    let listener = TcpListener::bind("127.0.0.1:3000").await?;
    println!("serving on http://{}", listener.local_addr()?);
    let stopped = async {
        let _ = tokio::signal::ctrl_c().await;
    };
    axum::serve(listener, app).with_graceful_shutdown(stopped).await?;
    println!("{:#?}", gate.observe().total());
    Ok(())
}

/// A page that takes 20 ms to make, by something that can do eight at once.
async fn page() -> &'static str {
    tokio::time::sleep(Duration::from_millis(20)).await;
    "hello\n"
}
