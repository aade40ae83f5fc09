//! The handover record: how the command gives unlocked keys to the library, in a sealed memfd.
//!
//! `"PGSEALHO" || u32 version = 4 || u8 functions || u32 count`, then for each cluster
//! `u16 path length || path || u8 suite || u16 key bits || 16 cluster id || 16 key id || 32
//! master || u8 slot || u16 length || kind of the slot`; then `u32 count`, and for each file that
//! opens such a key, or says how, `u16 path length || path`. The slot is the one that opened the
//! cluster; it is 0, and its kind empty, where the key file has none (a raw `key.bin`).
//!
//! Invariants: a path is absolute and has no trailing slash; one cluster may be listed under
//! several paths; nothing follows the last file. Written by `pgseal-twin` and by
//! `pgseal exec|unlock`; read by the library, which must not allocate: entries borrow from the
//! record.

use pgseal_crypto::{KeyId, KeyLength, Suite};
use zeroize::Zeroizing;

use crate::reader::Reader;
use crate::ClusterId;

const MAGIC: &[u8; 8] = b"PGSEALHO";
const VERSION: u32 = 4;

/// The functions that may use the keys of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Functions {
    /// All that pgseal has.
    Any = 0,
    /// Those that FIPS 140-3 approves, from a FIPS module.
    Approved = 1,
}

/// Bytes of an entry beside its path.
const FIXED: usize = 2 + 1 + 2 + 16 + 16 + 32 + 1 + 2;

/// The longest name of a kind of slot.
const MAX_KIND: usize = 64;

/// One cluster's keys, by the path that it is found under.
pub struct Entry<'a> {
    /// The data directory: absolute, without a trailing slash.
    pub root: &'a [u8],
    /// How its bytes are stored.
    pub suite: Suite,
    /// The length of its AES keys.
    pub length: KeyLength,
    /// The cluster.
    pub cluster: ClusterId,
    /// The name of the master key.
    pub key_id: KeyId,
    /// The master key itself.
    pub master: &'a [u8; 32],
    /// The slot that opened it, if a slot did.
    pub opened_by: Option<Opener<'a>>,
}

/// The slot through which a cluster was opened: a server shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opener<'a> {
    /// Its number, from 1.
    pub slot: u8,
    /// The name of its kind: lower-case letters, digits, hyphens and spaces.
    pub kind: &'a str,
}

/// Why a record cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandoverError {
    /// Other bytes altogether.
    #[error("this is not a handover record: start the program through pgseal")]
    NotARecord,
    /// Made by another pgseal.
    #[error(
        "handover record version {0} is not ours: install pgseal and its library of one version"
    )]
    Version(u32),
    /// Cut short, too long, or with values that do not exist.
    #[error("the handover record is damaged: start the program again")]
    Damaged,
    /// A path that no record can hold.
    #[error(
        "a data directory, or a file that opens its key, must be an absolute path of at most 4096 \
         bytes"
    )]
    Path,
}

/// The record that holds `entries`, and the paths of the `files` that open them.
pub fn encode(
    functions: Functions,
    entries: &[Entry<'_>],
    files: &[&[u8]],
) -> Result<Zeroizing<Vec<u8>>, HandoverError> {
    let kind = |entry: &Entry<'_>| entry.opened_by.map_or(0, |opener| opener.kind.len());
    let roots = entries
        .iter()
        .map(|entry| FIXED + entry.root.len() + kind(entry));
    let size = roots.chain(files.iter().map(|file| 2 + file.len()));
    let mut out = Zeroizing::new(Vec::with_capacity(MAGIC.len() + 13 + size.sum::<usize>()));
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.push(functions as u8);
    push_count(&mut out, entries.len())?;
    for entry in entries {
        push_path(&mut out, entry.root)?;
        out.push(entry.suite as u8);
        out.extend_from_slice(&entry.length.bits().to_le_bytes());
        out.extend_from_slice(&entry.cluster.0);
        out.extend_from_slice(&entry.key_id.0);
        out.extend_from_slice(entry.master);
        push_opener(&mut out, entry.opened_by)?;
    }
    push_count(&mut out, files.len())?;
    for file in files {
        push_path(&mut out, file)?;
    }
    Ok(out)
}

fn push_count(out: &mut Vec<u8>, count: usize) -> Result<(), HandoverError> {
    let count = u32::try_from(count).map_err(|_| HandoverError::Damaged)?;
    out.extend_from_slice(&count.to_le_bytes());
    Ok(())
}

fn push_opener(out: &mut Vec<u8>, opener: Option<Opener<'_>>) -> Result<(), HandoverError> {
    let (slot, kind) = opener.map_or((0, ""), |opener| (opener.slot, opener.kind));
    let len = u16::try_from(kind.len())
        .ok()
        .filter(|_| is_opener(slot, kind.as_bytes()));
    out.push(slot);
    out.extend_from_slice(&len.ok_or(HandoverError::Damaged)?.to_le_bytes());
    out.extend_from_slice(kind.as_bytes());
    Ok(())
}

fn push_path(out: &mut Vec<u8>, path: &[u8]) -> Result<(), HandoverError> {
    let len = u16::try_from(path.len()).ok().filter(|_| is_path(path));
    out.extend_from_slice(&len.ok_or(HandoverError::Path)?.to_le_bytes());
    out.extend_from_slice(path);
    Ok(())
}

/// The entries of a record. All of it is checked before the first is returned.
pub fn decode(record: &[u8]) -> Result<impl Iterator<Item = Entry<'_>>, HandoverError> {
    let (_, mut entries, _) = divide(record)?;
    Ok(std::iter::from_fn(move || entry(&mut entries)))
}

