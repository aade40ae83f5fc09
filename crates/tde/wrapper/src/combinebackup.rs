//! The wrapper of `pg_combinebackup`: the synthetic full backup is encrypted as its last input is,
//! if all inputs are encrypted.
//!
//! Links and clones share stored bytes, which mean something else under another key. With them,
//! all inputs must have the last one's key.
//!
//! States, as of a base backup: (1) the inputs' keys are at hand, and the output's is that of the
//! last input; (2) `pg_combinebackup` has finished, and what it wrote cannot be opened; (3) the
//! last input's `key.bin` is in place there.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pgseal_format::Header;
use pgseal_keys::cluster::Root;
use pgseal_keys::control_file;
use pgseal_keys::exit::Failure;
use pgseal_keys::key_set::KeySet;
use pgseal_keys::keybin::{KeyDir, DIR};
use pgseal_keys::unlock::{unlock, Unlocked};

use crate::basebackup::{check_sealed, BackupError};
use crate::getopt::{Given, PG_COMBINEBACKUP};
use crate::options::{self, Split};
use crate::source::SEGMENT_SIZE;
use crate::supervise::code_of;
use crate::{help, paths, pin, Wrapper};

/// Runs `pg_combinebackup`, sealed if an input is.
pub fn run(wrapper: &Wrapper, args: Vec<OsString>) -> Result<ExitCode, Failure> {
    let split = options::split("pg_combinebackup", args)?;
    let given = PG_COMBINEBACKUP.read(&split.rest);
    let inputs: Vec<PathBuf> = given.words.iter().map(PathBuf::from).collect();
    let roots = paths::sealed_roots(&inputs)?;
    let (Some(output), Some(last)) = (given.value("o"), inputs.last()) else {
        return Err(wrapper.sealed(&split.rest)?.exec());
    };
    if help::is_informative(&split.rest) || roots.is_empty() {
        pin::check_plain(&inputs)?;
        return Err(wrapper.sealed(&split.rest)?.exec());
    }
    let Some(last) = Root::around(last)? else {
        return Err(BackupError::LastInput(last.clone()).into());
    };
    let output = Root::pending(Path::new(output))?;
    let key_dir = output.path.join(DIR);
    if key_dir.exists() {
        return Err(BackupError::Exists(key_dir).into());
    }
    check_all_sealed(&inputs)?;
    let clusters = unlocked(&split, roots, &last, &output)?;
    let as_last = of(&clusters, &last).expect("the last input was opened");
    check_sharing(&given, &inputs, &clusters, as_last)?;
    wrapper.asked()?;
    let mut sealed = wrapper.sealed(&split.rest)?;
    sealed.keys(&KeySet::of(&clusters))?;
    // Segments may be copied before pg_control, which says how long they are: directories have no
    // order. What cannot be read is pg_combinebackup's to report.
    let control = control_file::read(&last.path, &as_last.master, as_last.header.length);
    if let Ok(Ok(control)) = control.map(|read| read.said) {
        sealed.tell(SEGMENT_SIZE, control.wal_segment_size.to_string());
    }
    let status = sealed.run()?;
    if !status.success() || given.has("n") {
        return Ok(code_of(status));
    }
    commit(&last, &output, as_last)
}

fn of<'a>(clusters: &'a [Unlocked], root: &Root) -> Option<&'a Unlocked> {
    clusters
        .iter()
        .find(|cluster| cluster.root.path == root.path)
}

/// Refuses a plain input: it would be encrypted into the result, and nothing vouches for what it
/// holds.
fn check_all_sealed(inputs: &[PathBuf]) -> Result<(), Failure> {
    for input in inputs {
        if Root::around(input)?.is_none() {
            return Err(BackupError::PlainInput(input.clone()).into());
        }
    }
    Ok(())
}

/// Checks that every input has the key that the output gets, if `--link` or `--clone` is given.
fn check_sharing(
    given: &Given,
    inputs: &[PathBuf],
    clusters: &[Unlocked],
    as_last: &Unlocked,
) -> Result<(), Failure> {
    let method = given.last_of(&["k", "clone", "copy", "copy-file-range"]);
    let Some(option) = method.and_then(|method| match method {
        "k" => Some("link"),
        "clone" => Some("clone"),
        _ => None,
    }) else {
        return Ok(());
    };
    let meant = |header: &Header| (header.key_id, header.length);
    for input in inputs {
        let root = Root::around(input)?;
        let cluster = root.and_then(|root| of(clusters, &root));
        if cluster.map(|cluster| meant(&cluster.header)) != Some(meant(&as_last.header)) {
            return Err(BackupError::Sharing(input.clone(), option).into());
        }
    }
    Ok(())
}

/// Opens the inputs. The output is another path of the last input, whose key it gets.
fn unlocked(
    split: &Split,
    roots: Vec<Root>,
    last: &Root,
    output: &Root,
) -> Result<Vec<Unlocked>, Failure> {
    let mut clusters = Vec::new();
    for mut root in roots {
        if root.path == last.path {
            root.aliases.push(output.path.clone());
            root.aliases.extend(output.aliases.iter().cloned());
        }
        let cluster = unlock(root, &split.ways())?;
        pin::check_key(&cluster)?;
        clusters.push(cluster);
    }
    Ok(clusters)
}

fn commit(last: &Root, output: &Root, as_last: &Unlocked) -> Result<ExitCode, Failure> {
    check_sealed(&output.path)?;
    let image = KeyDir::of(&last.path).bytes()?;
    let created = KeyDir::of(&output.path).create(&image, &as_last.header);
    created.map_err(BackupError::Commit)?;
    Ok(ExitCode::SUCCESS)
}
