//! scratch
#[path = "../tests/simulated_stage/mod.rs"]
mod simulated_stage;
use simulated_stage::{report, run, scenarios};
use tamarisk_control::*;

struct Traced(Box<dyn AdmissionLaw>, Timestamp);
impl AdmissionLaw for Traced {
    fn name(&self) -> &'static str {
        "t"
    }
    fn on_arrival(&mut self, now: Timestamp, a: &Arrival, b: &Backlog<'_>) -> Decision {
        self.0.on_arrival(now, a, b)
    }
    fn on_dequeue(&mut self, now: Timestamp, a: &Waiting, b: &Backlog<'_>) -> Dequeue {
        self.0.on_dequeue(now, a, b)
    }
    fn order(&self, a: std::time::Duration) -> Order {
        self.0.order(a)
    }
    fn on_finish(&mut self, now: Timestamp, a: &Finished, b: &Backlog<'_>) {
        self.0.on_finish(now, a, b)
    }
    fn concurrency(&self) -> Option<Concurrency> {
        self.0.concurrency()
    }
    fn readings(&self, v: &mut dyn FnMut(Reading<'_>)) {
        self.0.readings(v)
    }
    fn on_tick(&mut self, now: Timestamp, b: &Backlog<'_>) {
        self.0.on_tick(now, b);
        print!(
            "{:.1} q{} r{} L{} ",
            now.as_nanos() as f64 / 1e9,
            b.queued_total,
            b.running_total,
            b.workers
        );
        self.0.readings(&mut |r| {
            if r.class.is_none_or(|c| c.index() == 0) {
                print!("{}={:.3} ", &r.name[..r.name.len().min(16)], r.value)
            }
        });
        println!();
    }
}
fn make(classes: &Classes) -> Box<dyn AdmissionLaw> {
    let law: Box<dyn AdmissionLaw> = if std::env::var("LAW").is_ok() {
        Box::new(OpaqueUpstream::new(classes))
    } else {
        Box::new(PredictGateTrim::new(classes))
    };
    if std::env::var("TR").is_ok() { Box::new(Traced(law, Timestamp::ZERO)) } else { law }
}

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
        ("u1x10t", scenarios::uniform(1, 0.05, 200, 10.0)),
        ("u8x1.2", scenarios::uniform(8, 0.02, 200, 1.2)),
        ("u400x10", scenarios::uniform(400, 0.4, 3000, 10.0)),
        ("u100x10", scenarios::uniform(100, 0.1, 400, 10.0)),
        ("cont16", scenarios::contention(16)),
        ("cont8", scenarios::contention(8)),
        ("cold8", scenarios::cold(8, 0.02, 200, 10.0)),
        ("cold1", scenarios::cold(1, 0.02, 200, 10.0)),
        ("cold1s", scenarios::cold(1, 0.1, 1000, 10.0)),
        ("cold64", scenarios::cold(64, 0.02, 200, 10.0)),
        ("cold64.8", scenarios::cold(64, 0.02, 200, 0.8)),
        ("cold8.8", scenarios::cold(8, 0.02, 200, 0.8)),
        ("cold200.8", scenarios::cold(200, 0.1, 400, 0.8)),
        ("u100x.8", scenarios::uniform(100, 0.1, 250, 0.8)),
        ("u8x.8", scenarios::uniform(8, 0.02, 200, 0.8)),
    ];
    let only = std::env::args().nth(1).unwrap_or_default();
    for (name, s) in &list {
        if !only.starts_with('-') && !name.starts_with(&only) {
            continue;
        }
        let (a, b) = s.measured;
        let w = f64::from(s.upstream.workers);
        let seeds = std::env::var("SEEDS").map_or(5, |v| v.parse().unwrap());
        let mut t = [0.0; 9];
        let mut settle = Vec::new();
        let mut law = make(&s.workload.classes);
        let mut r = Vec::new();
        for seed in 1..=seeds {
            law = make(&s.workload.classes);
            r = run(&mut *law, &s.upstream, &s.workload, seed);
            let m = report::summarise(&r, &s.workload.classes, None, a, b);
            let f = report::summarise(&r, &s.workload.classes, None, a, a + 2.0);
            settle.push(report::settling_time(&r, &s.workload.classes, a, b));
            for (t, v) in t.iter_mut().zip([
                m.goodput / s.capacity(),
                m.good_work / w,
                m.late_work / w,
                m.p90,
                m.rejected,
                m.dropped,
                f.goodput / s.capacity(),
                f.good_work / w,
                f.p90,
            ]) {
                *t += v / seeds as f64;
            }
        }
        print!(
            "{name:8} good {:.3} work {:.3} late {:.3} p90 {:.2} rej {:.4} drop {:.4} first2s {:.2}/{:.2}/{:.2} settle {settle:?} ",
            t[0], t[1], t[2], t[3], t[4], t[5], t[6], t[7], t[8]
        );
        law.readings(&mut |r| {
            if r.name.ends_with("ratio") && r.class == Some(ClassId::new(0)) {
                print!("{}={:.3} ", r.name, r.value)
            }
        });
        if std::env::var("LAW").is_ok() {
            law.readings(&mut |r| {
                if r.class.is_none() {
                    print!("{}={:.3} ", &r.name[..6], r.value)
                }
            });
        }
        println!();
        if std::env::args().any(|a| a == "-t") {
            for i in 0..((b - a) as usize) {
                let f = a + i as f64;
                let m = report::summarise(&r, &s.workload.classes, None, f, f + 1.0);
                println!(
                    "   {f} good {:.2} work {:.2} p90 {:.2} rej {:.3} drop {:.3}",
                    m.goodput / s.capacity(),
                    m.good_work / f64::from(s.upstream.workers),
                    m.p90,
                    m.rejected,
                    m.dropped
                );
            }
        }
        if std::env::args().any(|a| a == "-c") && s.workload.classes.len() > 1 {
            for (id, _) in s.workload.classes.iter() {
                let m = report::summarise(&r, &s.workload.classes, Some(id), a, b);
                println!(
                    "      class {} offered {:.1} good {:.1} p90 {:.2} rej {:.3} drop {:.3}",
                    id.index(),
                    m.offered / (b - a),
                    m.goodput,
                    m.p90,
                    m.rejected,
                    m.dropped
                );
            }
        }
    }
}
