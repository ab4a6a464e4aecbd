//! Gates: events that run in their own callers.

mod entering;
mod places;
