//! Pages of indexes that are kept for all sessions of the process.
//!
//! Invariants:
//! 1. A page has cells of one data key, and is found only by who holds that very key.
//! 2. What is kept of a page holds wherever its cells are: it may be out of date.
//! 3. Pages go with the last session that has their owner's keys: no owner's values stay behind. A
//!    session that has expired does not count, and they go when that is noticed.
//! 4. So many are kept and no more; room comes from the database role that has handed over the
//!    most, and among its owners from the one who has the most.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use pgseal_cell::grant::DatabaseId;
use pgseal_cell::OwnerId;
use pgseal_evaluator_proto::Page as Given;

use super::keys::KeyIdentity;
use super::permit::Guarded;
use super::roles::Role;

/// The identity of a page.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct PageId {
    /// The database that the connection named.
    pub database: DatabaseId,
    /// The index in it, as the server names it.
    pub index: [u8; 16],
    /// The block of the index.
    pub block: u32,
}

/// A page as a backend handed it over.
pub struct Page {
    /// The identity of the key that its cells are sealed with.
    pub key: KeyIdentity,
    cells: Box<[u8]>,
    /// Where each cell ends.
    ends: Box<[u16]>,
    opened: Box<[OnceLock<Known>]>,
    children: Box<[u32]>,
    right: u32,
    /// It was found since it was last looked at for eviction.
    used: AtomicBool,
}

/// The content of a cell of a page.
pub struct Known {
    /// The value.
    pub value: Guarded,
    /// The evaluator made this cell from others.
    pub derived: bool,
}

impl Page {
    /// A page whose cells are under this key, none opened yet; none if it is larger than any page.
    pub fn new(key: KeyIdentity, given: &Given<'_>) -> Option<Self> {
        let mut cells = Vec::new();
        let mut ends = Vec::with_capacity(given.cells.len());
        for cell in given.cells.iter() {
            cells.extend_from_slice(cell);
            ends.push(u16::try_from(cells.len()).ok()?);
        }
        let child = |bytes: &[u8]| u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        Some(Self {
            key,
            opened: ends.iter().map(|_| OnceLock::new()).collect(),
            cells: cells.into(),
            ends: ends.into(),
            children: given.children.chunks_exact(4).map(child).collect(),
            right: given.right,
            used: AtomicBool::new(false),
        })
    }

    /// Whether it is the page that is given, under this key.
    pub fn is(&self, key: &KeyIdentity, given: &Given<'_>) -> bool {
        let cells = (0..self.len()).map(|at| self.cell(at));
        let children = self.children.iter().flat_map(|block| block.to_le_bytes());
        self.key == *key
            && self.right == given.right
            && cells.eq(given.cells.iter())
            && children.eq(given.children.iter().copied())
    }

    /// How many cells there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// A cell; empty behind the last.
    pub fn cell(&self, at: usize) -> &[u8] {
        let start = at.checked_sub(1).map_or(0, |before| self.end(before));
        &self.cells[start..self.end(at)]
    }

    fn end(&self, at: usize) -> usize {
        self.ends
            .get(at)
            .map_or(self.cells.len(), |end| usize::from(*end))
    }

    /// Returns the content of the cell, which `open` finds if it was not found before.
    pub fn known<E>(
        &self,
        at: usize,
        open: impl FnOnce(&[u8]) -> Result<Known, E>,
    ) -> Result<&Known, E> {
        if self.opened[at].get().is_none() {
            // Another may have been faster, and found the same.
            let _ = self.opened[at].set(open(self.cell(at))?);
        }
        Ok(self.opened[at].get().expect("it was just set"))
    }

    /// Where a search goes on whose probe has so many cells of this page before it. The last page
    /// of a level has no high key, and a child behind its last cell.
    pub fn next(&self, before: usize) -> Option<u32> {
        let right = (before == self.len()).then_some(self.right);
        let next = self.children.get(before).copied().or(right);
        // Block 0 describes the index, and is no page of the tree.
        next.filter(|block| *block != 0)
    }
}

