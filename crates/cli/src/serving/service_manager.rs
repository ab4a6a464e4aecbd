//! Notifications to systemd (`sd_notify(3)`): ready, reloading, stopping.
//! Without a service manager it does nothing.

use sd_notify::NotifyState;

/// Tells it our state.
pub(crate) fn tell(state: &[NotifyState<'_>]) {
    // Who cannot be told does not wait for it.
    let _ = sd_notify::notify(state);
}

/// Tells it that we read our files again; `ready` says when it is done.
pub(crate) fn reloading() {
    // It compares this time with that of its own signal.
    if let Ok(now) = NotifyState::monotonic_usec_now() {
        tell(&[NotifyState::Reloading, now]);
    }
}
