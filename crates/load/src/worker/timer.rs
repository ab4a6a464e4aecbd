//! A timer that is exact to some tens of microseconds.
//!
//! Tokio's own timers tick in milliseconds, which would make every request of an
//! open loop late by half of one, and bunch those of a fast stream.

use std::io;
use std::time::Duration;

/// The kernel's high-resolution timer, as a future. Tokio has no type for a
/// timer's descriptor that is made without `unsafe`; the reading end of a pipe
/// asks of its descriptor only that it can be polled and read, which a timer's can.
#[cfg(target_os = "linux")]
pub(crate) struct Timer(tokio::net::unix::pipe::Receiver);

#[cfg(target_os = "linux")]
impl Timer {
    /// A timer on the current runtime. Fails if there is no free descriptor.
    pub(crate) fn new() -> io::Result<Self> {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        use tokio::net::unix::pipe::Receiver;

        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        Ok(Self(Receiver::from_owned_fd_unchecked(timer)?))
    }

    /// Waits for `duration`.
    pub(crate) async fn sleep(&mut self, duration: Duration) -> io::Result<()> {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
        use tokio::io::AsyncReadExt;

        if duration.is_zero() {
            return Ok(());
        }
        let once = Itimerspec {
            it_interval: Timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: Timespec {
                tv_sec: duration.as_secs().try_into().unwrap_or(i64::MAX),
                tv_nsec: duration.subsec_nanos().into(),
            },
        };
        timerfd_settime(&self.0, TimerfdTimerFlags::empty(), &once)?;
        // The kernel answers with the number of expirations, in eight bytes.
        self.0.read_exact(&mut [0; 8]).await?;
        Ok(())
    }
}

/// Elsewhere: tokio's timer, with its ticks of a millisecond.
#[cfg(not(target_os = "linux"))]
pub(crate) struct Timer;

#[cfg(not(target_os = "linux"))]
impl Timer {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self)
    }

    pub(crate) async fn sleep(&mut self, duration: Duration) -> io::Result<()> {
        tokio::time::sleep(duration).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[tokio::test]
    async fn never_ends_early_and_can_be_set_again() {
        let mut timer = Timer::new().unwrap();
        for duration in [Duration::from_nanos(1), Duration::from_micros(1500), Duration::ZERO] {
            let began = Instant::now();
            timer.sleep(duration).await.unwrap();
            assert!(began.elapsed() >= duration);
        }
    }
}
