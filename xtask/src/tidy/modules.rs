//! The modules of a crate: what each file declares, and which names it gives on.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use syn::{Attribute, Ident, Item, UseTree};

use super::Tree;

/// A module outside of tests; more than one may stand in a file.
pub(super) struct Module {
    /// Its names from the crate's root on.
    pub(super) path: Vec<String>,
    pub(super) file: String,
    pub(super) items: Vec<Item>,
    /// What names of other modules are called here.
    pub(super) imports: Vec<Import>,
}

/// One name that a `use` brings into a module.
pub(super) struct Import {
    /// The name here; none for all names of a module.
    pub(super) name: Option<String>,
    /// As written.
    pub(super) path: Vec<String>,
    /// It is given on to others rather than used.
    pub(super) is_export: bool,
}

/// Whether `path` is the root file of a library or a program.
pub(super) fn is_root(path: &str) -> bool {
    path.ends_with("/src/lib.rs") || path.ends_with("/src/main.rs") || {
        let parts = path.rsplit_once('/');
        parts.is_some_and(|(folder, _)| folder.ends_with("/src/bin"))
    }
}

/// The modules of the crate whose root file is `root`.
///
/// # Errors
/// If a file is missing or is not Rust.
pub(super) fn read(tree: &Tree, root: &str) -> Result<Vec<Module>> {
    let mut modules = Vec::new();
    let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder);
    read_file(tree, root, folder, Vec::new(), &mut modules)?;
    Ok(modules)
}

fn read_file(
    tree: &Tree,
    file: &str,
    folder: &str,
    path: Vec<String>,
    modules: &mut Vec<Module>,
) -> Result<()> {
    let text = tree.get(file).with_context(|| format!("{file} is not there"))?;
    let parsed = syn::parse_file(text).with_context(|| file.to_owned())?;
    add(tree, file, folder, path, parsed.items, modules)
}

fn add(
    tree: &Tree,
    file: &str,
    folder: &str,
    path: Vec<String>,
    items: Vec<Item>,
    modules: &mut Vec<Module>,
) -> Result<()> {
    let (mut kept, mut imports) = (Vec::new(), Vec::new());
    for item in items {
        match item {
            Item::Mod(module) if is_left_out(&module.attrs) => {}
            Item::Mod(module) => {
                let name = plain(&module.ident);
                let path = [&path[..], std::slice::from_ref(&name)].concat();
                let inner = format!("{folder}/{name}");
                if let Some((_, items)) = module.content {
                    add(tree, file, &inner, path, items, modules)?;
                } else {
                    let beside = format!("{inner}.rs");
                    let inside = format!("{inner}/mod.rs");
                    let file = if tree.contains_key(&beside) { beside } else { inside };
                    read_file(tree, &file, &inner, path, modules)?;
                }
            }
            Item::Use(item) if is_left_out(&item.attrs) => {}
            Item::Use(item) => {
                let is_export = !matches!(item.vis, syn::Visibility::Inherited);
                flatten(&item.tree, &mut Vec::new(), is_export, &mut imports);
            }
            item => kept.push(item),
        }
    }
    modules.push(Module { path, file: file.to_owned(), items: kept, imports });
    Ok(())
}

/// Only for tests, or a file that another crate owns.
fn is_left_out(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        let is_test = |list: &syn::MetaList| list.tokens.to_string() == "test";
        attribute.path().is_ident("path")
            || attribute.path().is_ident("cfg") && attribute.meta.require_list().is_ok_and(is_test)
    })
}

fn flatten(tree: &UseTree, before: &mut Vec<String>, is_export: bool, imports: &mut Vec<Import>) {
    let mut import = |name: Option<String>, last: Option<String>| {
        let path = before.iter().cloned().chain(last).collect();
        imports.push(Import { name, path, is_export });
    };
    match tree {
        UseTree::Name(name) if name.ident == "self" => import(before.last().cloned(), None),
        UseTree::Name(name) => import(Some(plain(&name.ident)), Some(plain(&name.ident))),
        UseTree::Rename(rename) => import(Some(plain(&rename.rename)), Some(plain(&rename.ident))),
        UseTree::Glob(_) => import(None, None),
        UseTree::Path(path) => {
            before.push(plain(&path.ident));
            flatten(&path.tree, before, is_export, imports);
            before.pop();
        }
        UseTree::Group(group) => {
            group.items.iter().for_each(|tree| flatten(tree, before, is_export, imports));
        }
    }
}

/// The name without `r#`.
pub(super) fn plain(ident: &Ident) -> String {
    ident.to_string().trim_start_matches("r#").to_owned()
}

/// Finds where paths lead.
pub(super) struct Index<'a> {
    modules: BTreeMap<&'a [String], &'a Module>,
}

impl<'a> Index<'a> {
    pub(super) fn new(modules: &'a [Module]) -> Self {
        Self { modules: modules.iter().map(|module| (&module.path[..], module)).collect() }
    }

    /// The module in which stands what `path` names in `module`; none if it is of another crate.
    pub(super) fn module_of(&self, module: &Module, path: &[String]) -> Option<&'a Module> {
        self.resolve(&module.path, path, 0)
    }

    /// The files of `module` and of the modules around it.
    pub(super) fn files_around(&self, module: &Module) -> Vec<&'a str> {
        let around = (0..=module.path.len()).filter_map(|n| self.modules.get(&module.path[..n]));
        around.map(|module| module.file.as_str()).collect()
    }

    fn resolve(&self, from: &[String], path: &[String], depth: usize) -> Option<&'a Module> {
        // Names given on in a circle end here; no chain of them is that long.
        const DEPTH_MAX: usize = 16;
        let (first, rest) = path.split_first()?;
        let (mut at, mut rest) = match first.as_str() {
            "crate" => (Vec::new(), rest),
            "self" => (from.to_vec(), rest),
            "super" => (from.split_last()?.1.to_vec(), rest),
            name => {
                let child = [from, &[name.to_owned()]].concat();
                self.modules.contains_key(&child[..]).then_some((child, rest))?
            }
        };
        while let Some((name, further)) = rest.split_first() {
            if name == "super" {
                at.pop()?;
            } else {
                at.push(name.clone());
                if !self.modules.contains_key(&at[..]) {
                    at.pop();
                    break;
                }
            }
            rest = further;
        }
        let module: &'a Module = self.modules.get(&at[..])?;
        let given_on = rest.first().filter(|_| depth < DEPTH_MAX).and_then(|name| {
            let named = |import: &&Import| import.name.as_ref() == Some(name);
            let import = module.imports.iter().find(named)?;
            self.resolve(&at, &[&import.path, &rest[1..]].concat(), depth + 1)
        });
        Some(given_on.unwrap_or(module))
    }
}
