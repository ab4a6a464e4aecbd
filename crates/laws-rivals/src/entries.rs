//! The laws of this crate by name, for `tamarisk-catalogue`.

use tamarisk_laws::entry;
use tamarisk_laws::named::AdmissionEntry;

use crate::dagor::DagorConstants;
use crate::gradient2::Gradient2Constants;
use crate::min_rtt_gradient::MinRttGradientConstants;
use crate::queue_delay::QueueDelayConstants;
use crate::red::RedConstants;
use crate::vegas::VegasConstants;
use crate::{
    AdaptiveLifo, Bouncer, Codel, CpuShedding, Dagor, Gradient2, MinRttGradient, PiShedding,
    QueueDelay, Red, ServiceCodel, Vegas,
};

/// [`Codel`].
pub const CODEL: AdmissionEntry = entry!(
    "codel",
    "drops now and then while the least wait stays high [RFC8289]",
    |_, its: QueueDelayConstants| Codel::with(QueueDelay::of(&its)?)
);
/// [`ServiceCodel`].
pub const SERVICE_CODEL: AdmissionEntry = entry!(
    "service-codel",
    "drops what waited too long while a queue stands",
    |_, its: QueueDelayConstants| ServiceCodel::with(QueueDelay::of(&its)?)
);
/// [`AdaptiveLifo`].
pub const ADAPTIVE_LIFO: AdmissionEntry =
    entry!("adaptive-lifo", "the same, newest first", |_, its: QueueDelayConstants| {
        AdaptiveLifo::with(QueueDelay::of(&its)?)
    });
/// [`Red`].
pub const RED: AdmissionEntry =
    entry!("red", "rejects a share that grows with the smoothed queue", |_, its: RedConstants| {
        Red::builder().constants(its).build()?
    });
/// [`Vegas`].
pub const VEGAS: AdmissionEntry = entry!(
    "vegas",
    "a limit in flight by best and present response time",
    |_, its: VegasConstants| Vegas::of(&its)?
);
/// [`Gradient2`].
pub const GRADIENT2: AdmissionEntry = entry!(
    "gradient2",
    "a limit in flight by usual and present response time",
    |_, its: Gradient2Constants| Gradient2::of(&its)?
);
/// [`MinRttGradient`].
pub const MIN_RTT_GRADIENT: AdmissionEntry = entry!(
    "min-rtt-gradient",
    "a limit in flight by a measured least response time",
    |_, its: MinRttGradientConstants| MinRttGradient::of(&its)?
);
/// [`PiShedding`].
pub const PI_SHEDDING: AdmissionEntry =
    entry!("pi-shedding", "rejects the least important by a PI loop on the queue", |classes| {
        PiShedding::new(classes)
    });
/// [`Dagor`].
pub const DAGOR: AdmissionEntry = entry!(
    "dagor",
    "rejects the least important while the mean wait is high",
    |classes, its: DagorConstants| Dagor::with(classes, its.wait_max_seconds, 0)
);
/// [`CpuShedding`].
pub const CPU_SHEDDING: AdmissionEntry =
    entry!("cpu-shedding", "a limit in flight while the CPU is busy", |_| CpuShedding::new());
/// [`Bouncer`].
pub const BOUNCER: AdmissionEntry =
    entry!("bouncer", "rejects what is predicted to be late, without feedback", |classes| {
        Bouncer::new(classes)
    });
