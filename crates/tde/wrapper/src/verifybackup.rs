//! The wrapper of `pg_verifybackup`, which must know what a backup's manifest is about.
//!
//! The manifest of a raw backup holds checksums of what the sealed server stores, and names the key
//! file; any other manifest holds those of clear bytes and does not, because the key file is hidden
//! from base backups. So the manifest itself says it, and a raw backup is verified without the key.
//!
//! From version 2 of the manifest on, PostgreSQL 17's, `pg_verifybackup` also reads `pg_control`,
//! which needs the key. That file is left out then, and `pgseal verify` checks it.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use pgseal_contract::file;
use pgseal_keys::exit::Failure;

use crate::getopt::{Given, PG_VERIFYBACKUP};
use crate::{options, Wrapper};

const KEY_FILE: &str = file::KEY_PATH.as_str();
const CONTROL_FILE: &str = "global/pg_control";

/// Runs `pg_verifybackup`, sealed unless the backup is raw.
pub fn run(wrapper: &Wrapper, args: Vec<OsString>) -> Result<ExitCode, Failure> {
    let split = options::split("pg_verifybackup", args)?;
    let given = PG_VERIFYBACKUP.read(&split.rest);
    let manifest = manifest_path(&given).and_then(|path| fs::read_to_string(path).ok());
    let Some(manifest) = manifest.filter(|text| text.contains(KEY_FILE)) else {
        return wrapper.tool(split);
    };
    let mut args = split.rest;
    if !manifest.contains("\"PostgreSQL-Backup-Manifest-Version\": 1,") {
        args.insert(0, format!("--ignore={CONTROL_FILE}").into());
    }
    let mut sealed = wrapper.sealed(&args)?;
    sealed.stand_aside();
    Err(sealed.exec())
}

/// Returns the path of the manifest: that of `-m`, or in the backup.
fn manifest_path(given: &Given) -> Option<PathBuf> {
    let named = given.value("m").map(PathBuf::from);
    named.or_else(|| Some(Path::new(given.words.first()?).join("backup_manifest")))
}
