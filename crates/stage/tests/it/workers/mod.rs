//! Workers: how many, with which handlers, and what each takes at once.

mod batches;
mod factories;
mod replace;
mod resize;
mod useful_workers;
