//! Shows mutated requests to the codec and to the server's guard, and stops at the first one that
//! they read differently.
//!
//! ```text
//! cargo run --release -p tamarisk-h1 --example differential -- [inputs] [seed]
//! ```

mod compare;

use std::time::Instant;

use compare::Mutator;

fn main() {
    let mut arguments = std::env::args().skip(1).map(|argument| {
        argument.parse::<u64>().expect("the arguments are numbers: inputs, then a seed")
    });
    let inputs = arguments.next().unwrap_or(100_000_000);
    let seed = arguments.next().unwrap_or(0);
    let (start, mut mutator) = (Instant::now(), Mutator::new(seed));
    for input in 0..inputs {
        if let Err(difference) = mutator.run_one() {
            eprintln!("input {input} of seed {seed}: {difference}");
            std::process::exit(1);
        }
    }
    println!("{inputs} inputs of seed {seed} are read alike: {}", mutator.seen);
    println!("{:.0} inputs a second", inputs as f64 / start.elapsed().as_secs_f64());
}
