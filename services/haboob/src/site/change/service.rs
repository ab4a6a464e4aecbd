//! What changes of a service behind a route.

use tamarisk_laws::{Coordination, Laws, Named};
use tamarisk_service::OverflowOptions;

use super::{Changes, none};
use crate::site::options::ProxyOptions;

pub(super) fn of_service(now: &ProxyOptions, new: &ProxyOptions, changes: &mut Changes) {
    let [before, after] = [now, new].map(|proxy| &proxy.upstream);
    for key in before.changed_keys(after) {
        let name = if key == "url" { "proxy" } else { key };
        match [before.value(key), after.value(key)] {
            [Some(from), Some(to)] => changes.add_values(name, &from, &to),
            _ => changes.add(name.to_owned()),
        }
    }
    if before.overflow() != after.overflow() {
        let beside = |one: Option<&OverflowOptions>, other| {
            one.map_or_else(none, |overflow| overflow.beside(other))
        };
        let from = beside(before.overflow(), after.overflow());
        let to = beside(after.overflow(), before.overflow());
        changes.add_values("overflow", &from, &to);
    }
    of_classes(now, new, changes);
    changes.compare("streams", [&now.route.streams, &new.route.streams], ToString::to_string);
    of_laws(&before.ruling(), &after.ruling(), changes);
}

/// Targets are told in full, all else of classes is not.
fn of_classes(now: &ProxyOptions, new: &ProxyOptions, changes: &mut Changes) {
    let [before, after] = [now, new].map(|proxy| &proxy.upstream.classes);
    for (_, class) in after.iter() {
        let Some(id) = before.named(&class.name) else { continue };
        let key = format!("the target of {:?}", class.name);
        changes.compare(&key, [&before.at(id).target, &class.target], ToString::to_string);
    }
    let mut with_targets = before.clone();
    after.iter().for_each(|(id, class)| with_targets.set_target(id, class.target));
    let is_same = with_targets == *after
        && now.route.classes == new.route.classes
        && now.route.otherwise == new.route.otherwise;
    if !is_same {
        changes.add("classes".to_owned());
    }
}

fn of_laws(now: &Laws, new: &Laws, changes: &mut Changes) {
    // Every field is listed, so that one more is not forgotten.
    let Laws { admission, dropping, workers, batching, quality, termination, coordination } = now;
    of_law("admission", [admission, &new.admission], changes);
    of_law("dropping", [dropping, &new.dropping], changes);
    of_law("workers", [workers, &new.workers], changes);
    of_law("batching", [batching, &new.batching], changes);
    of_law("quality", [quality, &new.quality], changes);
    of_law("termination", [termination, &new.termination], changes);
    let name = |coordination: &Coordination| coordination.name().to_owned();
    changes.compare("coordination", [coordination, &new.coordination], name);
}

/// Another law, or the constants of the same one.
fn of_law<L: ?Sized>(kind: &str, laws: [&Option<Named<L>>; 2], changes: &mut Changes) {
    let [now, new] = laws.map(|law| law.as_ref().map_or("none", Named::name));
    changes.compare(kind, [&now, &new], ToString::to_string);
    if let [Some(before), Some(after)] = laws
        && now == new
    {
        for ((constant, value), (_, other)) in before.knobs().zip(after.knobs()) {
            let key = format!("{constant} of {kind}");
            changes.compare(&key, [&value, &other], ToString::to_string);
        }
    }
}
