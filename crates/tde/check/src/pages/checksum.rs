//! PostgreSQL's data checksum of a page.
//!
//! The page, with its checksum field (bytes 8 and 9) as zero, is a table of 64 rows of 32
//! little-endian words. Each column is hashed by itself with a variant of FNV-1a, from a start
//! value of its own, over its 64 words and two zeros; `hash(s, w) = (s ^ w) * p ^ (s ^ w) >> 17`.
//! The columns are XORed, then the block number within the relation (not within the segment file),
//! and the sum is brought into 1..=65535.

use super::Page;

const COLUMNS: usize = 32;
const PRIME: u32 = 16_777_619;
/// Bytes 8 to 11 are the third word; its low half is the checksum.
const FIELD_WORD: usize = 2;

const START: [u32; COLUMNS] = [
    0x5B1F_36E9,
    0xB852_5960,
    0x02AB_50AA,
    0x1DE6_6D2A,
    0x79FF_467A,
    0x9BB9_F8A3,
    0x217E_7CD2,
    0x83E1_3D2C,
    0xF8D4_474F,
    0xE39E_B970,
    0x42C6_AE16,
    0x9932_16FA,
    0x7B09_3B5D,
    0x98DA_FF3C,
    0xF718_902A,
    0x0B1C_9CDB,
    0xE58F_764B,
    0x1876_36BC,
    0x5D7B_3BB1,
    0xE73D_E7DE,
    0x92BE_C979,
    0xCCA6_C0B2,
    0x304A_0979,
    0x85AA_43D4,
    0x7831_25BB,
    0x6CA8_EAA2,
    0xE407_EAC6,
    0x4B5C_FC3E,
    0x9FBF_8C76,
    0x15CA_20BE,
    0xF2CA_9FD3,
    0x959B_D756,
];

/// The checksum that the page should have as block `block` of its relation.
pub fn checksum(page: &Page, block: u32) -> u16 {
    let mut sums = START;
    let mut rows = page.chunks_exact(4 * COLUMNS);
    let mut first = words(rows.next().expect("a page has 64 rows"));
    first[FIELD_WORD] &= 0xFFFF_0000;
    hash(&mut sums, &first);
    for row in rows {
        hash(&mut sums, &words(row));
    }
    hash(&mut sums, &[0; COLUMNS]);
    hash(&mut sums, &[0; COLUMNS]);
    let all = sums.iter().fold(block, |all, sum| all ^ sum);
    u16::try_from(all % 65535 + 1).expect("a remainder of 65535, and one")
}

/// The checksum that is in the page.
pub fn stored(page: &Page) -> u16 {
    u16::from_le_bytes([page[8], page[9]])
}

fn words(row: &[u8]) -> [u32; COLUMNS] {
    std::array::from_fn(|i| u32::from_le_bytes(std::array::from_fn(|j| row[4 * i + j])))
}

fn hash(sums: &mut [u32; COLUMNS], row: &[u32; COLUMNS]) {
    for (sum, word) in sums.iter_mut().zip(row) {
        let mixed = *sum ^ word;
        *sum = mixed.wrapping_mul(PRIME) ^ (mixed >> 17);
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::relation_pages;
    use super::*;

    #[test]
    fn real_pages_have_it() {
        for (name, block, page) in relation_pages() {
            assert_eq!(checksum(&page, block), stored(&page), "{name} {block}");
        }
    }

    #[test]
    fn place_and_bytes_matter() {
        for (name, block, mut page) in relation_pages() {
            assert_ne!(checksum(&page, block + 1), stored(&page), "{name}");
            page[8191] ^= 1;
            assert_ne!(checksum(&page, block), stored(&page), "{name}");
        }
    }

    #[test]
    fn the_field_itself_does_not() {
        let (_, block, mut page) = relation_pages().next().expect("there are samples");
        let sum = checksum(&page, block);
        page[8] ^= 0xFF;
        page[9] ^= 0xFF;
        assert_eq!(checksum(&page, block), sum);
    }
}
