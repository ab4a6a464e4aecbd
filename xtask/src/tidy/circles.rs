//! Circles of imports between the files of a crate: none can be understood, or changed, alone.
//!
//! A file imports another one if it names something that stands there, outside of tests, be it by
//! `use` or in the code. To give a name on (`pub use`) is no import, and who takes it from there
//! imports the file in which it stands. A module may name what the modules around it have: their
//! files state what their parts share.

use std::collections::{BTreeMap, BTreeSet};

use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Expr, Token};

use super::Finding;
use super::modules::{Index, Module, plain};

type Arrows<'a> = BTreeMap<&'a str, BTreeSet<&'a str>>;

/// The files of the crate at `root` that are in circles.
pub(super) fn finding(root: &str, modules: &[Module]) -> Option<Finding> {
    let arrows = arrows(modules);
    let reach: Arrows = arrows.keys().map(|file| (*file, reached(&arrows, file))).collect();
    let circled: Vec<&str> =
        reach.iter().filter(|(file, far)| far.contains(*file)).map(|(file, _)| *file).collect();
    let mut details = Vec::new();
    for file in &circled {
        let back =
            arrows[file].iter().filter(|to| reach.get(*to).is_some_and(|far| far.contains(file)));
        details.push(format!("{file} -> {}", back.copied().collect::<Vec<_>>().join(", ")));
    }
    let count = circled.len();
    (count > 0).then(|| Finding { check: "circles", place: root.to_owned(), count, details })
}

fn reached<'a>(arrows: &Arrows<'a>, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = arrows.get(from).into_iter().flatten().copied().collect();
    while let Some(file) = open.pop() {
        if reached.insert(file) {
            open.extend(arrows.get(file).into_iter().flatten());
        }
    }
    reached
}

fn arrows(modules: &[Module]) -> Arrows<'_> {
    let index = Index::new(modules);
    let mut arrows = Arrows::new();
    for module in modules {
        let mut names = Names { module, paths: Vec::new() };
        module.items.iter().for_each(|item| names.visit_item(item));
        let used = module.imports.iter().filter(|import| !import.is_export);
        let paths = used.map(|import| &import.path).chain(&names.paths);
        let around = index.files_around(module);
        for file in paths.filter_map(|path| index.file_of(module, path)) {
            if !around.contains(&file) {
                arrows.entry(module.file.as_str()).or_default().insert(file);
            }
        }
    }
    arrows
}

/// The paths in a module's code.
struct Names<'a> {
    module: &'a Module,
    paths: Vec<Vec<String>>,
}

impl Visit<'_> for Names<'_> {
    fn visit_path(&mut self, path: &syn::Path) {
        let mut names: Vec<String> = path.segments.iter().map(|part| plain(&part.ident)).collect();
        // A name that is given on may be used here, too.
        let given_on = self
            .module
            .imports
            .iter()
            .find(|import| import.is_export && import.name.as_ref() == names.first());
        if let Some(import) = given_on {
            names.splice(..1, import.path.iter().cloned());
        }
        self.paths.push(names);
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, called: &syn::Macro) {
        // Most macros take expressions, as `format!` does; the code of others is not seen.
        let arguments = called.parse_body_with(Punctuated::<Expr, Token![,]>::parse_terminated);
        arguments.iter().flatten().for_each(|argument| self.visit_expr(argument));
        visit::visit_macro(self, called);
    }

    fn visit_item_mod(&mut self, _tests: &syn::ItemMod) {}
}

#[cfg(test)]
mod tests {
    use super::super::{modules, tree};
    use super::*;

    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let tree = tree(files);
        let found = finding("a/src/lib.rs", &modules::read(&tree, "a/src/lib.rs").unwrap());
        let details = found.map(|finding| finding.details).unwrap_or_default();
        assert_eq!(details, expected);
    }

    const BOTH: [&str; 2] = ["a/src/x.rs -> a/src/y.rs", "a/src/y.rs -> a/src/x.rs"];

    #[test]
    fn names_a_circle_and_only_what_is_in_it() {
        let root = ("a/src/lib.rs", "mod x; mod y; mod z; pub use x::X; pub use y::Y;");
        let z = ("a/src/z.rs", "use crate::x::X; fn z(_: crate::y::Y) {}");
        let x = ("a/src/x.rs", "use super::y::{self, Y}; pub struct X(Y);");
        check(&[root, x, z, ("a/src/y.rs", "pub struct Y(u8);")], &[]);
        check(&[root, x, z, ("a/src/y.rs", "pub struct Y(crate::x::X);")], &BOTH);
        // By the root, which gives the name on, and inside of a macro.
        check(&[root, x, z, ("a/src/y.rs", "pub struct Y; use crate::X;")], &BOTH);
        check(&[root, x, z, ("a/src/y.rs", "fn y() { vec![1, super::x::X::new()] }")], &BOTH);
    }

    #[test]
    fn tests_may_name_what_they_like() {
        let root = ("a/src/lib.rs", "mod x; mod y;");
        let x = ("a/src/x.rs", "use crate::y::Y;");
        check(&[root, x, ("a/src/y.rs", "#[cfg(test)] mod tests { use crate::x::X; }")], &[]);
    }

    #[test]
    fn a_module_may_name_what_those_around_it_have() {
        let root = ("a/src/lib.rs", "mod x; pub struct Root(x::X);");
        let x = ("a/src/x/mod.rs", "mod y; use super::Root; pub struct X(y::Y);");
        check(&[root, x, ("a/src/x/y.rs", "use crate::Root; pub struct Y(super::X);")], &[]);
    }
}