/// The files of a record that open its keys, or say how.
pub fn files(record: &[u8]) -> Result<impl Iterator<Item = &[u8]>, HandoverError> {
    let (_, _, mut files) = divide(record)?;
    Ok(std::iter::from_fn(move || path(&mut files)))
}

/// The functions that may use the keys of a record.
pub fn functions(record: &[u8]) -> Result<Functions, HandoverError> {
    divide(record).map(|(functions, _, _)| functions)
}

/// The functions of a record, and where its entries and its files begin; each ends with its part.
fn divide(record: &[u8]) -> Result<(Functions, Reader<'_>, Reader<'_>), HandoverError> {
    let mut reader = Reader::new(record);
    if reader.array() != Some(MAGIC) {
        return Err(HandoverError::NotARecord);
    }
    let version = reader.u32().ok_or(HandoverError::Damaged)?;
    if version != VERSION {
        return Err(HandoverError::Version(version));
    }
    let functions = match reader.u8() {
        Some(0) => Functions::Any,
        Some(1) => Functions::Approved,
        _ => return Err(HandoverError::Damaged),
    };
    let (entries, rest) = part(reader, entry).ok_or(HandoverError::Damaged)?;
    let (files, rest) = part(rest, path).ok_or(HandoverError::Damaged)?;
    match rest.is_empty() {
        true => Ok((functions, entries, files)),
        false => Err(HandoverError::Damaged),
    }
}

/// A counted part, whose members `read` reads, and what follows it.
fn part<'a, T>(
    mut reader: Reader<'a>,
    read: impl Fn(&mut Reader<'a>) -> Option<T>,
) -> Option<(Reader<'a>, Reader<'a>)> {
    let count = reader.u32()?;
    let all = reader.rest();
    let mut reader = Reader::new(all);
    for _ in 0..count {
        read(&mut reader)?;
    }
    let rest = reader.rest();
    let members = &all[..all.len() - rest.len()];
    Some((Reader::new(members), Reader::new(rest)))
}

fn entry<'a>(reader: &mut Reader<'a>) -> Option<Entry<'a>> {
    Some(Entry {
        root: path(reader)?,
        suite: (reader.u8()? == Suite::AesXts as u8).then_some(Suite::AesXts)?,
        length: KeyLength::try_from(reader.u16()?).ok()?,
        cluster: ClusterId(*reader.array()?),
        key_id: KeyId(*reader.array()?),
        master: reader.array()?,
        opened_by: opener(reader)?,
    })
}

/// None is a record that cannot be; the inner one is a cluster that no slot opened.
#[allow(clippy::option_option)] // a parser of what may be absent
fn opener<'a>(reader: &mut Reader<'a>) -> Option<Option<Opener<'a>>> {
    let slot = reader.u8()?;
    let kind = reader.counted().filter(|kind| is_opener(slot, kind))?;
    let kind = std::str::from_utf8(kind).ok()?;
    Some((slot != 0).then_some(Opener { slot, kind }))
}

/// A server prints the name of the kind in its log.
fn is_opener(slot: u8, kind: &[u8]) -> bool {
    let is_plain = |byte: &u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b' ' | b'-')
    };
    (slot == 0) == kind.is_empty() && kind.len() <= MAX_KIND && kind.iter().all(is_plain)
}

fn path<'a>(reader: &mut Reader<'a>) -> Option<&'a [u8]> {
    reader.counted().filter(|path| is_path(path))
}

