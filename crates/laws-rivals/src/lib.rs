//! Laws from practice: the overload control of routers, proxies and large services, each under its
//! own name and with its published constants.
//!
//! They are here to be compared with, and to be chosen by those who know and want
//! them; [`entries`] has each by its name. Each file says what its law does badly; `docs/LAWS.md` shows it in numbers.
//!
//! | law | rejects on arrival | drops from the queue | by | knows |
//! | --- | --- | --- | --- | --- |
//! | [`Codel`] | | now and then | the least wait | |
//! | [`ServiceCodel`] | | what waited too long | the least wait | |
//! | [`AdaptiveLifo`] | | what waited too long, newest first | when the queue was last empty | |
//! | [`Red`] | a growing share | | the smoothed queue | |
//! | [`Vegas`] | what exceeds a limit | | best ÷ present response time | |
//! | [`Gradient2`] | what exceeds a limit | | usual ÷ present response time | |
//! | [`MinRttGradient`] | what exceeds a limit | | measured ÷ present response time | |
//! | [`PiShedding`] | the least important | what waited out its target | growth of the queue | priorities, clients |
//! | [`Dagor`] | the least important | | mean wait | priorities, clients |
//! | [`CpuShedding`] | what exceeds a limit | | CPU, best throughput × response time | |
//! | [`Bouncer`] | what would be late | | queued work | targets |
//!
//! The three with a limit on how many are inside answer
//! [`concurrency`](tamarisk_control::PlaceLimits::concurrency) with it, so that they also serve
//! for an upstream whose workers cannot be seen.

mod adaptive_lifo;
mod bouncer;
mod codel;
mod cohorts;
mod cpu_shedding;
mod dagor;
pub mod entries;
mod gradient2;
mod min_rtt_gradient;
mod pi_shedding;
mod queue_delay;
mod red;
mod service_codel;
#[cfg(test)]
mod test_bench;
mod vegas;

pub use adaptive_lifo::AdaptiveLifo;
pub use bouncer::Bouncer;
pub use codel::Codel;
pub use cpu_shedding::CpuShedding;
pub use dagor::Dagor;
pub use gradient2::Gradient2;
pub use min_rtt_gradient::MinRttGradient;
pub use pi_shedding::PiShedding;
pub use queue_delay::{InvalidQueueDelay, QueueDelay};
pub use red::{InvalidRed, Red, RedBuilder};
pub use service_codel::ServiceCodel;
pub use vegas::Vegas;
