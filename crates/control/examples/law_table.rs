//! scratch
#[path = "../tests/simulated_stage/mod.rs"]
mod simulated_stage;
use simulated_stage::{report, run, scenarios};
use tamarisk_control::*;

fn main() {
    let list: Vec<(&str, scenarios::Scenario)> = vec![
        ("spike", scenarios::spike()),
        ("step2", scenarios::step(2.0)),
        ("step10", scenarios::step(10.0)),
        ("slow", scenarios::slowdown()),
        ("80%", scenarios::eighty_percent()),
        ("wide.8", scenarios::wide(0.8)),
        ("wide2", scenarios::wide(2.0)),
        ("prio.2", scenarios::priorities(0.2)),
        ("prio.08", scenarios::priorities(0.08)),
        ("u1x10", scenarios::uniform(1, 0.02, 200, 10.0)),
        ("u1x2", scenarios::uniform(1, 0.02, 50, 2.0)),
        ("u8x10", scenarios::uniform(8, 0.02, 200, 10.0)),
        ("u64x10", scenarios::uniform(64, 0.02, 200, 10.0)),
        ("u8x.8", scenarios::uniform(8, 0.02, 200, 0.8)),
    ];
    for (name, s) in &list {
        let mut law = PredictGateTrim::new(&s.workload.classes);
        let t = std::time::Instant::now();
        let r = run(&mut law, &s.upstream, &s.workload, 1);
        let el = t.elapsed();
        let (a, b) = s.measured;
        let m = report::summarise(&r, &s.workload.classes, None, a, b);
        let f = report::summarise(&r, &s.workload.classes, None, a, a + 2.0);
        let st = report::settling_time(&r, &s.workload.classes, s.capacity(), a, b);
        println!(
            "{name:8} good {:.3} work {:.3} p90 {:.2} rej {:.4} drop {:.4} first2s {:.2}/{:.2} settle {st} n={} {el:?}",
            m.goodput / s.capacity(), m.good_work / f64::from(s.upstream.workers), m.p90, m.rejected, m.dropped,
            f.goodput / s.capacity(), f.p90, r.len()
        );
        if s.workload.classes.len() > 1 {
            for (id, _) in s.workload.classes.iter() {
                let m = report::summarise(&r, &s.workload.classes, Some(id), a, b);
                println!("      class {} offered {:.1} good {:.1} p90 {:.2} rej {:.3} drop {:.3}", id.index(), m.offered / (b - a), m.goodput, m.p90, m.rejected, m.dropped);
            }
        }
    }
}
