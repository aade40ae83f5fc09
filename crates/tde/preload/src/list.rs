//! A list that only grows, for what a process learns and never forgets. Reading it needs no lock.

use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Items in the order of their coming, the last one first.
pub struct List<T: 'static> {
    last: AtomicPtr<Node<T>>,
}

struct Node<T: 'static> {
    item: T,
    before: Option<&'static Node<T>>,
}

impl<T: Sync> List<T> {
    /// Returns an empty list.
    pub const fn new() -> Self {
        Self {
            last: AtomicPtr::new(null_mut()),
        }
    }

    /// Adds an item, which stays for the life of the process. Called by one thread at a time.
    pub fn push(&self, item: T) {
        let before = self.last();
        let node = Box::leak(Box::new(Node { item, before }));
        self.last.store(node, Ordering::Release);
    }

    /// Returns the items that are there now.
    pub fn iter(&self) -> impl Iterator<Item = &'static T> {
        std::iter::successors(self.last(), |node| node.before).map(|node| &node.item)
    }

    fn last(&self) -> Option<&'static Node<T>> {
        // SAFETY: the pointer is null, or leads to what `push` leaked, which stays.
        unsafe { self.last.load(Ordering::Acquire).as_ref() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_item_comes_first() {
        let list = List::new();
        assert_eq!(list.iter().next(), None);
        (1..4).for_each(|item| list.push(item));
        assert_eq!(list.iter().copied().collect::<Vec<i32>>(), [3, 2, 1]);
    }
}
