//! Sorting many cells in one request: ranks, which tell what comparing them one by one would.

use std::cmp::Ordering;

use pgseal_evaluator_proto::Refusal;
use pgseal_value::Value;

use super::ahead;
use super::counts::Asked;
use super::{CollationId, Connection};

impl Connection {
    /// Where each cell would stand if all were sorted: equal values have equal ranks, from 0 on
    /// without gaps.
    pub fn rank(&mut self, cells: &[&[u8]], collation: CollationId) -> Result<Vec<u32>, Refusal> {
        self.begin_operation()?;
        let (mut values, mut origins) = (Vec::new(), Vec::new());
        for (at, cell) in cells.iter().enumerate() {
            if at % ahead::MOST == 0 {
                let next = cells[at..].iter().copied().take(ahead::MOST);
                self.open_ahead(next);
            }
            // As in an aggregate: what is not in the cache is not put there.
            let (origin, value) = match self.cells.find(cell) {
                Some(at) => (self.cells.origin(at), self.cells.at(at).value.duplicate()),
                None => {
                    let opened = self.cells.decrypt(&self.access.view, cell)?;
                    (opened.origin(), opened.value)
                }
            };
            origins.push(origin);
            values.push(value);
        }
        let permit = self.access.may_ask(Asked::Ranked, &origins)?;
        let values: Vec<Value> = values
            .into_iter()
            .map(|value| value.unguard(&permit))
            .collect();
        if values.windows(2).any(|pair| pair[0].ty() != pair[1].ty()) {
            return Err(Refusal::WrongType);
        }
        let rules = self.collations.rules(collation);
        let order = |a: usize, b: usize| pgseal_value::compare(&values[a], &values[b], rules);
        let places = sorted(values.len(), order)?;
        ranks(&places, order).map_err(Refusal::from)
    }
}

/// The numbers below `len` in the order that is given. A merge sort, because the order of a locale
/// may contradict itself, which the standard library's would not survive.
fn sorted<E>(
    len: usize,
    order: impl Fn(usize, usize) -> Result<Ordering, E>,
) -> Result<Vec<usize>, E> {
    let mut runs: Vec<usize> = (0..len).collect();
    let mut merged = Vec::with_capacity(len);
    let mut width = 1;
    while width < len {
        merged.clear();
        for pair in runs.chunks(2 * width) {
            let (mut left, mut right) = pair.split_at(width.min(pair.len()));
            while let ([a, left_rest @ ..], [b, right_rest @ ..]) = (left, right) {
                if order(*a, *b)? == Ordering::Greater {
                    merged.push(*b);
                    right = right_rest;
                } else {
                    merged.push(*a);
                    left = left_rest;
                }
            }
            merged.extend_from_slice(left);
            merged.extend_from_slice(right);
        }
        std::mem::swap(&mut runs, &mut merged);
        width *= 2;
    }
    Ok(runs)
}

/// The rank of each place, from the places in order.
fn ranks<E>(
    places: &[usize],
    order: impl Fn(usize, usize) -> Result<Ordering, E>,
) -> Result<Vec<u32>, E> {
    let mut ranks = vec![0; places.len()];
    let mut rank = 0;
    for pair in places.windows(2) {
        rank += u32::from(order(pair[0], pair[1])? != Ordering::Equal);
        ranks[pair[1]] = rank;
    }
    Ok(ranks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_list_is_sorted_and_ranked_and_a_mad_order_ends() {
        for len in 0..70 {
            let values: Vec<usize> = (0..len).map(|i| (i * 37 + len) % 11).collect();
            let order = |a: usize, b: usize| Ok::<_, ()>(values[a].cmp(&values[b]));
            let places = sorted(len, order).expect("no errors");
            assert!(places
                .windows(2)
                .all(|pair| values[pair[0]] <= values[pair[1]]));
            let found = ranks(&places, order).expect("no errors");
            let mut distinct = values.clone();
            distinct.sort_unstable();
            distinct.dedup();
            for (value, rank) in values.iter().zip(found) {
                assert_eq!(distinct[rank as usize], *value);
            }
            let mad = |a: usize, b: usize| Ok::<_, ()>((a * 7).cmp(&(b * 5 % 3)));
            assert_eq!(sorted(len, mad).map(|places| places.len()), Ok(len));
        }
        assert_eq!(sorted(2, |_, _| Err(7)), Err(7));
    }
}
