//! The versions of pgseal that take part: that of this command, of the library that wrappers load,
//! and of the library in a running server, which may be an older one. `status` and `doctor` show
//! them.

use std::path::{Path, PathBuf};

use pgseal_contract::file;
use pgseal_keys::exit::Failure;
use pgseal_keys::server::Server;
use pgseal_wrapper::ask::ask;
use pgseal_wrapper::launch;
use serde::Serialize;

/// The text for a version that nothing says.
pub const NOT_KNOWN: &str = "not known";

/// The versions, each as the program or library itself says it.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Versions {
    pub command: &'static str,
    /// None if there is no library, or if it cannot be loaded or does not say its version.
    pub library: Option<String>,
    /// None if no server runs with the library, or if it does not show its version.
    pub server_library: Option<String>,
}

impl Versions {
    /// Returns the versions, with the answer of the library and what the server has mapped.
    pub fn of(
        command: &'static str,
        library: &Result<Library, Failure>,
        loaded: Option<&Loaded>,
    ) -> Self {
        let library = library.as_ref().ok();
        Self {
            command,
            library: library.and_then(|library| library.version.clone()),
            server_library: loaded.and_then(|loaded| loaded.version.clone()),
        }
    }
}

/// The library that wrappers load.
#[derive(Debug)]
pub struct Library {
    pub path: PathBuf,
    /// None if it is older than versions.
    pub version: Option<String>,
}

impl Library {
    /// Finds the library beside this command, and asks it: this command is started with it.
    pub fn installed() -> Result<Self, Failure> {
        let path = launch::library()?;
        let pgseal = launch::pgseal()?;
        let version = ask(&pgseal, &pgseal)?.library;
        Ok(Self { path, version })
    }
}

/// The library that a process has loaded.
#[derive(Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Its path when it was loaded, in the process's own view of the file system.
    pub path: PathBuf,
    /// Whether the file was replaced or removed since.
    pub is_replaced: bool,
    /// None if it is older than versions, or if the kernel refused the mapping that shows one.
    pub version: Option<String>,
}

impl Loaded {
    /// Returns the library of a server; none if it has none or cannot be inspected.
    pub fn of(server: &Server) -> Option<Self> {
        let pid = server.pid()?;
        Self::in_maps(&std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?)
    }

    /// Returns the library in `/proc/PID/maps`. A line is five words and a path, behind which the
    /// kernel writes ` (deleted)` if that path does not lead to the file any more.
    pub fn in_maps(maps: &str) -> Option<Self> {
        let paths = || {
            maps.lines()
                .filter_map(|line| Some(&line[line.find('/')?..]))
        };
        let (path, is_replaced) = paths()
            .map(without_mark)
            .find(|(path, _)| path.ends_with(file::LIBRARY.as_str()))?;
        let version = paths().find_map(|path| {
            let name = without_mark(path).0.strip_prefix("/memfd:")?;
            name.strip_prefix(file::LIBRARY_MAPPING.as_str())
        });
        Some(Self {
            path: path.into(),
            is_replaced,
            version: version.map(str::to_owned),
        })
    }

    /// Whether the library is the file that wrappers load now.
    pub fn is(&self, path: &Path) -> bool {
        !self.is_replaced && self.path == path
    }
}

/// Returns a path without the kernel's mark, and whether the mark was there.
fn without_mark(path: &str) -> (&str, bool) {
    match path.strip_suffix(" (deleted)") {
        Some(path) => (path, true),
        None => (path, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "7f00-7f01 r-xp 00001000 08:01 7   /usr/lib/x86_64-linux-gnu/libc.so.6\n\
                       7f02-7f03 r-xp 00001000 08:01 8   /opt/pgseal/lib/libpgseal.so\n\
                       7f04-7f05 rw-p 00000000 00:00 0\n";

    #[test]
    fn a_library_shows_its_version() {
        let maps = format!(
            "{OLD}7f06-7f07 ---s 00000000 00:01 9   \
             /memfd:libpgseal 0.1.0 (commit 0f04deb9a1b2, release build) (deleted)\n"
        );
        let found = Loaded::in_maps(&maps).expect("it is there");
        let version = "0.1.0 (commit 0f04deb9a1b2, release build)";
        assert_eq!(found.version.as_deref(), Some(version));
        assert!(found.is(Path::new("/opt/pgseal/lib/libpgseal.so")));
        assert!(!found.is(Path::new("/usr/lib/libpgseal.so")));
    }

    #[test]
    fn one_from_before_versions_shows_none() {
        let found = Loaded::in_maps(OLD).expect("it is there");
        assert_eq!((found.version, found.is_replaced), (None, false));
    }

    #[test]
    fn one_that_was_replaced_is_marked() {
        let maps = OLD.replace("libpgseal.so", "libpgseal.so (deleted)");
        let found = Loaded::in_maps(&maps).expect("it is there");
        assert!(found.is_replaced && !found.is(&found.path));
    }

    #[test]
    fn a_process_without_the_library_has_none() {
        assert_eq!(Loaded::in_maps(""), None);
        assert_eq!(
            Loaded::in_maps("7f02-7f03 r-xp 00001000 08:01 8   /libpgseal.so.bak\n"),
            None
        );
    }
}
