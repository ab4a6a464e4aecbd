//! Pairs of a route and a class, and the classes of the stage that they become.

use std::collections::{HashMap, HashSet};

use tamarisk_control::{
    CLASSES_MAX, Class, ClassId, Classes, InvalidClasses, Priority, Target, Weight,
};

/// What requests of a class are promised on a route.
pub(super) struct Pair {
    /// What the pair is called if it has a class of the stage to itself.
    pub(super) name: String,
    pub(super) class: String,
    pub(super) target: Target,
    pub(super) priority: Priority,
    pub(super) weight: Option<Weight>,
}

impl Pair {
    /// What the stage's law is told of the pair.
    fn promise(&self) -> String {
        let Self { target, priority: Priority(priority), weight, .. } = self;
        let weight = weight.map_or(String::new(), |weight| format!(", weight {}", weight.get()));
        format!("{target}, priority {priority}{weight}")
    }
}

/// The classes of a stage for these pairs, and the class of each: one to itself as long as there
/// are enough. Then routes share the classes of the file; and if these are too many, all pairs with
/// the same promise share one.
///
/// # Errors
/// [`InvalidClasses`]: two pairs have the same name, or there are too many promises.
pub(super) fn classes_of(pairs: &[Pair]) -> Result<(Classes, Vec<ClassId>), InvalidClasses> {
    let mut names = HashSet::new();
    if let Some(pair) = pairs.iter().find(|pair| !names.insert(&*pair.name)) {
        return Err(InvalidClasses::Duplicate(pair.name.clone()));
    }
    let mut target_of = HashMap::new();
    let mut have_several = HashSet::new();
    for Pair { class, target, .. } in pairs {
        if target_of.insert(class, target).is_some_and(|other| other != target) {
            have_several.insert(class);
        }
    }
    let by_pair = |pair: &Pair| pair.name.clone();
    let by_class = |pair: &Pair| match have_several.contains(&pair.class) {
        true => format!("{} {}", pair.class, pair.target),
        false => pair.class.clone(),
    };
    let groupings: [&dyn Fn(&Pair) -> String; 3] = [&by_pair, &by_class, &Pair::promise];
    let groups = groupings.map(|name| Groups::of(pairs, name));
    let promises = groups[2].names.len();
    let fits = |groups: &Groups| groups.names.len() <= CLASSES_MAX;
    let Some(Groups { names, places }) = groups.into_iter().find(fits) else {
        return Err(InvalidClasses::Count(promises));
    };
    let mut classes = Vec::with_capacity(names.len());
    let mut weights = Vec::new();
    for (Pair { target, priority, weight, .. }, place) in pairs.iter().zip(&places) {
        if *place == classes.len() {
            let id = ClassId::new(*place);
            weights.extend(weight.map(|weight| (id, weight)));
            classes.push(Class {
                name: names[*place].clone(),
                target: *target,
                priority: *priority,
            });
        }
    }
    let weighted = |classes: Classes, (id, weight)| classes.weighted(id, weight);
    let classes = weights.into_iter().fold(Classes::new(classes)?, weighted);
    Ok((classes, places.into_iter().map(ClassId::new).collect()))
}

/// Pairs that share a class.
struct Groups {
    /// The name of each class, in the order in which the pairs bring them.
    names: Vec<String>,
    /// The class of each pair, by its position.
    places: Vec<usize>,
}

impl Groups {
    /// Pairs of the same `name` share a class.
    fn of(pairs: &[Pair], name: &dyn Fn(&Pair) -> String) -> Self {
        let (mut known, mut names) = (HashMap::new(), Vec::new());
        let place = |pair| {
            let name = name(pair);
            *known.entry(name.clone()).or_insert_with(|| {
                names.push(name);
                names.len() - 1
            })
        };
        let places = pairs.iter().map(place).collect();
        Self { names, places }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn pair(route: usize, class: usize, ms: u64) -> Pair {
        Pair {
            name: format!("r{route}/c{class}"),
            class: format!("c{class}"),
            target: Target::p90(Duration::from_millis(ms)).unwrap(),
            priority: Priority(class as u8 % 3),
            weight: Weight::new(class as u8 % 5).ok(),
        }
    }

    /// The names of the stage's classes for these pairs.
    fn names(pairs: &[Pair]) -> Vec<String> {
        let (classes, ids) = classes_of(pairs).unwrap();
        for (pair, id) in pairs.iter().zip(&ids) {
            let class = classes.at(*id);
            assert_eq!((class.target, class.priority), (pair.target, pair.priority));
            assert_eq!(classes.weight(*id), pair.weight);
        }
        classes.iter().map(|(_, class)| class.name.clone()).collect()
    }

    fn pairs(routes: usize, classes: usize, ms: impl Fn(usize, usize) -> u64) -> Vec<Pair> {
        let each = |route| (0..classes).map(move |class| (route, class));
        (0..routes).flat_map(each).map(|(r, c)| pair(r, c, ms(r, c))).collect()
    }

    #[test]
    fn pairs_have_a_class_each_as_long_as_there_are_enough() {
        let names = names(&pairs(16, 4, |_, _| 100));
        assert_eq!((names.len(), &*names[0], &*names[63]), (64, "r0/c0", "r15/c3"));
    }

    #[test]
    fn routes_share_the_classes_of_the_file_where_there_are_not() {
        assert_eq!(names(&pairs(1_000, 3, |_, class| 100 + class as u64)), ["c0", "c1", "c2"]);
        let two_targets =
            pairs(1_000, 2, |route, class| if route == 7 && class == 1 { 5 } else { 9 });
        assert_eq!(names(&two_targets), ["c0", "c1 p90 9 ms", "c1 p90 5 ms"]);
    }

    #[test]
    fn pairs_with_the_same_promise_share_a_class_where_the_file_has_too_many() {
        let names = names(&pairs(2, 5_000, |_, _| 100));
        assert_eq!((names.len(), &*names[0]), (15, "p90 100 ms, priority 0"));
        assert_eq!(names[1], "p90 100 ms, priority 1, weight 1");
    }

    #[test]
    fn too_many_promises_are_an_error() {
        let many = pairs(100, 1, |route, _| 100 + route as u64);
        assert_eq!(classes_of(&many).unwrap_err(), InvalidClasses::Count(100));
        let twice = [pair(0, 0, 1), pair(0, 0, 2)];
        assert_eq!(classes_of(&twice).unwrap_err(), InvalidClasses::Duplicate("r0/c0".to_owned()));
    }
}
