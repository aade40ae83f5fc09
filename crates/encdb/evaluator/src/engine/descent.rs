//! Searches in indexes: one request for a whole descent.
//!
//! A search begins at a page and goes on, down and to the right, as far as pages are kept
//! ([`trees`](super::trees)). Of each it finds facts about cells: the probe is behind this one,
//! before that one, and is equal to these. They hold wherever the cells are by now. Anyone who
//! asked looks whether they still stand side by side, and hands over the page as it is if they do
//! not.
//!
//! Every fact is of a comparison that was made, and was allowed when it was made.

use std::cmp::Ordering;
use std::sync::Arc;

use pgseal_cell::{CellRef, OwnerId};
use pgseal_evaluator_proto::{
    Finding, Items, Page as Given, Position, Refusal, MAX_CELLS, MAX_EQUAL, MAX_FINDINGS,
};

use super::access::Access;
use super::counts::Asked;
use super::operations::{position, Probe};
use super::permit::Origin;
use super::trees::{Known, Page, PageId};
use super::{CollationId, Connection};

/// Bytes of a page's cells at most: PostgreSQL's largest page.
const MAX_BYTES: usize = 32 << 10;
/// Bytes of the cells of a page that is kept, at most: of PostgreSQL's usual pages.
const MAX_KEPT: usize = 8 << 10;

/// Where a search begins.
#[derive(Clone, Copy)]
pub struct Start<'a> {
    /// The index.
    pub index: [u8; 16],
    /// The page in it.
    pub block: u32,
    /// The page itself, if it is handed over.
    pub page: Option<Given<'a>>,
}

/// The results of a search: items of [`Finding`]s.
#[derive(Default)]
pub struct Findings {
    /// How many.
    pub count: u32,
    /// One after the other.
    pub items: Vec<u8>,
}

impl Findings {
    fn add(&mut self, finding: &Finding<'_>) {
        finding.write_item(&mut self.items);
        self.count += 1;
    }

    /// A page that is not kept.
    fn tell_position(&mut self, block: u32, position: Position) {
        self.add(&Finding {
            block,
            position,
            below: &[],
            above: &[],
            equal: Items::Listed(&[]),
            far: &[],
            uniform: false,
        });
    }

    /// A page by the cells beside the probe.
    fn tell(&mut self, page: &Page, block: u32, position: Position, uniform: bool) {
        let (before, through) = (position.before as usize, position.through as usize);
        let equal = ends(position).map(|at| page.cell(at));
        let count = (through - before).min(equal.len());
        self.add(&Finding {
            block,
            position,
            below: before.checked_sub(1).map_or(&[], |at| page.cell(at)),
            above: page.cell(through),
            equal: Items::Listed(&equal[..count]),
            far: match (before, through) {
                (_, 0) => page.cell(page.len().saturating_sub(1)),
                (before, _) if before == page.len() => page.cell(0),
                _ => &[],
            },
            uniform,
        });
    }
}

/// The first and the last place of what is equal, if anything is.
fn ends(position: Position) -> [usize; MAX_EQUAL] {
    [
        position.before as usize,
        (position.through as usize).saturating_sub(1),
    ]
}

impl Connection {
    /// Where a probe is in an index. Nothing is found from a page on that is not kept; a page
    /// that is handed over is always answered.
    pub fn descend(
        &mut self,
        probe: &[u8],
        start: Start<'_>,
        collation: CollationId,
    ) -> Result<Findings, Refusal> {
        self.begin_operation()?;
        let opened = self.probe(probe)?;
        let mut owner = match &opened {
            Probe::Cell(at) => Some(self.access.view.owner_id(self.cells.origin(*at).key)),
            Probe::Plain(_) => None,
            Probe::Prefix(prefix) => Some(self.access.view.owner_id(prefix.origin.key)),
        };
        let mut given = None;
        let id = self.access.page_id(&start, start.block)?;
        if let Some(page) = &start.page {
            check_size(page)?;
            let Some((of, kept)) = self.access.keep(owner, id, page) else {
                return self.only_this(probe, &start, page, collation);
            };
            (owner, given) = (Some(of), Some(kept));
        }
        match owner.or_else(|| self.access.owner_of_page(&id)) {
            Some(owner) => self.walk(owner, &opened, &start, given, collation),
            None => Ok(Findings::default()),
        }
    }

    /// A page that is not kept: it is large, or has cells of several keys or of a nameless one.
    fn only_this(
        &mut self,
        probe: &[u8],
        start: &Start<'_>,
        page: &Given<'_>,
        collation: CollationId,
    ) -> Result<Findings, Refusal> {
        let cells: Vec<&[u8]> = page.cells.iter().collect();
        let position = self.search_page(probe, &cells, collation)?;
        let mut findings = Findings::default();
        findings.tell_position(start.block, position);
        Ok(findings)
    }

    fn walk(
        &mut self,
        owner: OwnerId,
        probe: &Probe,
        start: &Start<'_>,
        mut given: Option<Arc<Page>>,
        collation: CollationId,
    ) -> Result<Findings, Refusal> {
        let (mut findings, mut next) = (Findings::default(), Some(start.block));
        while let Some(block) = next.filter(|_| findings.count < MAX_FINDINGS) {
            let is_given = given.is_some();
            let id = self.access.page_id(start, block)?;
            let Some(page) = given
                .take()
                .or_else(|| self.access.shared.find_page(owner, &id))
            else {
                break;
            };
            let Some(key) = self.access.view.place(|key| key.identity == page.key) else {
                break;
            };
            let of = Of {
                page: &page,
                key,
                probe,
            };
            // Only what can be told of a page that another handed over is told.
            match of.position(self, collation) {
                Ok((position, uniform)) => {
                    findings.tell(&page, block, position, uniform);
                    next = page.next(position.before as usize);
                }
                Err(refusal) if is_given => return Err(refusal),
                Err(_) => break,
            }
        }
        Ok(findings)
    }
}

