//! Which clusters a command line is about.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pgseal_keys::cluster::{ClusterError, Root};

/// Variables that name data directories; the last two are `pg_upgrade`'s.
const VARIABLES: [&str; 3] = ["PGDATA", "PGDATAOLD", "PGDATANEW"];

/// Returns what may be a path among `args` (`-D x`, `-Dx`, `--pgdata=x`, `x`), and in the
/// environment.
pub fn candidates(args: &[OsString]) -> Vec<PathBuf> {
    let named = args
        .iter()
        .map(|arg| value_of(arg.as_bytes()))
        .filter(|value| is_path(value));
    let defaults = VARIABLES.iter().filter_map(env::var_os);
    let defaults = defaults.filter(|value| !value.is_empty());
    named
        .map(|value| PathBuf::from(OsStr::from_bytes(value)))
        .chain(defaults.map(PathBuf::from))
        .collect()
}

/// Returns the sealed clusters that `paths` lie in, each once.
pub fn sealed_roots(paths: &[PathBuf]) -> Result<Vec<Root>, ClusterError> {
    let mut roots = Vec::<Root>::new();
    for path in paths {
        let Some(found) = Root::around(path)? else {
            continue;
        };
        match roots.iter_mut().find(|root| root.path == found.path) {
            Some(root) => root.aliases.extend(found.aliases),
            None => roots.push(found),
        }
    }
    for root in &mut roots {
        root.aliases.sort();
        root.aliases.dedup();
    }
    Ok(roots)
}

/// The value that an argument is or carries.
fn value_of(arg: &[u8]) -> &[u8] {
    if arg.starts_with(b"--") {
        let equals = arg.iter().position(|&byte| byte == b'=');
        return equals.map_or(&[], |at| &arg[at + 1..]);
    }
    if arg.starts_with(b"-") {
        return arg.get(2..).unwrap_or_default();
    }
    arg
}

/// A word without a slash is a path only if such a file exists.
fn is_path(value: &[u8]) -> bool {
    let path = Path::new(OsStr::from_bytes(value));
    !value.is_empty() && (value.contains(&b'/') || path.symlink_metadata().is_ok())
}
