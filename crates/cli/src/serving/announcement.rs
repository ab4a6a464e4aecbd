//! What is said at the start: what is served where, what is promised, and by which law.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tamarisk_plot::format;
use tamarisk_proxy::{UNNAMED, Upstream};
use tamarisk_stage::{ClassObservation, StageObservation};

use super::counted;

/// More upstreams are counted only: a line each would hide what comes after them.
const NAMED_MAX: usize = 8;

/// What is done for the clients.
pub(crate) enum Doing {
    /// Overload control before upstreams.
    Protecting,
    /// A folder is served, or what this file describes.
    Serving(PathBuf),
}

/// The lines about a service at this address.
pub(super) fn lines(
    doing: &Doing,
    scheme: &str,
    address: SocketAddr,
    upstreams: &[Arc<Upstream>],
) -> Vec<String> {
    let (at, version) = (format!("at {scheme}://{address}"), env!("CARGO_PKG_VERSION"));
    let mut lines = Vec::new();
    match (doing, upstreams) {
        (Doing::Protecting, [only]) => {
            let (seen, name) = (only.gate().observe(), only.shown());
            let name =
                if seen.name == UNNAMED { format!("http://{name}") } else { name.to_owned() };
            let (promise, law) = (promise(&seen), seen.law);
            return vec![format!("Protecting {name} {at}: {promise} ({law}, tamarisk {version})")];
        }
        (Doing::Protecting, all) => {
            let all = counted(all.len(), "upstream");
            lines.push(format!("Protecting {all} {at} (tamarisk {version})"));
        }
        (Doing::Serving(place), _) => {
            lines.push(format!("Serving {} {at} (tamarisk {version})", place.display()));
        }
    }
    lines.extend(upstreams.iter().take(NAMED_MAX).map(|upstream| {
        let seen = upstream.gate().observe();
        format!("{}: {} ({})", upstream.shown(), promise(&seen), seen.law)
    }));
    if let Some(others @ 1..) = upstreams.len().checked_sub(NAMED_MAX) {
        lines.push(format!("and {} more", counted(others, "upstream")));
    }
    lines
}

/// `90 % of answers within 200 ms`; of classes whose targets differ, that of each.
fn promise(stage: &StageObservation) -> String {
    let target = |class: &ClassObservation| (class.percentile, class.target);
    let is_one = stage.classes.iter().all(|class| target(class) == target(&stage.classes[0]));
    let within = |class: &ClassObservation, of: &str| {
        let percent = format::rate(100.0 * class.percentile.get());
        format!("{percent} %{of} within {}", format::seconds(class.target.as_secs_f64()))
    };
    if is_one {
        return within(&stage.classes[0], " of answers");
    }
    let each = stage.classes.iter().map(|class| format!("{:?} {}", class.name, within(class, "")));
    each.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tamarisk_control::{Class, Classes, Priority, Target};
    use tamarisk_stage::StageBuilder;

    use super::*;

    fn upstream(name: &str, origin: &str, p90: [u64; 2]) -> Arc<Upstream> {
        let target = |millis| Target::p90(Duration::from_millis(millis)).unwrap();
        let [gold, free] = p90.map(target);
        let class = |(name, target): (&str, Target)| Class {
            name: name.to_owned(),
            target,
            priority: Priority::default(),
        };
        let classes = Classes::new([("gold", gold), ("free", free)].map(class).into());
        let gate = StageBuilder::new(name).classes(classes.unwrap()).workers(1).gate().unwrap();
        Arc::new(Upstream::new(&origin.parse().unwrap(), gate))
    }

    #[tokio::test]
    async fn the_start_says_what_is_protected_where_and_what_is_promised() {
        let address = SocketAddr::from(([127, 0, 0, 1], 8080));
        let version = env!("CARGO_PKG_VERSION");
        let one = [upstream("upstream", ":3000", [200, 200])];
        assert_eq!(
            lines(&Doing::Protecting, "http", address, &one),
            [format!(
                "Protecting http://127.0.0.1:3000 at http://127.0.0.1:8080: 90 % of answers within \
                 200 ms (predict-gate-trim, tamarisk {version})"
            )]
        );
        let two = [one[0].clone(), upstream("shop", "shop:80", [100, 1500])];
        assert_eq!(
            lines(&Doing::Protecting, "https", address, &two),
            [
                format!("Protecting 2 upstreams at https://127.0.0.1:8080 (tamarisk {version})"),
                "127.0.0.1:3000: 90 % of answers within 200 ms (predict-gate-trim)".to_owned(),
                "\"shop\" (shop:80): \"gold\" 90 % within 100 ms, \"free\" 90 % within 1.5 s \
                 (predict-gate-trim)"
                    .to_owned(),
            ]
        );
        let folder = Doing::Serving("./public".into());
        assert_eq!(
            lines(&folder, "http", address, &[]),
            [format!("Serving ./public at http://127.0.0.1:8080 (tamarisk {version})")]
        );
    }
}
