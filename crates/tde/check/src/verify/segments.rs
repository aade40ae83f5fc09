//! Finds faults that only show when all files are known: gaps between the segments of a relation,
//! and holes below a page that was written, in the same segment or in a later one.

use std::collections::HashMap;
use std::ops::Range;

use pgseal_crypto::UNIT;

use super::{Checked, Fault, Sort};

/// The name without the segment's number, and the number: `base/5/16384.2` is segment 2.
pub fn segment_number(name: &str) -> (&str, u32) {
    let numbered = name.rsplit_once('.');
    let parsed = numbered.and_then(|(stem, digits)| Some((stem, digits.parse().ok()?)));
    parsed.unwrap_or((name, 0))
}

/// Size and written pages of each segment of each relation.
type Segments = HashMap<String, HashMap<u32, (u64, u64)>>;

fn segments(checked: &[Checked]) -> Segments {
    let mut all = Segments::new();
    for file in checked.iter().filter(|file| file.sort == Sort::Relation) {
        let (stem, segment) = segment_number(&file.name);
        let relation = all.entry(stem.to_owned()).or_default();
        relation.insert(segment, (file.bytes, file.written));
    }
    all
}

/// PostgreSQL ends a relation at the first segment that is not whole; what comes after it is lost.
/// Empty segments stay behind after a truncation.
pub fn mark_gaps(checked: &mut [Checked], segment_pages: u32) {
    let all = segments(checked);
    let whole = u64::from(segment_pages) * UNIT as u64;
    for file in checked
        .iter_mut()
        .filter(|file| file.sort == Sort::Relation)
    {
        let (stem, segment) = segment_number(&file.name);
        let Some(before) = segment.checked_sub(1) else {
            continue;
        };
        let size = all[stem].get(&before).map_or(0, |(size, _)| *size);
        if file.bytes > 0 && size < whole {
            file.file_fault(Fault::AfterGap);
        }
    }
}

/// Holes with a written page after them, file by file.
pub fn holes_below_writing(checked: &[Checked]) -> Vec<(&str, Range<u64>)> {
    let all = segments(checked);
    let mut found = Vec::new();
    for file in checked {
        let (stem, segment) = segment_number(&file.name);
        let later = |(other, (_, written)): (&u32, &(u64, u64))| *other > segment && *written > 0;
        let more = all
            .get(stem)
            .is_some_and(|relation| relation.iter().any(later));
        let below = |hole: &&Range<u64>| more || hole.end <= file.written;
        let holes = file.holes.iter().filter(below);
        found.extend(holes.map(|hole| (file.name.as_str(), hole.clone())));
    }
    found
}
