//! Types that share a name in a crate: a name has one meaning.

use std::collections::BTreeMap;

use syn::{Ident, Item};

use super::Finding;
use super::modules::Module;

/// The names that more than one type of the crate at `root` has, whoever may use it.
pub(super) fn finding(root: &str, modules: &[Module]) -> Option<Finding> {
    // One for each module: a second type there is for another configuration.
    let mut places: BTreeMap<String, BTreeMap<&[String], &str>> = BTreeMap::new();
    for module in modules {
        for name in module.items.iter().filter_map(type_name) {
            places.entry(name.to_string()).or_default().insert(&module.path, &module.file);
        }
    }
    places.retain(|_, files| files.len() > 1);
    let count = places.len();
    let details = places.into_iter().map(|(name, files)| {
        format!("{name}: {}", files.into_values().collect::<Vec<_>>().join(", "))
    });
    let details: Vec<String> = details.collect();
    (count > 0).then(|| Finding { check: "names", place: root.to_owned(), count, details })
}

fn type_name(item: &Item) -> Option<&Ident> {
    match item {
        Item::Struct(item) => Some(&item.ident),
        Item::Enum(item) => Some(&item.ident),
        Item::Union(item) => Some(&item.ident),
        Item::Trait(item) => Some(&item.ident),
        Item::Type(item) => Some(&item.ident),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{modules, tree};
    use super::*;

    #[test]
    fn a_types_name_stands_once_in_a_crate() {
        let root = "a/src/lib.rs";
        let tree = tree(&[
            (
                root,
                "mod x; mod y; pub use x::Stage; #[cfg(a)] pub struct Z; #[cfg(b)] pub struct Z;",
            ),
            (
                "a/src/x.rs",
                "pub struct Stage; struct Own; #[cfg(test)] mod tests { pub struct Line; }",
            ),
            ("a/src/y/mod.rs", "pub(crate) enum Stage {} pub(super) struct Own; pub struct Line;"),
        ]);
        let found = finding(root, &modules::read(&tree, root).unwrap()).unwrap();
        assert_eq!(
            found.details,
            ["Own: a/src/x.rs, a/src/y/mod.rs", "Stage: a/src/x.rs, a/src/y/mod.rs"]
        );
    }
}
