//! Two stages, two classes, HTTP and a status page:
//!
//! `cargo run --release -p tamarisk --example pipeline`, then
//! `curl -H 'x-plan: gold' -d 'some text' http://127.0.0.1:8080/count`; the page is at
//! <http://127.0.0.1:9090/>.

// README: begin
use std::time::Duration;

use axum::{Router, routing::post};
use tamarisk::axum::{Service, answers};
use tamarisk::{BoxError, Context, Entry, Stage};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // CPU-bound work runs on threads; how many are of use is found by control.
    let count =
        Stage::builder("count").classes(["gold", "bronze"]).blocking_handler(count_words)?;

    // Work that waits runs in tasks. All that is stated is a target for each class.
    let clean = Stage::builder("clean")
        .p90(Duration::from_millis(200))
        .classes(["gold", "bronze"])
        .handler(async move |text: String, cx: Context| {
            tokio::time::sleep(Duration::from_millis(5)).await;
            // Keeps class, deadline and flow; a rejection over there reaches the client.
            Ok(cx.call(&count, text.to_lowercase()).await?)
        })?;

    let gold = clean.class("gold").ok_or("no such class")?;
    let route = answers(&clean).classify(move |head| match head.headers.get("x-plan") {
        Some(plan) if plan == "gold" => Entry::new().class(gold),
        _ => Entry::new(),
    });
    let router = Router::new().route("/count", post(route));
    let service = Service::new().stage(&clean).status("127.0.0.1:9090");
    service.serve("127.0.0.1:8080", router).await?;
    Ok(())
}

fn count_words(text: String, _: Context) -> Result<String, BoxError> {
    Ok(text.split_whitespace().count().to_string())
}
// README: end
