//! Path prefixes in a tree by their names: a lookup costs what the names of the path cost, however
//! many prefixes there are.

use std::collections::HashMap;

use super::path::{PathPrefix, SpelledName, decoded};

/// Prefixes in the order in which they are tried.
///
/// # Examples
/// ```
/// use tamarisk_proxy::classify::{PathPrefix, PathTree};
///
/// let prefixes = ["/a/b", "/a", "/"].map(PathPrefix::new);
/// let tree = PathTree::new(&prefixes);
/// assert_eq!(tree.first("/a/b/c", |_| true), Some((0, "/c")));
/// assert_eq!(tree.first("/a/b/c", |index| index > 0), Some((1, "/b/c")));
/// assert_eq!(tree.first("/ab", |_| true), Some((2, "/ab")));
/// ```
#[derive(Clone, Debug, Default)]
pub struct PathTree {
    sent: Nodes,
    /// For paths [with slashes](super::with_slashes), where a slash in a name makes a difference.
    slashed: Option<Nodes>,
}

/// A tree without recursion: the first node is the root, each child stands behind its parent.
#[derive(Clone, Debug)]
struct Nodes(Vec<Node>);

#[derive(Clone, Debug, Default)]
struct Node {
    /// Positions of the prefixes that end here, the lowest first.
    ends: Vec<usize>,
    children: HashMap<Box<[u8]>, usize>,
}

impl Default for Nodes {
    fn default() -> Self {
        Self(vec![Node::default()])
    }
}

impl PathTree {
    /// `prefixes` in the order in which they are tried.
    pub fn new<'p>(prefixes: impl IntoIterator<Item = &'p PathPrefix>) -> Self {
        let prefixes: Vec<_> = prefixes.into_iter().collect();
        let (mut sent, mut slashed) = (Nodes::default(), None);
        for (index, prefix) in prefixes.iter().enumerate() {
            sent.insert(prefix.names(), index);
        }
        if prefixes.iter().any(|prefix| !prefix.names().eq(prefix.slashed_names())) {
            let nodes = slashed.insert(Nodes::default());
            for (index, prefix) in prefixes.iter().enumerate() {
                nodes.insert(prefix.slashed_names(), index);
            }
        }
        Self { sent, slashed }
    }

    /// The first of the prefixes that [takes](PathPrefix::takes) `path` and is `accepted`: its
    /// position, and what the path has below it.
    pub fn first<'p>(
        &self,
        path: &'p str,
        accepted: impl Fn(usize) -> bool,
    ) -> Option<(usize, &'p str)> {
        self.sent.first(path, accepted)
    }

    /// The position of the first of the prefixes that takes `path`,
    /// [with slashes](PathPrefix::takes_slashed), and is `accepted`.
    pub fn first_slashed(&self, path: &str, accepted: impl Fn(usize) -> bool) -> Option<usize> {
        let nodes = self.slashed.as_ref().unwrap_or(&self.sent);
        nodes.first(path, accepted).map(|(index, _)| index)
    }
}

impl Nodes {
    fn insert<'n>(&mut self, names: impl Iterator<Item = &'n [u8]>, index: usize) {
        let mut at = 0;
        for name in names {
            let next = self.0.len();
            at = *self.0[at].children.entry(name.into()).or_insert(next);
            if at == next {
                self.0.push(Node::default());
            }
        }
        self.0[at].ends.push(index);
    }

    fn first<'p>(
        &self,
        path: &'p str,
        accepted: impl Fn(usize) -> bool,
    ) -> Option<(usize, &'p str)> {
        let mut first: Option<(usize, &'p str)> = None;
        let (mut next, mut others) = (Some((0, path)), Vec::new());
        while let Some((at, rest)) = next.take().or_else(|| others.pop()) {
            let node = &self.0[at];
            if let Some(&index) = node.ends.iter().find(|index| accepted(**index))
                && first.is_none_or(|(first, _)| index < first)
            {
                first = Some((index, rest));
            }
            // Only a name with parameters leads to more than one node.
            node.below(rest, |child| match next {
                None => next = Some(child),
                Some(_) => others.push(child),
            });
        }
        first
    }
}

