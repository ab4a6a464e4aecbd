//! Figures 5-2 to 5-15 and tables 1 and 2 of Fair07 ch. 5 as data, from the simulator.
//!
//! The thesis does not print the numbers behind its curves, its pages or its machine; what is
//! ours stands at each experiment. What its text says of the curves is asserted in the tests.

#![allow(dead_code, unreachable_pub, reason = "shared by tests and an example")]

use std::fmt::Write;

pub mod open_loop;
pub mod partly_open;
pub mod rig;
pub mod throughput;

/// One figure.
pub struct Figure {
    pub number: &'static str,
    pub title: String,
    pub x: &'static str,
    pub y: &'static str,
    pub lines: Vec<Line>,
}

pub struct Line {
    pub name: String,
    pub points: Vec<(f64, Option<f64>)>,
}

pub fn points(
    times: impl Iterator<Item = f64>,
    values: impl IntoIterator<Item = f64>,
) -> Vec<(f64, Option<f64>)> {
    times.zip(values.into_iter().map(Some)).collect()
}

impl Figure {
    /// A head, and one point of one line in each row.
    pub fn csv(&self) -> String {
        let mut csv = format!("line,{},{}\n", self.x, self.y.replace(',', ""));
        for line in &self.lines {
            for (x, y) in &line.points {
                let y = y.map_or_else(String::new, |y| format!("{y:.4}"));
                writeln!(csv, "{},{x:.2},{y}", line.name)
                    .expect("writing to a string does not fail");
            }
        }
        csv
    }
}