/// The pages of all owners.
pub struct Trees {
    of: HashMap<OwnerId, Tree>,
    /// Counts the kept pages by the role that sent them.
    roles: HashMap<Option<Role>, usize>,
    kept: usize,
    most: usize,
}

/// The pages of one owner.
#[derive(Default)]
pub struct Tree {
    pages: HashMap<PageId, Arc<Page>>,
    /// Lists each role's pages in the order in which they are considered for eviction.
    queues: HashMap<Option<Role>, VecDeque<PageId>>,
}

impl Tree {
    /// How many this role handed over.
    fn of_role(&self, role: Option<Role>) -> usize {
        self.queues.get(&role).map_or(0, VecDeque::len)
    }

    /// Takes out the first page of this role that was not found since it was looked at last.
    fn evict(&mut self, role: Option<Role>) -> Option<Arc<Page>> {
        let queue = self.queues.get_mut(&role)?;
        while let Some(id) = queue.pop_front() {
            match self.pages.get(&id) {
                Some(page) if page.used.swap(false, Ordering::Relaxed) => queue.push_back(id),
                _ => return self.pages.remove(&id),
            }
        }
        None
    }
}

impl Trees {
    /// Room for so many pages.
    pub fn new(most: usize) -> Self {
        Self {
            of: HashMap::new(),
            roles: HashMap::new(),
            kept: 0,
            most,
        }
    }

    /// A page, if it is here.
    pub fn find(&self, owner: OwnerId, id: &PageId) -> Option<Arc<Page>> {
        let page = self.of.get(&owner)?.pages.get(id)?;
        page.used.store(true, Ordering::Relaxed);
        Some(Arc::clone(page))
    }

    /// Keeps a page that this role hands over; in place of the same one it is of the role that
    /// handed that over. Gives back what goes for it, which is long to wipe: not while others wait.
    pub fn put(
        &mut self,
        role: Option<Role>,
        owner: OwnerId,
        id: PageId,
        page: Arc<Page>,
    ) -> Option<Arc<Page>> {
        let tree = self.of.get_mut(&owner);
        if let Some(there) = tree.and_then(|tree| tree.pages.get_mut(&id)) {
            return Some(std::mem::replace(there, page));
        }
        if self.most == 0 {
            return None;
        }
        let gone = match self.kept == self.most {
            true => self.make_room(role),
            false => None,
        };
        let tree = self.of.entry(owner).or_default();
        tree.pages.insert(id, page);
        tree.queues.entry(role).or_default().push_back(id);
        *self.roles.entry(role).or_default() += 1;
        self.kept += 1;
        gone
    }

    /// Removes and returns a page of the role that has the most, if that is more than this one
    /// has.
    fn make_room(&mut self, own: Option<Role>) -> Option<Arc<Page>> {
        let (&fullest, &most) = self.roles.iter().max_by_key(|(_, pages)| **pages)?;
        let has = self.roles.get(&own).map_or(0, |pages| *pages);
        let role = if most > has { fullest } else { own };
        let fullest = self
            .of
            .iter_mut()
            .max_by_key(|(_, tree)| tree.of_role(role));
        let (&owner, tree) = fullest?;
        let gone = tree.evict(role);
        if tree.of_role(role) == 0 {
            tree.queues.remove(&role);
        }
        if tree.pages.is_empty() {
            self.of.remove(&owner);
        }
        self.forget(role, usize::from(gone.is_some()));
        gone
    }

    fn forget(&mut self, role: Option<Role>, pages: usize) {
        self.kept -= pages;
        if let Some(has) = self.roles.get_mut(&role) {
            *has -= pages;
            if *has == 0 {
                self.roles.remove(&role);
            }
        }
    }

    /// Takes the pages of this owner out.
    pub fn take(&mut self, owner: OwnerId) -> Option<Tree> {
        let tree = self.of.remove(&owner)?;
        for (role, queue) in &tree.queues {
            self.forget(*role, queue.len());
        }
        Some(tree)
    }
}

#[cfg(test)]
mod tests {
    use pgseal_evaluator_proto::Items;

    use super::*;