impl Node {
    /// Tells the nodes to which the next name of `path` leads, each with what follows there.
    fn below<'p>(&self, path: &'p str, mut tell: impl FnMut((usize, &'p str))) {
        let (mut rest, mut are_passed) = (path, false);
        while !self.children.is_empty()
            && let Some(SpelledName { whole, bare, after }) = SpelledName::first(rest)
        {
            let has_parameters = bare.len() < whole.len();
            for spelled in std::iter::once(whole).chain(has_parameters.then_some(bare)) {
                let name = decoded(spelled);
                // A name that begins with parameters is looked for among the first ones alone.
                if !(are_passed && name.starts_with(b";"))
                    && let Some(child) = self.children.get(&*name)
                {
                    tell((*child, after));
                }
            }
            if !bare.is_empty() {
                break;
            }
            (rest, are_passed) = (after, true);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::super::path::with_slashes;
    use super::*;

    /// Of few names, so that many paths begin alike.
    fn path() -> impl Strategy<Value = String> {
        let name = select(vec![
            "a", "b", ";a", ";b", "a;b", "%61", "%3Ba", "b%2fa", "a\\b", "%2F", "", "%",
        ]);
        vec(name, 0..4).prop_map(|names| format!("/{}", names.join("/")))
    }

    proptest! {
        #[test]
        fn the_tree_finds_what_trying_one_prefix_after_the_other_finds(
            prefixes in vec(path(), 0..12),
            paths in vec(path(), 1..8),
            left_out in 0..3_usize,
        ) {
            let prefixes: Vec<_> = prefixes.iter().map(|path| PathPrefix::new(path)).collect();
            let tree = PathTree::new(&prefixes);
            let accepted = |index: usize| left_out == 0 || index % 3 != left_out;
            let tried = || prefixes.iter().enumerate().filter(|(index, _)| accepted(*index));
            for path in &paths {
                let one_by_one =
                    tried().find_map(|(index, prefix)| Some((index, prefix.rest(path)?)));
                prop_assert_eq!(tree.first(path, accepted), one_by_one, "{}", path);
                let slashed = with_slashes(path).unwrap_or_else(|| path.clone());
                let one_by_one = tried().find(|(_, prefix)| prefix.takes_slashed(&slashed));
                let one_by_one = one_by_one.map(|(index, _)| index);
                prop_assert_eq!(tree.first_slashed(&slashed, accepted), one_by_one, "{}", slashed);
            }
        }
    }

    #[test]
    fn of_many_prefixes_only_those_that_take_the_path_are_tried() {
        let prefixes: Vec<_> =
            (0..1000).map(|index| PathPrefix::new(&format!("/r{index}/x"))).collect();
        let tree = PathTree::new(&prefixes);
        let tried = Cell::new(0);
        let accepted = |_| {
            tried.set(tried.get() + 1);
            true
        };
        assert_eq!(tree.first("/r999/x/y", accepted), Some((999, "/y")));
        assert_eq!(tried.get(), 1);
    }

    #[test]
    fn names_of_parameters_are_passed_over_however_many_there_are() {
        let prefixes = ["/;a", "/a;b/c", "/a/c", "/"].map(PathPrefix::new);
        let tree = PathTree::new(&prefixes);
        let first = |path: &str| tree.first(path, |_| true).map(|(index, _)| index);
        assert_eq!(first("/;a"), Some(0));
        assert_eq!(first("/a;b/c"), Some(1));
        assert_eq!(first("/a;c/c"), Some(2));
        assert_eq!(first(&"/;x".repeat(10_000)), Some(3));
        assert_eq!(first(&format!("{}/a/c", "/;x".repeat(10_000))), Some(2));
    }
}