impl Access {
    /// Keeps a page, if all of it is under one of this session's keys, and of the probe's owner;
    /// of a plain probe any owner is as good. Returns the owner, and the page.
    fn keep(
        &mut self,
        of: Option<OwnerId>,
        id: PageId,
        given: &Given<'_>,
    ) -> Option<(OwnerId, Arc<Page>)> {
        let place = self.key_of_all(given)?;
        let owner = self.view.owner_id(place);
        if of.is_some_and(|of| of != owner) {
            return None;
        }
        let identity = self.view.key(place).identity;
        // What is open of it stays open.
        let there = self.shared.find_page(owner, &id);
        if let Some(there) = there.filter(|there| there.is(&identity, given)) {
            return Some((owner, there));
        }
        let page = Arc::new(Page::new(identity, given)?);
        let session = self.session.as_ref()?;
        let mut trees = self.shared.trees_to_change();
        // A session ends before its owners' pages go: either that is seen here, or the page there.
        if !session.is_closed() {
            let gone = trees.put(self.member.role(), owner, id, Arc::clone(&page));
            drop(trees);
            drop(gone);
        }
        Some((owner, page))
    }

    /// The first owner in this session of whom a page is kept.
    fn owner_of_page(&self, id: &PageId) -> Option<OwnerId> {
        let mut owners = self.view.owners.iter().map(|owner| owner.id);
        owners.find(|owner| self.shared.find_page(*owner, id).is_some())
    }

    /// The place of the key that all cells of a page name, if that may be kept.
    fn key_of_all(&self, given: &Given<'_>) -> Option<u16> {
        let key_id = |cell| CellRef::parse(cell).ok()?.key_id();
        let mut cells = given.cells.iter().map(key_id);
        let first = cells.next()??;
        if bytes(given) > MAX_KEPT || !cells.all(|key| key == Some(first)) {
            return None;
        }
        self.view.place(|key| key.is_named(first))
    }

    fn page_id(&self, start: &Start<'_>, block: u32) -> Result<PageId, Refusal> {
        Ok(PageId {
            database: self.database.ok_or(Refusal::NoSession)?,
            index: start.index,
            block,
        })
    }
}

fn bytes(page: &Given<'_>) -> usize {
    page.cells.iter().map(<[u8]>::len).sum()
}

fn check_size(page: &Given<'_>) -> Result<(), Refusal> {
    let cells = page.cells.len();
    match cells <= MAX_CELLS && bytes(page) <= MAX_BYTES && page.children.len() / 4 <= cells + 1 {
        true => Ok(()),
        false => Err(Refusal::TooMany),
    }
}

/// A probe on a page whose cells are under the key at this place.
struct Of<'a> {
    page: &'a Page,
    key: u16,
    probe: &'a Probe,
}

impl Of<'_> {
    /// Where the probe is, and whether the page may be sorted either way. Cells that are told
    /// as equal were compared.
    fn position(
        &self,
        connection: &mut Connection,
        collation: CollationId,
    ) -> Result<(Position, bool), Refusal> {
        let direction = self.direction(connection, collation)?;
        let found = position(self.page.len(), direction.is_lt(), |at| {
            self.order(connection, at, collation)
        })?;
        for at in ends(found) {
            let is_told = found.before < found.through;
            if is_told && self.order(connection, at, collation)?.is_ne() {
                return Err(Refusal::MalformedRequest);
            }
        }
        Ok((found, direction.is_eq()))
    }

    /// The order of the last cell beside the first.
    fn direction(
        &self,
        connection: &mut Connection,
        collation: CollationId,
    ) -> Result<Ordering, Refusal> {
        let last = self.page.len().saturating_sub(1);
        let (first, last) = (self.cell(connection, 0)?, self.cell(connection, last)?);
        let operands = [self.origin(first), self.origin(last)];
        let permit = connection.access.may_ask(Asked::Compared, &operands)?;
        let (first, last) = (first.value.read(&permit), last.value.read(&permit));
        pgseal_value::compare(last, first, connection.collations.rules(collation))
            .map_err(|_| Refusal::WrongType)
    }

    /// The order of a cell of the page beside the probe.
    fn order(
        &self,
        connection: &mut Connection,
        at: usize,
        collation: CollationId,
    ) -> Result<Ordering, Refusal> {
        let cell = self.cell(connection, at)?;
        let (access, cells) = (&mut connection.access, &connection.cells);
        let (permit, probe) = match self.probe {
            Probe::Cell(probe) => {
                let operands = [self.origin(cell), cells.origin(*probe)];
                let permit = access.may_ask(Asked::Compared, &operands)?;
                let probe = cells.read(*probe, &permit);
                (permit, probe)
            }
            Probe::Plain(probe) => (access.may_compare_plain(self.origin(cell))?, probe),
            Probe::Prefix(prefix) => {
                return access.order_beside(&cell.value, self.origin(cell), prefix, collation)
            }
        };
        pgseal_value::compare(
            cell.value.read(&permit),
            probe,
            connection.collations.rules(collation),
        )
        .map_err(|_| Refusal::WrongType)
    }

    fn cell(&self, connection: &mut Connection, at: usize) -> Result<&Known, Refusal> {
        self.page.known(at, |cell| {
            let opened = connection.cells.decrypt(&connection.access.view, cell)?;
            Ok(Known {
                value: opened.value,
                derived: opened.derived,
            })
        })
    }

    fn origin(&self, cell: &Known) -> Origin {
        Origin {
            key: self.key,
            derived: cell.derived,
        }
    }
}
