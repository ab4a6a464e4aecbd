//! Circles of imports between the files of a crate, and between the modules: none can be understood,
//! or changed, alone.
//!
//! A file imports another one if it names something that stands there, outside of tests, be it by
//! `use` or in the code. To give a name on (`pub use`) is no import, and who takes it from there
//! imports the file in which it stands. A module may name what the modules around it have: their
//! files state what their parts share.
//!
//! Of modules that stand beside each other one imports another if any of its parts does.

use std::collections::{BTreeMap, BTreeSet};

use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{Expr, Token};

use super::Finding;
use super::modules::{Index, Module, plain};

type Arrows = BTreeMap<String, BTreeSet<String>>;

/// The files of the crate at `root` that are in circles, and the modules.
pub(super) fn findings(root: &str, modules: &[Module]) -> Vec<Finding> {
    let (files, beside) = arrows(modules);
    let of_files = finding("circles", root, &files);
    of_files.into_iter().chain(finding("circles-of-modules", root, &beside)).collect()
}

fn finding(check: &'static str, root: &str, arrows: &Arrows) -> Option<Finding> {
    let reach: BTreeMap<&str, BTreeSet<&str>> =
        arrows.keys().map(|name| (&**name, reached(arrows, name))).collect();
    let circled: Vec<&str> =
        reach.iter().filter(|(name, far)| far.contains(*name)).map(|(name, _)| *name).collect();
    let mut details = Vec::new();
    for name in &circled {
        let comes_back =
            |to: &&str| reach.get(to).is_some_and(|far: &BTreeSet<&str>| far.contains(name));
        let back = arrows[*name].iter().map(String::as_str).filter(comes_back);
        details.push(format!("{name} -> {}", back.collect::<Vec<_>>().join(", ")));
    }
    let count = circled.len();
    (count > 0).then(|| Finding { check, place: root.to_owned(), count, details })
}

fn reached<'a>(arrows: &'a Arrows, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&str> = arrows.get(from).into_iter().flatten().map(String::as_str).collect();
    while let Some(name) = open.pop() {
        if reached.insert(name) {
            open.extend(arrows.get(name).into_iter().flatten().map(String::as_str));
        }
    }
    reached
}

/// Those between files, and those between modules that stand beside each other.
fn arrows(modules: &[Module]) -> (Arrows, Arrows) {
    let index = Index::new(modules);
    let (mut files, mut beside) = (Arrows::new(), Arrows::new());
    for module in modules {
        let mut names = Names { module, paths: Vec::new() };
        module.items.iter().for_each(|item| names.visit_item(item));
        let used = module.imports.iter().filter(|import| !import.is_export);
        let paths = used.map(|import| &import.path).chain(&names.paths);
        let around = index.files_around(module);
        for named in paths.filter_map(|path| index.module_of(module, path)) {
            if !around.contains(&&*named.file) {
                files.entry(module.file.clone()).or_default().insert(named.file.clone());
            }
            if let Some([from, to]) = parted(&module.path, &named.path) {
                beside.entry(from).or_default().insert(to);
            }
        }
    }
    (files, beside)
}

/// The modules beside each other in which two modules stand; none if one is around the other.
fn parted(one: &[String], other: &[String]) -> Option<[String; 2]> {
    let common = one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let is_beside = common < one.len() && common < other.len();
    is_beside.then(|| [one, other].map(|path| path[..=common].join("::")))
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
        let found = findings("a/src/lib.rs", &modules::read(&tree, "a/src/lib.rs").unwrap());
        let details: Vec<_> = found.into_iter().flat_map(|finding| finding.details).collect();
        assert_eq!(details, expected);
    }

    const BOTH: [&str; 4] =
        ["a/src/x.rs -> a/src/y.rs", "a/src/y.rs -> a/src/x.rs", "x -> y", "y -> x"];

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
    fn names_a_circle_of_modules_whose_files_are_in_none() {
        let root = ("a/src/lib.rs", "mod x; mod y;");
        let x = ("a/src/x/mod.rs", "mod in_use; mod user;");
        let in_use = ("a/src/x/in_use.rs", "pub struct X;");
        let user = ("a/src/x/user.rs", "use crate::y::Y;");
        let y = ("a/src/y.rs", "pub struct Y(crate::x::in_use::X);");
        check(&[root, x, in_use, user, y], &["x -> y", "y -> x"]);
        check(&[root, x, in_use, user, ("a/src/y.rs", "pub struct Y;")], &[]);
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
