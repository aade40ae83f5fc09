//! Which clusters a command line is about.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use pgseal_contract::program::Role;
use pgseal_keys::cluster::{ClusterError, Root};

use crate::getopt::{Options, PG_CTL, POSTGRES};

/// Variables that name data directories; the last two are `pg_upgrade`'s.
const VARIABLES: [&str; 3] = ["PGDATA", "PGDATAOLD", "PGDATANEW"];

/// Returns the paths that a program of this role takes from its command line and its environment.
///
/// A server and `pg_ctl` are told their data directory by options alone. Their other words, such
/// as the database of `postgres --single template1`, may also be names of directories here.
pub fn of_program(role: Role, args: &[OsString]) -> Vec<PathBuf> {
    match role {
        Role::Server => data_directories(&POSTGRES, args),
        Role::PgCtl => data_directories(&PG_CTL, args),
        Role::Client | Role::Dump | Role::Tool => candidates(args),
    }
}

/// Returns the directory of `-D`, or else of `PGDATA`, and the setting `data_directory`, which
/// counts where `-D` names a directory of configuration files.
fn data_directories(options: &Options, args: &[OsString]) -> Vec<PathBuf> {
    let given = options.read(args);
    let named = given.value("D").map(OsString::from);
    let named = named.or_else(|| env::var_os("PGDATA"));
    let settings = given.values("c").filter_map(data_directory);
    let long = given.values("data_directory").map(OsString::from);
    named
        .into_iter()
        .chain(settings)
        .chain(long)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
        .collect()
}

/// The value in `-c data_directory=value`. The server takes `-` for `_`, and any case.
fn data_directory(setting: &OsStr) -> Option<OsString> {
    let bytes = setting.as_bytes();
    let equals = bytes.iter().position(|&byte| byte == b'=')?;
    let name = String::from_utf8_lossy(&bytes[..equals]).replace('-', "_");
    name.eq_ignore_ascii_case("data_directory")
        .then(|| OsStr::from_bytes(&bytes[equals + 1..]).to_owned())
}

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

#[cfg(test)]
mod tests {
    use super::*;

    fn of(role: Role, args: &[&str]) -> Vec<PathBuf> {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        of_program(role, &args)
    }

    #[test]
    fn a_server_is_told_its_directory_by_options_alone() {
        for args in [
            &["--single", "-D", "/", "-j", "src"][..],
            &["-D/", "-c", "log_directory=src", "--config_file=src/lib.rs"],
            &["-D", "src", "-D", "/"],
        ] {
            assert_eq!(of(Role::Server, args), [Path::new("/")], "{args:?}");
        }
        assert_eq!(
            of(Role::PgCtl, &["src", "-D", "/", "-l", "src"]),
            [Path::new("/")]
        );
    }

    #[test]
    fn a_directory_of_configuration_beside_the_data() {
        let both = [Path::new("/etc"), Path::new("/var")];
        for setting in [
            "--data-directory=/var",
            "--data_directory=/var",
            "-cData-Directory=/var",
        ] {
            assert_eq!(
                of(Role::Server, &["-D", "/etc", setting]),
                both,
                "{setting}"
            );
        }
    }

    #[test]
    fn a_tool_is_given_paths_in_any_form() {
        let paths = [Path::new("src"), Path::new("/no/such"), Path::new("src")];
        // PGDATA may follow.
        assert!(of(Role::Tool, &["-Dsrc", "none", "--to=/no/such", "src"])
            .starts_with(&paths.map(PathBuf::from)));
    }
}
