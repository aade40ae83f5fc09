//! Pages that are kept: the upper pages of indexes, whose cells a backend sends once, and of which
//! it asks then by number where a probe stands on each.
//!
//! A page belongs to its connection and goes with the session. Its cells were authentic when they
//! came; whether the session may compare them is asked at every search, of the keys that they are
//! under.

use std::cmp::Ordering;

use pgseal_evaluator_proto::{Items, Position, Refusal, MOST_KEPT, MOST_PAGES};
use pgseal_value::{Collate, Value};

use super::cells::{Origin, Side};
use super::operations::position;
use super::{CollationId, Connection};

/// Bytes of a page's cells at most: PostgreSQL's largest page.
const MOST_BYTES: usize = 32 << 10;

/// The pages of a connection, by their numbers.
#[derive(Default)]
pub(super) struct Kept(Vec<Option<Page>>);

struct Page {
    values: Vec<Value>,
    /// What decides about their use: of each kind one.
    origins: Vec<Origin>,
}

impl Kept {
    fn put(&mut self, number: u32, page: Page) {
        let place = number as usize;
        if self.0.len() <= place {
            self.0.resize_with(place + 1, || None);
        }
        self.0[place] = Some(page);
    }

    fn page(&self, number: u32) -> Result<&Page, Refusal> {
        let page = self.0.get(number as usize).and_then(Option::as_ref);
        page.ok_or(Refusal::UnknownState)
    }
}

impl Page {
    fn order(&self, at: usize, probe: &Value, rules: &dyn Collate) -> Result<Ordering, Refusal> {
        pgseal_value::compare(&self.values[at], probe, rules).map_err(|_| Refusal::WrongType)
    }

    /// Most pages that are asked lie wholly before the probe, or behind it: their ends tell.
    fn position(&self, probe: &Value, rules: &dyn Collate) -> Result<Position, Refusal> {
        let len = self.values.len();
        let Some(last) = len.checked_sub(1) else {
            return position(0, false, |_| Ok(Ordering::Equal));
        };
        let descending = self.order(0, &self.values[last], rules)?.is_gt();
        let inner = |order: Ordering| if descending { order.reverse() } else { order };
        let outside = if inner(self.order(last, probe, rules)?).is_lt() {
            Some(Ordering::Less)
        } else if inner(self.order(0, probe, rules)?).is_gt() {
            Some(Ordering::Greater)
        } else {
            None
        };
        position(len, descending, |at| match outside {
            Some(order) => Ok(inner(order)),
            None => self.order(at, probe, rules),
        })
    }
}

impl Connection {
    /// Opens a page's cells, and keeps them under a number in place of what was there.
    pub fn keep_page(&mut self, number: u32, cells: Items<'_>) -> Result<(), Refusal> {
        let bytes: usize = cells.iter().map(<[u8]>::len).sum();
        if number >= MOST_PAGES || cells.len() > MOST_KEPT || bytes > MOST_BYTES {
            return Err(Refusal::TooMany);
        }
        self.begin_operation()?;
        let (mut values, mut origins) = (Vec::with_capacity(cells.len()), Vec::new());
        for cell in cells.iter() {
            let opened = self.decrypt(cell)?;
            let origin = opened.origin();
            if !origins.contains(&origin) {
                origins.push(origin);
            }
            values.push(opened.value);
        }
        self.kept.put(number, Page { values, origins });
        Ok(())
    }

    /// Appends where the probe stands on each of these pages, whose numbers have 4 bytes each.
    pub fn search_kept(
        &mut self,
        probe: &[u8],
        pages: &[u8],
        collation: CollationId,
        into: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        if pages.len() / 4 > MOST_PAGES as usize {
            return Err(Refusal::TooMany);
        }
        self.begin_operation()?;
        let probe = self.open(probe, Side::Left, None)?;
        let mut asked = Vec::new();
        for number in pages.chunks_exact(4) {
            let number = u32::from_le_bytes([number[0], number[1], number[2], number[3]]);
            for origin in self.kept.page(number)?.origins.clone() {
                if !asked.contains(&origin) {
                    self.may_compare(&[self.origin(probe), origin])?;
                    asked.push(origin);
                }
            }
            let (page, probe) = (self.kept.page(number)?, &self.at(probe).value);
            page.position(probe, self.rules(collation))?.write(into);
        }
        Ok(())
    }
}
