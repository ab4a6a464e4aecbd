//! Under overload, answers of lower quality before fewer answers: bronze first and further.
//!
//! `cargo run --release -p tamarisk --example degrade`

use std::time::{Duration, Instant};

use tamarisk::{BoxError, Context, Entry, Ratio, Stage};

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    // A search that looks at so many pages as its quality allows, with two workers.
    let search = Stage::builder("search")
        .p90(Duration::from_millis(50))
        .classes(["gold", "bronze"])
        .workers(2)
        .least_quality("gold", Ratio::saturating(0.6))
        .least_quality("bronze", Ratio::saturating(0.1))
        .handler(async |words: &'static str, cx: Context| {
            let pages = 1.0 + 19.0 * cx.quality().get();
            tokio::time::sleep(Duration::from_secs_f64(pages / 1000.0)).await;
            Ok(format!("{words}: {pages:.0} pages"))
        })?;

    // Twice what two workers can do at full quality.
    let classes = ["gold", "bronze"].map(|name| (name, search.class(name)));
    let started = Instant::now();
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    while started.elapsed() < Duration::from_secs(10) {
        ticks.tick().await;
        for (_, class) in classes {
            let (search, entry) = (search.clone(), Entry::new().class(class.unwrap_or_default()));
            tokio::spawn(async move { search.call_as("oasis", entry).await });
        }
    }
    for (name, class) in classes {
        let entry = Entry::new().class(class.unwrap_or_default());
        println!("{name}: {}", search.call_as("oasis", entry).await?);
    }
    let total = search.observe().total();
    println!("{} answered, {} rejected", total.completed, total.rejected);
    Ok(())
}
