//! Other clusters of this machine under the same key: two primaries write different pages at the
//! same places, under the same keys and tweaks. A reader of both files learns which blocks are
//! equal.

use std::fs;
use std::path::{Path, PathBuf};

use pgseal_crypto::KeyId;
use pgseal_format::KeyImage;
use pgseal_keys::keybin::KeyDir;

use super::Finding;
use crate::discover::{discover, real};

/// Files that make a server follow another one, or recover from a backup.
const FOLLOWS: [&str; 3] = ["standby.signal", "recovery.signal", "backup_label"];

/// Looks for clusters where packages have them, and beside this one.
pub fn look(data: &Path, key: KeyId) -> Finding {
    let mut others = discover(Path::new("/")).clusters;
    others.extend(beside(data));
    judge(data, key, others.iter())
}

/// The data directories in the directory that this one is in.
fn beside(data: &Path) -> Vec<PathBuf> {
    let entries = data.parent().and_then(|parent| fs::read_dir(parent).ok());
    let paths = entries.into_iter().flatten().flatten();
    let paths = paths.map(|entry| real(&entry.path()));
    paths
        .filter(|path| path.join("PG_VERSION").exists())
        .collect()
}

fn judge<'a>(data: &Path, key: KeyId, others: impl Iterator<Item = &'a PathBuf>) -> Finding {
    let about = "other primaries";
    let data = real(data);
    let same =
        |other: &&PathBuf| **other != data && is_primary(other) && key_of(other) == Some(key);
    let same: Vec<_> = others
        .filter(same)
        .map(|other| other.display().to_string())
        .collect();
    match (is_primary(&data), same.is_empty()) {
        (false, _) => Finding::good(about, "this cluster follows another one"),
        (true, true) => Finding::good(
            about,
            "none on this machine has the same key; other machines are not looked at",
        ),
        (true, false) => Finding::advice(
            about,
            format_args!(
                "{} has the same key and is a primary too, and a reader of the files of both learns \
                which blocks are equal: give one of them its own key with `pgseal rekey`",
                same.join(", ")
            ),
        ),
    }
}

fn is_primary(data: &Path) -> bool {
    !FOLLOWS.iter().any(|name| data.join(name).exists())
}

/// Returns the id in a key file, if it can be read.
fn key_of(data: &Path) -> Option<KeyId> {
    let dir = KeyDir::of(data);
    match dir.open().ok()?.0 {
        KeyImage::File(file) => Some(file.header().key_id),
        KeyImage::Raw(_) => Some(dir.header().ok()?.key_id),
    }
}
