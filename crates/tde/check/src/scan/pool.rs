//! Work on many files at once.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;
use std::thread;

/// One thread for each core.
pub fn jobs(asked: Option<NonZeroUsize>) -> NonZeroUsize {
    asked
        .or_else(|| thread::available_parallelism().ok())
        .unwrap_or(NonZeroUsize::MIN)
}

/// Runs `work` on each item, on `jobs` threads that each keep a `W` of their own; one job is done
/// by the caller's thread. Items are begun in order: put the largest first. The results stand in
/// the order of the items.
pub fn map<T, W, R>(
    items: &[T],
    jobs: NonZeroUsize,
    worker: impl Fn() -> W + Sync,
    work: impl Fn(&T, &mut W) -> R + Sync,
) -> Vec<R>
where
    T: Sync,
    R: Send,
{
    if jobs == NonZeroUsize::MIN {
        let mut own = worker();
        return items.iter().map(|item| work(item, &mut own)).collect();
    }
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(items.len()));
    thread::scope(|scope| {
        for _ in 0..jobs.get().min(items.len()) {
            scope.spawn(|| {
                let mut own = worker();
                while let Some((at, item)) = take(&next, items) {
                    let result = work(item, &mut own);
                    let mut done = done.lock().expect("no thread panics with it");
                    done.push((at, result));
                }
            });
        }
    });
    let mut done = done.into_inner().expect("no thread panicked");
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

fn take<'a, T>(next: &AtomicUsize, items: &'a [T]) -> Option<(usize, &'a T)> {
    let at = next.fetch_add(1, Ordering::Relaxed);
    items.get(at).map(|item| (at, item))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_item_once_and_in_order() {
        let items: Vec<u32> = (0..1000).collect();
        for jobs in [1, 3, 2000] {
            let jobs = NonZeroUsize::new(jobs).expect("not 0");
            let results = map(&items, jobs, || 0u32, |item, _| item * 2);
            assert_eq!(results, (0..1000).map(|i| i * 2).collect::<Vec<_>>());
        }
        let none: [u32; 0] = [];
        assert!(map(&none, NonZeroUsize::MIN, || (), |item, ()| *item).is_empty());
    }
}
