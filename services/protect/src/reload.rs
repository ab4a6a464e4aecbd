//! Reload: applies a changed configuration to running protection.

use std::collections::BTreeSet;

use tamarisk_proxy::Upstream;
use tamarisk_service::{Reloaded, UpstreamOptions};
use tamarisk_stage::{LawObservation, StageObservation};

use crate::options::Options;
use crate::running::Running;

impl Running {
    /// Takes targets, laws, overflows and certificates over from `options`. Nobody inside is disturbed, and a
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
        let changed = now.changed_keys(new).map(|key| format!("{key} of {name:?}"));
        reloaded.needs_restart.extend(changed);

        let mut targets = Vec::new();
        for (id, class) in gate.classes().iter() {
            let Some(other) = new.classes.named(&class.name) else {
                reloaded.needs_restart.push(format!("the class {:?} of {name:?}", class.name));
                continue;
            };
            let weights = [gate.classes().weight(id), new.classes.weight(other)];
            let other = new.classes.at(other);
            let same = [
                ("priority", other.priority == class.priority),
                ("weight", weights[0] == weights[1]),
            ];
            let differs = same.iter().filter(|(_, same)| !same);
            let differs =
                differs.map(|(key, _)| format!("the {key} of {:?} of {name:?}", class.name));
            reloaded.needs_restart.extend(differs);
            if other.target != class.target {
                targets.push((id, other.target));
                reloaded.changed.push(format!(
                    "the target of {:?} of {name:?} from {} to {}",
                    class.name, class.target, other.target
                ));
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
    let changed = now.clone().with_overflow(new.overflow().cloned());
    // It may be where the service is until the next start.
    let changed = changed.map_err(|error| error.to_string()).and_then(|changed| {
        let set = changed.set_overflow(upstream);
        set.map_err(|error| format!("{what} ({error})")).map(|()| changed)
    });
    match changed {
        Ok(changed) => {
            *now = changed;
            reloaded.changed.push(what);
        }
        Err(error) => reloaded.needs_restart.push(error),
    }
}

/// Which laws have come in place of which: ` (admission from a to b)`. Nothing, if only their constants
/// differ.
fn changed_laws(before: &StageObservation, now: &StageObservation) -> String {
    // Beside a law that is named stand others that change nothing.
    let changes_nothing = |law: &LawObservation| {
        matches!(
            (law.rules, law.name),
            ("batching", "fixed") | ("quality", "full") | ("termination", "deadline")
        )
    };
    let named = |seen: &StageObservation, rules: &str| {
        let law = seen.laws.iter().find(|law| law.rules == rules && !changes_nothing(law));
        law.map_or("none", |law| law.name)
    };
    let rules = before.laws.iter().chain(&now.laws).map(|law| law.rules);
    let rules: BTreeSet<_> = rules.collect();
    let changes = rules.into_iter().filter_map(|rules| {
        let (before, now) = (named(before, rules), named(now, rules));
        (before != now).then(|| format!("{rules} from {before} to {now}"))
    });
    let changes: Vec<_> = changes.collect();
    if changes.is_empty() { String::new() } else { format!(" ({})", changes.join(", ")) }
}
