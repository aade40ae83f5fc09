//! Checks before a server starts: whether its key opens the cluster, and whether that can stay
//! sealed. PostgreSQL itself would report only that the checksum of `pg_control` is wrong: after a
//! restore without the key directory, with another cluster's key file, or by a backup tool that
//! was not in its view.

use std::path::PathBuf;

use pgseal_keys::check::check_key;
use pgseal_keys::cluster::{ClusterError, Root};
use pgseal_keys::control_file;
use pgseal_keys::exit::Failure;
use pgseal_keys::key_set::KeySet;

/// Checks the clusters that the server has keys for, or without keys those of its command line.
pub fn check(keys: Option<&KeySet>, paths: &[PathBuf]) -> Result<(), Failure> {
    match keys {
        Some(keys) => check_sealed(keys),
        None => check_plain(paths),
    }
}

/// Tries the keys on their clusters.
fn check_sealed(keys: &KeySet) -> Result<(), Failure> {
    let mut keys = keys.keys().iter();
    keys.try_for_each(|key| check_key(&key.root, &key.master, key.length))
}

fn check_plain(paths: &[PathBuf]) -> Result<(), Failure> {
    for path in paths {
        // PostgreSQL itself refuses what cannot be read.
        if Root::around(path)?.is_none() && control_file::is_sealed(path).unwrap_or(false) {
            return Err(ClusterError::NoKeyDirectory(path.clone()).into());
        }
    }
    Ok(())
}
