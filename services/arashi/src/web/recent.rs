//! A map that forgets what has not been used for long, so that it stays small.

use std::collections::HashMap;
use std::hash::Hash;

/// A map of at most `capacity` entries. It has two generations: what is used moves to the young
/// one; when that is half of the capacity, the old one is forgotten and the young one becomes old.
#[derive(Debug)]
pub(crate) struct RecentMap<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    capacity: usize,
}

impl<K: Eq + Hash, V> RecentMap<K, V> {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), capacity }
    }

    /// The value of a key, which counts as used.
    pub(crate) fn get(&mut self, key: &K) -> Option<&mut V> {
        if let Some((key, value)) = self.old.remove_entry(key) {
            self.insert(key, value);
        }
        self.young.get_mut(key)
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.capacity / 2 && !self.young.contains_key(&key) {
            self.old = std::mem::take(&mut self.young);
        }
        self.old.remove(&key);
        self.young.insert(key, value);
    }

    pub(crate) fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_is_kept_and_the_rest_forgotten() {
        let mut map = RecentMap::new(10);
        map.insert(0, "used");
        for key in 1..100 {
            map.insert(key, "seldom");
            assert_eq!(map.get(&0), Some(&mut "used"), "after {key}");
            assert!(map.young.len() + map.old.len() <= 10);
        }
        assert_eq!(map.get(&1), None);
        map.remove(&0);
        assert_eq!(map.get(&0), None);
    }
}