fn is_path(path: &[u8]) -> bool {
    let trailing = path.len() > 1 && path.ends_with(b"/");
    path.starts_with(b"/") && path.len() <= 4096 && !trailing && !path.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(root: &'static [u8], master: &'static [u8; 32]) -> Entry<'static> {
        Entry {
            root,
            suite: Suite::AesXts,
            length: KeyLength::Bits192,
            cluster: ClusterId([1; 16]),
            key_id: KeyId([2; 16]),
            master,
            opened_by: Some(Opener {
                slot: 2,
                kind: "command key",
            }),
        }
    }

    fn record() -> Zeroizing<Vec<u8>> {
        let unslotted = Entry {
            opened_by: None,
            ..entry(b"/data", &[3; 32])
        };
        let entries = [unslotted, entry(b"/srv/pg", &[4; 32])];
        encode(
            Functions::Any,
            &entries,
            &[b"/etc/pgseal/passphrase", b"/mnt/key"],
        )
        .expect("good paths")
    }

    fn refusal(record: &[u8]) -> HandoverError {
        decode(record).err().expect("a bad record")
    }

    #[test]
    fn entries_survive() {
        let record = record();
        let entries: Vec<_> = decode(&record).expect("our record").collect();
        assert_eq!(entries.len(), 2);
        assert_eq!(entries[1].root, b"/srv/pg");
        assert_eq!(entries[1].length, KeyLength::Bits192);
        assert_eq!(entries[1].cluster, ClusterId([1; 16]));
        assert_eq!(entries[1].key_id, KeyId([2; 16]));
        assert_eq!(entries[1].master, &[4; 32]);
        assert_eq!(entries[0].opened_by, None);
        let opener = entries[1].opened_by.expect("a slot");
        assert_eq!((opener.slot, opener.kind), (2, "command key"));
        let files: Vec<_> = files(&record).expect("our record").collect();
        assert_eq!(files, [&b"/etc/pgseal/passphrase"[..], b"/mnt/key"]);
    }

    #[test]
    fn the_layout_is_fixed() {
        let record =
            encode(Functions::Approved, &[entry(b"/d", &[3; 32])], &[b"/p"]).expect("good paths");
        let mut expected = b"PGSEALHO\x04\0\0\0\x01\x01\0\0\0\x02\0/d\x01\xc0\0".to_vec();
        expected.extend_from_slice(&[1; 16]);
        expected.extend_from_slice(&[2; 16]);
        expected.extend_from_slice(&[3; 32]);
        expected.extend_from_slice(b"\x02\x0b\0command key");
        expected.extend_from_slice(b"\x01\0\0\0\x02\0/p");
        assert_eq!(*record, expected);
    }

    #[test]
    fn every_cut_is_refused() {
        let record = record();
        for len in 0..8 {
            assert_eq!(refusal(&record[..len]), HandoverError::NotARecord);
        }
        for len in 8..record.len() {
            assert_eq!(
                refusal(&record[..len]),
                HandoverError::Damaged,
                "{len} bytes"
            );
        }
        let longer = [&record[..], &[0]].concat();
        assert_eq!(refusal(&longer), HandoverError::Damaged);
    }

    #[test]
    fn the_functions_survive() {
        let mut record = record();
        assert_eq!(functions(&record), Ok(Functions::Any));
        record[12] = 1;
        assert_eq!(functions(&record), Ok(Functions::Approved));
        record[12] = 2;
        assert_eq!(functions(&record), Err(HandoverError::Damaged));
        assert_eq!(refusal(&record), HandoverError::Damaged);
    }

    #[test]
    fn other_versions_are_named() {
        let mut record = record();
        record[8] = 2;
        assert_eq!(refusal(&record), HandoverError::Version(2));
    }

    #[test]
    fn a_slot_has_a_kind_that_can_be_printed() {
        let long = "k".repeat(MAX_KIND + 1);
        for (slot, kind) in [(0, "plain"), (1, ""), (1, "a\nb"), (1, "Plain"), (1, &long)] {
            let entry = Entry {
                opened_by: Some(Opener { slot, kind }),
                ..entry(b"/", &[0; 32])
            };
            assert_eq!(
                encode(Functions::Approved, &[entry], &[]).err(),
                Some(HandoverError::Damaged)
            );
        }
        let record =
            encode(Functions::Approved, &[entry(b"/", &[0; 32])], &[]).expect("a good slot");
        let mut nameless = record.to_vec();
        let slot = record.len() - 4 - "command key".len() - 3;
        nameless[slot] = 0;
        assert_eq!(refusal(&nameless), HandoverError::Damaged);
    }

    #[test]
    fn paths_are_absolute() {
        for path in [&b"data"[..], b"", b"/data/", b"/da\0ta"] {
            let entry = Entry {
                root: path,
                ..entry(b"/", &[0; 32])
            };
            assert_eq!(
                encode(Functions::Approved, &[entry], &[]).err(),
                Some(HandoverError::Path)
            );
            assert_eq!(
                encode(Functions::Approved, &[], &[path]).err(),
                Some(HandoverError::Path)
            );
        }
    }
}
