//! A situation as text of scenario files, so that any can be kept, read and run again.

use std::fmt;
use std::time::Duration;

use crate::draw::Draw;

/// Two scenarios with the same requests, and a description.
pub(crate) struct Situation {
    /// In a few words, with the numbers that were drawn.
    pub(crate) description: String,
    /// What a law is tried in: all requests enter the stage `upstream`.
    pub(crate) tried: String,
    /// What the rivals run in: stages that state their workers.
    pub(crate) stated: String,
    /// The stages of `stated`.
    pub(crate) stages: Vec<String>,
}

impl Situation {
    /// Of one stage. The workers are stated; a law with a limit of its own does not read them.
    pub(crate) fn of_one_stage(description: String, text: String) -> Self {
        let stages = vec!["upstream".to_owned()];
        Self { description, tried: text.clone(), stated: text, stages }
    }
}

/// Requests that capacity serves in the measured time: enough for a mean within about a fiftieth.
const REQUESTS: f64 = 4000.0;
/// The shortest and the longest measured time, in seconds: a law needs seconds to settle, and a
/// run of minutes costs more than it shows.
const MEASURED_LEAST: f64 = 40.0;
const MEASURED_MOST: f64 = 240.0;
/// Targets that the measured time lasts for at least, so that late answers fall into it.
const TARGETS: f64 = 12.0;
/// Time before the measured time, as a share of it. A law begins with nothing learned, and cold
/// starts are judged by scenarios of their own.
const WARM_UP: f64 = 0.3;

/// When a run is measured, in seconds.
pub(crate) struct Times {
    pub(crate) measured: f64,
    warm_up: f64,
    target: f64,
}

impl Times {
    /// `capacity` in requests a second, `target` in seconds.
    pub(crate) fn new(capacity: f64, target: f64) -> Self {
        let measured = (REQUESTS / capacity).clamp(MEASURED_LEAST, MEASURED_MOST);
        let measured = measured.max(TARGETS * target);
        Self { measured, warm_up: WARM_UP * measured, target }
    }

    /// When this share of the measured time is over.
    pub(crate) fn at(&self, share: f64) -> f64 {
        self.warm_up + share * self.measured
    }

    /// The first lines of the scenario.
    pub(crate) fn head(&self) -> String {
        format!(
            "duration = \"{}\"\nwarm_up = \"{}\"\np90 = \"{}\"\n",
            time(self.measured),
            time(self.warm_up),
            time(self.target)
        )
    }
}

/// A distribution of service times.
pub(crate) struct Service {
    /// As a value of a scenario file, an inline table.
    pub(crate) text: String,
    shape: &'static str,
    mean: f64,
}

impl Service {
    /// Of any shape, with this mean in seconds.
    pub(crate) fn draw(draw: &mut Draw, mean: f64) -> Self {
        let mean_text = time(mean);
        let (shape, text) = match draw.below(6) {
            0 => ("constant", format!("constant = \"{mean_text}\"")),
            1 => {
                let (least, most) = (time(0.5 * mean), time(1.5 * mean));
                ("uniform", format!("uniform = [\"{least}\", \"{most}\"]"))
            }
            2 => ("Erlang", format!("erlang = \"{mean_text}\", stages = 4")),
            3 => ("exponential", format!("exponential = \"{mean_text}\"")),
            4 => {
                let variation = draw.between(1.2, 2.5);
                let text =
                    format!("hyper_exponential = \"{mean_text}\", variation = {variation:.3}");
                ("hyperexponential", text)
            }
            _ => {
                let variation = draw.between(0.5, 2.0);
                let text = format!("log_normal = \"{mean_text}\", variation = {variation:.3}");
                ("log-normal", text)
            }
        };
        Self { text: format!("{{ {text} }}"), shape, mean }
    }

    /// The same with another key before its own.
    pub(crate) fn text_with(&self, key: &str) -> String {
        format!("{{ {key}, {}", self.text.trim_start_matches("{ "))
    }
}

impl fmt::Display for Service {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", short(self.mean), self.shape)
    }
}

/// Seconds as a value of a scenario file.
pub(crate) fn time(seconds: f64) -> String {
    format!("{}us", Duration::from_secs_f64(seconds).as_micros().max(1))
}

/// Requests a second as a value of a scenario file.
pub(crate) fn rate(per_second: f64) -> String {
    format!("{per_second:.4}/s")
}

/// Seconds for a description.
pub(crate) fn short(seconds: f64) -> String {
    match seconds {
        ..0.01 => format!("{:.1} ms", 1000.0 * seconds),
        ..1.0 => format!("{:.0} ms", 1000.0 * seconds),
        _ => format!("{seconds:.1} s"),
    }
}
