//! The graph of stages as a diagram: boxes are stages, arrows are what they have sent to one another.

use std::collections::BTreeMap;

use tamarisk_control::Percentile;
use tamarisk_plot::{Arrow, Border, Colour, Diagram, DiagramBox, format};
use tamarisk_stage::{Phase, SenderObservation, StageObservation};

use crate::promise::Promise;

/// The name of senders that are no stages.
const OUTSIDE: &str = "outside";

/// The stages with their state, and arrows with the events that crossed them so far and in the last
/// seconds. An arrow from the oval `outside` stands for what no stage has sent.
pub fn diagram(stages: &[StageObservation]) -> Diagram {
    let mut boxes: Vec<DiagramBox> = stages.iter().map(stage_box).collect();
    let mut places: BTreeMap<&str, usize> =
        stages.iter().enumerate().map(|(place, stage)| (stage.name.as_str(), place)).collect();
    let mut crossings = Vec::new();
    for (to, stage) in stages.iter().enumerate() {
        let outside = from_outside(stage);
        if outside.crossed + outside.rejected > 0 || stage.senders.is_empty() {
            crossings.push((OUTSIDE, to, outside));
        }
        for sender in &stage.senders {
            crossings.push((sender.stage.as_str(), to, sender.clone()));
        }
    }
    let most = crossings.iter().map(|(.., sent)| sent.crossed + sent.rejected).max().unwrap_or(0);
    let mut arrows = Vec::new();
    for (name, to, sent) in crossings {
        let from = *places.entry(name).or_insert_with(|| {
            // Outside, or a stage that is not shown.
            let (title, lines) = (name.to_owned(), Vec::new());
            boxes.push(DiagramBox { title, lines, colour: Colour::Grey, border: Border::Oval });
            boxes.len() - 1
        });
        let weight = (sent.crossed + sent.rejected) as f64 / most.max(1) as f64;
        arrows.push(Arrow { from, to, lines: lines_of(&sent), weight });
    }
    let all: u64 = stages.iter().map(|stage| stage.total().offered).sum();
    Diagram {
        title: "Stages and what crosses between them".to_owned(),
        subtitle: format!(
            "{} arrivals at stages since the start; rates of the last 5 to 10 s",
            format::count(all)
        ),
        boxes,
        arrows,
    }
}

/// What of a stage's arrivals no other stage has sent.
fn from_outside(stage: &StageObservation) -> SenderObservation {
    let total = stage.total();
    let sum = |of: fn(&SenderObservation) -> u64| stage.senders.iter().map(of).sum::<u64>();
    let rejected = total.rejected.saturating_sub(sum(|sender| sender.rejected));
    let admitted = total.offered - total.rejected;
    let arrivals: f64 = stage.classes.iter().map(|class| class.arrivals.get()).sum();
    let sent: f64 = stage.senders.iter().map(|sender| sender.rate.get()).sum();
    SenderObservation {
        stage: OUTSIDE.to_owned(),
        crossed: admitted.saturating_sub(sum(|sender| sender.crossed)),
        rejected,
        rate: tamarisk_control::PerSecond::new((arrivals - sent).max(0.0)).unwrap_or_default(),
    }
}

fn lines_of(sent: &SenderObservation) -> Vec<String> {
    let mut lines = vec![format::count(sent.crossed)];
    if sent.rejected > 0 {
        lines.push(format!("{} rejected", format::count(sent.rejected)));
    }
    lines.push(format!("{}/s", format::rate(sent.rate.get())));
    lines
}

fn stage_box(stage: &StageObservation) -> DiagramBox {
    let total = stage.total();
    let at_work = match stage.workers {
        0 => stage.runs.to_owned(),
        workers => format!("{} · {} of {workers} busy", stage.runs, total.running),
    };
    let mut lines = vec![at_work, format!("{} queued", format::count(total.queued))];
    let promise = Promise::of(stage);
    if let Some(Promise { percentile, target, seen: Some(seen) }) = promise {
        let [seen, target] = [seen, target].map(|time| format::seconds(time.as_secs_f64()));
        lines.push(format!("{} {seen} of {target}", Percentile(percentile)));
    }
    let ended = [
        (total.completed, "completed"),
        (total.dropped, "dropped"),
        (total.failed + total.terminated, "failed"),
        (total.abandoned, "abandoned"),
    ];
    let ended = ended.into_iter().filter(|(count, _)| *count > 0);
    lines.extend(ended.map(|(count, what)| format!("{} {what}", format::count(count))));
    let colour = match stage.phase {
        Phase::Draining | Phase::Closed => Colour::Grey,
        Phase::Open if promise.is_some_and(|promise| promise.strain() > 1.0) => Colour::Vermilion,
        Phase::Open if total.queued > 0 => Colour::Orange,
        Phase::Open => Colour::Green,
    };
    if stage.phase != Phase::Open {
        lines.push(stage.phase.as_str().to_owned());
    }
    DiagramBox { title: stage.name.clone(), lines, colour, border: Border::Box }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tamarisk_stage::{Context, Graph, Stage};

    use super::*;

    async fn answered(stage: &Stage<tamarisk_stage::Request<u32, u32>>, calls: u32) {
        for number in 0..calls {
            stage.call(number).await.unwrap();
        }
    }

    /// `front` calls `back` twice, and no stage calls `apart`.
    #[tokio::test]
    async fn arrows_say_who_has_sent_how_much_to_whom() {
        let back = Stage::builder("back").handler(async |n: u32, _: Context| Ok(n)).unwrap();
        let front = {
            let back = back.clone();
            Stage::builder("front").handler(async move |n: u32, cx: Context| {
                cx.call(&back, n).await?;
                Ok(cx.call(&back, n).await?)
            })
        };
        let front = front.unwrap();
        let apart = Stage::builder("apart").handler(async |n: u32, _: Context| Ok(n)).unwrap();
        answered(&front, 7).await;
        answered(&back, 3).await;
        let graph = Graph::new();
        for stage in [&front, &back, &apart] {
            graph.add(stage).unwrap();
        }
        let drawn = diagram(&graph.observe().stages);
        let titles: Vec<_> = drawn.boxes.iter().map(|part| part.title.as_str()).collect();
        assert_eq!(titles, ["front", "back", "apart", "outside"]);
        let arrows: Vec<_> =
            drawn.arrows.iter().map(|arrow| (arrow.from, arrow.to, &*arrow.lines[0])).collect();
        assert_eq!(arrows, [(3, 0, "7"), (3, 1, "3"), (0, 1, "14"), (3, 2, "0")]);
        assert_eq!(drawn.arrows[2].weight, 1.0);
        assert!(drawn.boxes[1].lines.contains(&"17 completed".to_owned()), "{drawn:?}");

        graph.remove("back", Duration::from_secs(1)).await.unwrap();
        let drawn = diagram(&[back.observe()]);
        assert_eq!(drawn.boxes[0].lines.last().unwrap(), "closed");
        // Its sender is not shown as a stage any more.
        assert_eq!((drawn.boxes.len(), drawn.boxes[2].border), (3, Border::Oval));
    }
}
