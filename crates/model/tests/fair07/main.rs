//! What chapter 5 of Fair07 says of its figures and tables, held against the simulator.

#![allow(clippy::unwrap_used, reason = "what cannot be unwrapped fails the test")]

mod figures;

use figures::*;

#[test]
fn dump() {
    let r = partly_open::changing_target(1);
    println!("57 {:?}\n{:?}", r.percentiles(0.9), r.workers_at(0));
    let r = partly_open::changing_clients(1);
    println!(
        "58 {:?}\n{:?} {:?}",
        r.percentiles(0.9),
        r.workers_at(0),
        rig::quantile(r.responses_from(std::time::Duration::ZERO), 0.9)
    );
    for system in open_loop::System::ALL {
        let r = open_loop::run(system, 1);
        let row = open_loop::row(&r);
        println!(
            "{system:?} {row:?} {} {} {} lost at {:?}",
            row.in_time_of_processed(),
            row.in_time_of_all(),
            row.rejection_rate(),
            r.lost_at
        );
        let thin: Vec<_> = r.percentiles(0.9).into_iter().step_by(8).collect();
        println!("{thin:?}\n  {:?}", r.lost.iter().step_by(8).collect::<Vec<_>>());
        for s in 0..3 {
            println!("{:?}", r.workers_at(s).into_iter().step_by(8).collect::<Vec<_>>());
        }
    }
}
