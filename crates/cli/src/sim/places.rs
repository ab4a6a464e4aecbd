//! Chooses the stages at which laws are compared.

use tamarisk_control::AdmissionLaw;
use tamarisk_laws::{Laws, Named};
use tamarisk_model::scenario::File;

/// Stages and their laws.
pub(super) type Places = Vec<(String, Laws)>;

/// The stages that name laws, else those where clients enter.
pub(super) fn places(file: &File) -> Places {
    match file.laws.is_empty() {
        true => entries(file).into_iter().map(|entry| (entry, Laws::new())).collect(),
        false => file.laws.clone(),
    }
}

/// The laws of a scenario with `law` in place of all that reject or drop; where there are none, it
/// stands where clients enter.
pub(super) fn compared(file: &File, law: &Named<dyn AdmissionLaw>) -> Places {
    let mut places = file.laws.clone();
    let mut is_placed = false;
    for (_, laws) in &mut places {
        if laws.admission.is_some() || laws.dropping.is_some() {
            (laws.admission, laws.dropping) = (Some(law.clone()), None);
            is_placed = true;
        }
    }
    if is_placed {
        return places;
    }
    for entry in entries(file) {
        let known = places.iter().position(|(stage, _)| *stage == entry);
        let known = known.unwrap_or_else(|| {
            places.push((entry, Laws::new()));
            places.len() - 1
        });
        places[known].1.admission = Some(law.clone());
    }
    places
}

/// The stages where clients enter.
fn entries(file: &File) -> Vec<String> {
    let mut entries: Vec<_> = file.scenario.clients.iter().map(|c| c.entry.clone()).collect();
    entries.sort_unstable();
    entries.dedup();
    entries
}

#[cfg(test)]
mod tests {
    use tamarisk_catalogue::admission;
    use tamarisk_model::scenario;

    use super::*;

    /// Where a compared law stands, if these are the laws of two stages.
    fn stages(front: &str, behind: &str) -> Vec<String> {
        let text = format!(
            "duration = \"1s\"\np90 = \"1s\"\n\
             [stages.front]\nservice = \"1ms\"\nworkers = 1\nto = {{ db = 1.0 }}\n{front}\n\
             [stages.db]\nservice = \"1ms\"\n{behind}\n\
             [clients.crowd]\nopen = \"1/s\"\nenter = \"front\"\n"
        );
        let file = scenario::parse("two stages", &text).unwrap();
        let law = admission("codel").unwrap().named();
        let compared = compared(&file, &law);
        let has_it = |laws: &Laws| laws.admission.as_ref().is_some_and(|it| it.name() == "codel");
        compared.into_iter().filter(|(_, laws)| has_it(laws)).map(|(stage, _)| stage).collect()
    }

    #[test]
    fn a_law_stands_where_one_rejects_and_else_where_clients_enter() {
        let slow = "workers = { law = \"pool-sizing\" }\ncoordination = \"independent\"";
        assert_eq!(stages("", "workers = 1"), ["front"]);
        assert_eq!(stages("", slow), ["front"]);
        assert_eq!(stages("", "workers = 1\nadmission = \"vegas\""), ["db"]);
        assert_eq!(stages("admission = \"vegas\"", slow), ["front"]);
    }
}