    fn id(block: u32) -> PageId {
        PageId {
            database: DatabaseId([0; 16]),
            index: [0; 16],
            block,
        }
    }

    fn page(cells: &[&[u8]], children: &[u8], right: u32) -> Page {
        let given = Given {
            cells: Items::Listed(cells),
            children,
            right,
        };
        Page::new(KeyIdentity::default(), &given).expect("a small page")
    }

    fn put(trees: &mut Trees, owner: u8, block: u32) {
        put_for(trees, 1, owner, block);
    }

    fn put_for(trees: &mut Trees, role: Role, owner: u8, block: u32) {
        let page = Arc::new(page(&[b"cell"], &[], 0));
        trees.put(Some(role), OwnerId([owner; 16]), id(block), page);
    }

    #[test]
    fn a_role_with_pages_of_many_owners_leaves_room_to_another() {
        let mut trees = Trees::new(100);
        (0..100).for_each(|owner| put_for(&mut trees, 1, owner, 0));
        (0..50).for_each(|block| put_for(&mut trees, 2, 200, block));
        (100..200).for_each(|owner| put_for(&mut trees, 1, owner, 0));
        assert_eq!(blocks(&trees, 200), (0..50).collect::<Vec<_>>());
        // What another hands over again stays whose it was.
        (0..50).for_each(|block| put_for(&mut trees, 1, 200, block));
        assert_eq!((trees.roles[&Some(1)], trees.roles[&Some(2)]), (50, 50));
        assert!(trees.take(OwnerId([200; 16])).is_some());
        assert_eq!((trees.kept, trees.roles.len()), (50, 1));
    }

    fn blocks(trees: &Trees, owner: u8) -> Vec<u32> {
        let has = |block: &u32| {
            let tree = trees.of.get(&OwnerId([owner; 16]));
            tree.is_some_and(|tree| tree.pages.contains_key(&id(*block)))
        };
        (0..100).filter(has).collect()
    }

    #[test]
    fn a_search_goes_down_between_two_cells_and_right_behind_the_last() {
        let children: Vec<u8> = [7_u32, 8, 9]
            .iter()
            .flat_map(|block| block.to_le_bytes())
            .collect();
        let inner = page(&[b"a", b"bb", b"high"], &children, 5);
        assert_eq!(
            [0, 1, 2, 3].map(|at| inner.next(at)),
            [Some(7), Some(8), Some(9), Some(5)]
        );
        assert_eq!(
            [0, 1, 2, 3].map(|at| inner.cell(at)),
            [&b"a"[..], b"bb", b"high", b""]
        );
        let last = page(&[b"a", b"bb"], &children, 0);
        assert_eq!(
            [0, 1, 2].map(|at| last.next(at)),
            [Some(7), Some(8), Some(9)]
        );
        let leaf = page(&[b"a"], &[], 0);
        assert_eq!([0, 1].map(|at| leaf.next(at)), [None, None]);
    }

    #[test]
    fn room_comes_from_who_has_the_most_and_what_is_used_stays() {
        let mut trees = Trees::new(4);
        for block in 0..4 {
            put(&mut trees, 1, block);
        }
        assert!(trees.find(OwnerId([1; 16]), &id(0)).is_some());
        put(&mut trees, 2, 0);
        assert_eq!(
            (blocks(&trees, 1), blocks(&trees, 2)),
            (vec![0, 2, 3], vec![0])
        );
        // The same page again takes no room.
        put(&mut trees, 2, 0);
        put(&mut trees, 2, 1);
        assert_eq!(
            (blocks(&trees, 1).len(), blocks(&trees, 2)),
            (2, vec![0, 1])
        );
        assert!(trees.take(OwnerId([1; 16])).is_some());
        put(&mut trees, 3, 0);
        put(&mut trees, 3, 1);
        assert_eq!(
            (trees.kept, blocks(&trees, 2), blocks(&trees, 3)),
            (4, vec![0, 1], vec![0, 1])
        );
        let mut none = Trees::new(0);
        put(&mut none, 1, 0);
        assert!(none.find(OwnerId([1; 16]), &id(0)).is_none());
    }
}
