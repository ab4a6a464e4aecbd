//! Workers: how many, with which handlers, and what each takes at once.

mod batches;
mod elastic;
mod factories;
mod group_commits;
mod replace;
mod resize;
mod useful_workers;
