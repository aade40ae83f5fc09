//! Deriving a key leaves nothing on the stack, which core dumps and the swap contain, nor in
//! registers, which signals and the dynamic linker save there.

use std::fs::File;
use std::os::unix::fs::FileExt;

use super::first_master;
use crate::aead::Aead;
use crate::awslc::hkdf_expand;
use crate::derive::{cluster_key, ClusterPurpose, FilePurpose, Info};
use crate::mac::ReceiverMac;
use crate::wipe::without_trace;
use crate::{FileCipher, FileId, Fork, KeyLength, MasterKey, Secret};

/// Bytes of the stack below the caller that are searched for traces.
const SEEN: usize = 128 << 10;

/// Fills `dead` with the bytes of the stack below this frame. They are dead memory, so the kernel
/// reads them.
#[inline(never)]
fn stack(dead: &mut [u8]) {
    let here = 0u8;
    let start = (&raw const here).addr() - dead.len();
    let memory = File::open("/proc/self/mem").unwrap();
    memory.read_exact_at(dead, start as u64).unwrap();
}

/// Calls `act` below what reading the stack overwrites.
#[inline(never)]
fn deeper(act: &dyn Fn()) {
    let room = std::hint::black_box([0u8; 16 << 10]);
    act();
    std::hint::black_box(room);
}

/// Counts the 16-byte pieces of `keys` that are on the stack after `act`.
fn left(keys: &[Vec<u8>], act: &dyn Fn()) -> usize {
    let mut dead = vec![0; SEEN];
    deeper(act);
    stack(&mut dead);
    let pieces = keys.iter().flat_map(|key| key.chunks_exact(16));
    pieces
        .filter(|piece| dead.windows(16).any(|seen| seen == *piece))
        .count()
}

/// Drops what is in `keys` and returns the memory that each key was in. The vector keeps it.
fn after_drop<T>(mut keys: Vec<T>, bytes: fn(&T) -> &[u8; 32]) -> Vec<[u8; 32]> {
    let memory = File::open("/proc/self/mem").unwrap();
    let read = |at: &usize| {
        let mut found = [9; 32];
        memory.read_exact_at(&mut found, *at as u64).unwrap();
        found
    };
    let places: Vec<_> = keys.iter().map(|key| bytes(key).as_ptr().addr()).collect();
    for (key, at) in keys.iter().zip(&places) {
        assert_eq!(&read(at), bytes(key), "the key is where it is looked for");
    }
    keys.clear();
    places.iter().map(read).collect()
}

#[test]
fn dropped_keys_are_wiped() {
    let masters = (1..4).map(|byte| MasterKey::from_bytes(&mut [byte; 32]));
    let wiped = vec![[0; 32]; 3];
    assert_eq!(after_drop(masters.collect(), MasterKey::expose), wiped);
    let secrets = (1..4).map(|byte| Secret::from_bytes(&mut [byte; 32]));
    assert_eq!(after_drop(secrets.collect(), Secret::expose), wiped);
}

fn file_key(
    master: &MasterKey,
    purpose: FilePurpose,
    length: KeyLength,
    id: &FileId,
    bytes: usize,
) -> Vec<u8> {
    let mut key = vec![0; bytes];
    let info = Info::of_file(purpose, length, id);
    hkdf_expand(master.expose(), info.as_slice(), &mut key);
    key
}

#[test]
fn no_key_of_a_file_stays_on_the_stack() {
    let master = first_master();
    let id = FileId::relation(5, 16384, Fork::Main, 0);
    for length in [KeyLength::Bits128, KeyLength::Bits192, KeyLength::Bits256] {
        let key = |purpose, bytes| file_key(&master, purpose, length, &id, bytes);
        let keys = [
            key(FilePurpose::Xts, 2 * length.bytes()),
            key(FilePurpose::Tail, 32),
            key(FilePurpose::Keystream, length.bytes()),
        ];
        let found = left(&keys, &|| {
            let cipher = Box::new(FileCipher::new(&master, length, &id));
            let mut page = vec![1; 8192];
            cipher.open(3, &mut page);
            cipher.mask_tail(3, &mut page[..7]);
            cipher.keystream(3, &mut page);
            cipher.seal(3, &vec![1; 8192], &mut page);
        });
        assert_eq!(found, 0, "{length:?}");
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn no_key_of_a_file_stays_in_registers() {
    let master = first_master();
    let id = FileId::relation(5, 16384, Fork::Main, 0);
    let mut page = [1; 8192];
    for length in [KeyLength::Bits128, KeyLength::Bits192, KeyLength::Bits256] {
        let key = file_key(&master, FilePurpose::Xts, length, &id, 2 * length.bytes());
        let cipher = FileCipher::new(&master, length, &id);
        for _ in 0..2 {
            cipher.open(3, &mut page);
            let saved = crate::wipe::registers();
            let found = key
                .chunks_exact(8)
                .filter(|piece| saved.windows(8).any(|seen| seen == *piece));
            assert_eq!(found.count(), 0, "{length:?}");
        }
    }
}

/// Shows that the test above would see a key, and that every register is wiped.
#[cfg(target_arch = "x86_64")]
#[test]
fn registers_keep_a_key_unless_they_are_wiped() {
    let key = [0xa5; 16];
    let held = |saved: Vec<u8>| saved.chunks_exact(16).filter(|part| *part == key).count();
    crate::wipe::fill_registers(&key);
    let seen = held(crate::wipe::registers()) >= 16;
    assert_eq!(seen, is_x86_feature_detected!("avx"));
    without_trace(|| crate::wipe::fill_registers(&key));
    assert_eq!(held(crate::wipe::registers()), 0);
}

#[test]
fn no_key_of_a_token_stays_on_the_stack() {
    let master = first_master();
    let mut key = vec![0; 32];
    cluster_key(&master, ClusterPurpose::Receiver, &mut key);
    let found = left(&[key], &|| {
        ReceiverMac::new(&master).tag(1, 2, b"role");
    });
    assert_eq!(found, 0);
}

#[test]
fn a_copy_stays_unless_the_stack_is_wiped() {
    let master = first_master();
    let mut key = vec![0; 32];
    cluster_key(&master, ClusterPurpose::Receiver, &mut key);
    let copies = || {
        let mut copy = [0; 32];
        cluster_key(&master, ClusterPurpose::Receiver, &mut copy);
        std::hint::black_box(copy);
    };
    let key = [key];
    assert_eq!(left(&key, &copies), 2);
    assert_eq!(left(&key, &|| without_trace(copies)), 0);
}

#[test]
fn expanding_a_key_of_cells_leaves_none_of_it() {
    let key = Secret::generate().unwrap();
    let pieces = [key.expose().to_vec()];
    let kept = std::cell::RefCell::new(Vec::new());
    let expand = || kept.borrow_mut().push(Aead::new(&key));
    assert_eq!(left(&pieces, &expand), 0);
}
