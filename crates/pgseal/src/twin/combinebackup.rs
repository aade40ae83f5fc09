//! The twin of pg_combinebackup: the synthetic full backup is sealed as its last input is.
//!
//! States, as of a base backup: (1) the inputs' keys are at hand, and the output's is that of the
//! last input; (2) pg_combinebackup is through, and nobody can open what it wrote; (3) the last
//! input's `key.bin` is in place there.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use super::basebackup::{check_sealed, BackupError};
use super::getopt::PG_COMBINEBACKUP;
use super::options::{self, Split};
use super::{help, paths, pin, Twin};
use crate::cluster::Root;
use crate::exit::Failure;
use crate::keybin::{KeyDir, DIR};
use crate::supervise::code_of;
use crate::unlock::{unlock, Unlocked};

/// pg_combinebackup, sealed if an input is.
pub fn run(twin: &Twin, args: Vec<OsString>) -> Result<ExitCode, Failure> {
    let split = options::split("pg_combinebackup", args)?;
    let given = PG_COMBINEBACKUP.read(&split.rest);
    let inputs: Vec<PathBuf> = given.words.iter().map(PathBuf::from).collect();
    let roots = paths::sealed_roots(&inputs)?;
    let (Some(output), Some(last)) = (given.value("o"), inputs.last()) else {
        return Err(twin.sealed(&split.rest)?.exec());
    };
    if help::is_informative(&split.rest) || roots.is_empty() {
        pin::check_plain(&inputs)?;
        return Err(twin.sealed(&split.rest)?.exec());
    }
    let Some(last) = Root::around(last)? else {
        return Err(BackupError::LastInput(last.clone()).into());
    };
    let output = Root::pending(Path::new(output))?;
    let key_dir = output.path.join(DIR);
    if key_dir.exists() {
        return Err(BackupError::Exists(key_dir).into());
    }
    let clusters = unlocked(&split, roots, &last, &output)?;
    let mut sealed = twin.sealed(&split.rest)?;
    sealed.keys(&clusters)?;
    let status = sealed.run()?;
    if !status.success() || given.has("n") {
        return Ok(code_of(status));
    }
    commit(&last, &output, &clusters)
}

/// The inputs, opened. The output is reached as another path of the last one, whose key it gets.
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

fn commit(last: &Root, output: &Root, clusters: &[Unlocked]) -> Result<ExitCode, Failure> {
    check_sealed(&output.path)?;
    let image = KeyDir::of(&last.path).bytes()?;
    let cluster = clusters
        .iter()
        .find(|cluster| cluster.root.path == last.path);
    let header = &cluster.expect("the last input was opened").header;
    let created = KeyDir::of(&output.path).create(&image, header);
    created.map_err(BackupError::Commit)?;
    Ok(ExitCode::SUCCESS)
}
