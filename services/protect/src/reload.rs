//! Reload: applies a changed configuration to running protection.

use std::collections::BTreeSet;

use tamarisk_control::Weight;
use tamarisk_proxy::Upstream;
use tamarisk_service::{OverflowOptions, Reloaded, UpstreamOptions};
use tamarisk_stage::{LawObservation, StageObservation};

use crate::options::Options;
use crate::running::Running;

impl Running {
    /// Takes targets, laws, overflows and certificates over from `options`. No request inside is disturbed, and a
    /// stage whose laws stay the same keeps what they have learned. Everything else that
    /// differs is named, and stays as it was.
    ///
    /// Targets become those of `options`, also where they were changed meanwhile.
    pub fn reload(&mut self, options: &Options) -> Reloaded {
        let mut reloaded = Reloaded::default();
        self.compare(options, &mut reloaded);
        for index in 0..self.options.upstreams.len() {
            self.reload_upstream(index, options, &mut reloaded);
        }
        self.front.renew_status();
        if self.options.error_pages.replace(&options.error_pages) {
            reloaded.changed.push("the error pages".to_owned());
        }
        reloaded.certificates(self.options.front.tls.as_ref(), options.front.tls.as_ref());
        reloaded
    }

    /// Names what cannot change on the way.
    fn compare(&self, options: &Options, reloaded: &mut Reloaded) {
        let now = &self.options;
        now.front.compare(&options.front, reloaded);
        reloaded.compare(&[
            ("trusted_proxies", now.trusted == options.trusted),
            ("routes and classes", now.routes == options.routes),
            ("log", now.log == options.log),
        ]);
        let trusted = [now, options].map(|it| Some(format!("{:?}", it.trusted)));
        reloaded.keep_values("trusted_proxies", trusted);
        let logs = [now, options].map(|it| it.log.as_ref().map(|log| &log.to));
        reloaded.keep_values("log", logs.map(|log| Some(or_none(log))));
        for new in &options.upstreams {
            if !now.upstreams.iter().any(|upstream| upstream.name == new.name) {
                reloaded.needs_restart.push(format!("the upstream {:?} (new)", new.name));
            }
        }
    }

    fn reload_upstream(&mut self, index: usize, options: &Options, reloaded: &mut Reloaded) {
        let now = &mut self.options.upstreams[index];
        let (name, upstream) = (now.name.clone(), &self.upstreams[index]);
        let gate = upstream.gate();
        let Some(new) = options.upstreams.iter().find(|upstream| upstream.name == name) else {
            reloaded.needs_restart.push(format!("the upstream {name:?} (removed)"));
            return;
        };
        for key in now.changed_keys(new) {
            let what = format!("{key} of {name:?}");
            reloaded.keep_values(&what, [now.value(key), new.value(key)]);
            reloaded.needs_restart.push(what);
        }

        let mut targets = Vec::new();
        for (id, class) in gate.classes().iter() {
            let Some(other) = new.classes.named(&class.name) else {
                reloaded.needs_restart.push(format!("the class {:?} of {name:?}", class.name));
                continue;
            };
            let weights = [gate.classes().weight(id), new.classes.weight(other)];
            let other = new.classes.at(other);
            let values = [
                ("priority", [class, other].map(|class| class.priority.0.to_string())),
                ("weight", weights.map(|weight| or_none(weight.map(Weight::get)))),
            ];
            for (key, [from, to]) in values.into_iter().filter(|(_, [from, to])| from != to) {
                let what = format!("the {key} of {:?} of {name:?}", class.name);
                reloaded.keep_values(&what, [Some(from), Some(to)]);
                reloaded.needs_restart.push(what);
            }
            if other.target != class.target {
                targets.push((id, other.target));
                let what = match &*class.name {
                    "default" => format!("{name:?}"),
                    class => format!("{class:?} of {name:?}"),
                };
                reloaded.changed.push(format!("{what}: {} → {}", class.target, other.target));
            }
        }
        upstream.gates().for_each(|gate| gate.set_targets(&targets));
        reload_overflow(now, new, upstream, reloaded);
        if now.laws == new.laws {
            return;
        }
        let before = gate.observe();
        match gate.set_laws(new.ruling()) {
            Ok(()) => {
                upstream.tell_quality(new.laws.quality.is_some());
                now.laws = new.laws.clone();
                let changes = changed_laws(&before, &gate.observe());
                reloaded.changed.push(format!("the laws of {name:?}{changes}"));
            }
            Err(error) => reloaded.needs_restart.push(error.to_string()),
        }
    }
}

/// Sends what the stage of `upstream` rejects to the overflow of `new`, in place of that of `now`.
fn reload_overflow(
    now: &mut UpstreamOptions,
    new: &UpstreamOptions,
    upstream: &Upstream,
    reloaded: &mut Reloaded,
) {
    if now.overflow() == new.overflow() {
        return;
    }
    let what = format!("the overflow of {:?}", now.name);
    let beside = |one: Option<&OverflowOptions>, other| or_none(one.map(|it| it.beside(other)));
    let values =
        [beside(now.overflow(), new.overflow()), beside(new.overflow(), now.overflow())].map(Some);
    let changed = now.clone().with_overflow(new.overflow().cloned());
    // It may be where the service is until the next start.
    let changed = changed.map_err(|error| error.to_string()).and_then(|changed| {
        let set = changed.set_overflow(upstream);
        set.map_err(|error| format!("{what} ({error})")).map(|()| changed)
    });
    match changed {
        Ok(changed) => {
            *now = changed;
            reloaded.keep_values(&what, values);
            reloaded.changed.push(what);
        }
        Err(error) => reloaded.needs_restart.push(error),
    }
}

/// Which laws have come in place of which, and which of their constants have changed:
/// ` (admission: a → b, workers_count of workers: 2 → 4)`.
fn changed_laws(before: &StageObservation, now: &StageObservation) -> String {
    // Beside a law that is named stand others that change nothing.
    let changes_nothing = |law: &LawObservation| {
        matches!(
            (law.rules, law.name),
            ("batching", "fixed") | ("quality", "full") | ("termination", "deadline")
        )
    };
    let law = |seen: &StageObservation, rules: &str| {
        let law = seen.laws.iter().find(|law| law.rules == rules && !changes_nothing(law));
        law.map_or(("none", Vec::new()), |law| (law.name, law.knobs.clone()))
    };
    let rules = before.laws.iter().chain(&now.laws).map(|law| law.rules);
    let rules: BTreeSet<_> = rules.collect();
    let mut changes = Vec::new();
    for rules in rules {
        let ((before, constants), (now, new_constants)) = (law(before, rules), law(now, rules));
        if before != now {
            changes.push(format!("{rules}: {before} → {now}"));
            continue;
        }
        // Those of one law come in one order.
        let both = constants.into_iter().zip(new_constants);
        let differ = both.filter(|((_, from), (_, to))| from != to);
        changes.extend(
            differ.map(|((name, from), (_, to))| format!("{name} of {rules}: {from} → {to}")),
        );
    }
    if changes.is_empty() { String::new() } else { format!(" ({})", changes.join(", ")) }
}

/// A value as a line shows it.
fn or_none(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}
