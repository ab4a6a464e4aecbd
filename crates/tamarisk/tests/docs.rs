//! What README shows to authors is the program that is compiled here.
#![allow(clippy::unwrap_used, reason = "a test stops where it fails")]

const README: &str = include_str!("../../../README.md");
const PIPELINE: &str = include_str!("../examples/pipeline.rs");

#[test]
fn the_readme_shows_the_example() {
    let (_, rest) = PIPELINE.split_once("// README: begin\n").unwrap();
    let (program, _) = rest.split_once("// README: end\n").unwrap();
    assert!(
        README.contains(&format!("```rust\n{program}```\n")),
        "the program in README.md, \"Build with it\", is not that of examples/pipeline.rs: copy it"
    );
}
