//! The settings of this machine for unlocking: `/etc/pgseal/policy.toml`, `/etc/pgseal/<cluster
//! id>.toml` and `/etc/pgseal/default.toml`.
//!
//! `policy.toml`: `policy = "external"` lets no command from a data directory run; `require_fips =
//! true` lets nothing run that FIPS 140-3 does not approve; `audit_log` names a file.
//! `<cluster id>.toml`: `key_unwrap_command`, `encryption_key_command`, `key_provider`,
//! `passphrase_file`.
//! `default.toml`: the same for each cluster that has no file of its own, and `initdb_options`. A
//! machine that runs one cluster, such as a container, has it before the cluster has an id.
//!
//! Invariant: a file that users other than root can write is refused, not passed over: it would
//! decide what runs as the server's user.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use pgseal_format::ClusterId;

use crate::exit::{Code, Exit};
use crate::settings::Settings;

const DIR: &str = "/etc/pgseal";
/// The file for clusters that have none of their own.
const DEFAULT: &str = "default.toml";

/// Why the machine's settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    #[error("{0} cannot be read ({1}): check its mode")]
    Read(PathBuf, io::Error),
    #[error("{0} cannot be entered ({1}): chmod a+x it, for it may say how clusters are unlocked")]
    Enter(PathBuf, io::Error),
    #[error("{0} must belong to root and be writable by root alone: chown root and chmod go-w it")]
    Owner(PathBuf),
    #[error("{0} is not understood: {1}")]
    Syntax(PathBuf, String),
}

impl Exit for MachineError {
    fn code(&self) -> Code {
        Code::Provider
    }
}

/// The machine's settings for one cluster.
#[derive(Debug, Default, PartialEq)]
pub struct Cluster {
    pub key_unwrap_command: Option<String>,
    pub encryption_key_command: Option<String>,
    pub key_provider: Option<String>,
    pub passphrase_file: Option<PathBuf>,
}

impl Cluster {
    fn of(mut settings: Settings) -> Result<Self, String> {
        let cluster = Self::taken(&mut settings)?;
        settings.finish().map(|()| cluster)
    }

    fn taken(settings: &mut Settings) -> Result<Self, String> {
        Ok(Self {
            key_unwrap_command: settings.take("key_unwrap_command")?,
            encryption_key_command: settings.take("encryption_key_command")?,
            key_provider: settings.take("key_provider")?,
            passphrase_file: settings.take("passphrase_file")?.map(PathBuf::from),
        })
    }
}

/// The settings of `default.toml`.
#[derive(Debug, Default, PartialEq)]
struct Defaults {
    cluster: Cluster,
    initdb_options: Option<String>,
}

impl Defaults {
    fn of(mut settings: Settings) -> Result<Self, String> {
        let defaults = Self {
            cluster: Cluster::taken(&mut settings)?,
            initdb_options: settings.take("initdb_options")?,
        };
        settings.finish().map(|()| defaults)
    }
}

/// The settings of `policy.toml`, for all clusters of this machine.
#[derive(Debug, Default, PartialEq)]
struct Policy {
    /// no stored command may run
    external: bool,
    audit_log: Option<PathBuf>,
    /// only approved functions may run
    requires_fips: bool,
}

impl Policy {
    fn of(mut settings: Settings) -> Result<Self, String> {
        let policy = settings.take("policy")?;
        let audit_log = settings.take("audit_log")?.map(PathBuf::from);
        let requires_fips = settings.take_truth("require_fips")?;
        settings.finish()?;
        let external = match policy.as_deref() {
            None | Some("stored") => false,
            Some("external") => true,
            Some(other) => return Err(format!("policy is {other}, not stored or external")),
        };
        Ok(Self {
            external,
            audit_log,
            requires_fips,
        })
    }
}

/// A directory of settings, and who must own it.
pub struct Machine<'a> {
    dir: &'a Path,
    owner: u32,
}

impl Machine<'static> {
    /// Returns the settings of this machine.
    pub fn this() -> Self {
        Self {
            dir: Path::new(DIR),
            owner: 0,
        }
    }
}

impl Machine<'_> {
    /// Whether no stored command may run.
    pub fn is_external(&self) -> Result<bool, MachineError> {
        self.policy().map(|policy| policy.external)
    }

    /// Whether only functions may run that FIPS 140-3 approves.
    pub fn requires_fips(&self) -> Result<bool, MachineError> {
        self.policy().map(|policy| policy.requires_fips)
    }

    /// Returns the file of the audit log of keys, if the machine names one.
    pub fn audit_log(&self) -> Result<Option<PathBuf>, MachineError> {
        self.policy().map(|policy| policy.audit_log)
    }

    fn policy(&self) -> Result<Policy, MachineError> {
        self.read("policy.toml", Policy::of)
    }

    /// Reads the settings of one cluster: those in its own file, or else the default ones. The two
    /// are not merged.
    pub fn cluster(&self, id: ClusterId) -> Result<Cluster, MachineError> {
        match self.own_file(id) {
            Some(name) => self.read(&name, Cluster::of),
            None => self.defaults().map(|defaults| defaults.cluster),
        }
    }

    /// Returns the path of a cluster's settings, whether or not they exist.
    pub fn of_cluster(&self, id: ClusterId) -> PathBuf {
        let own = self.own_file(id);
        self.dir.join(own.as_deref().unwrap_or(DEFAULT))
    }

    /// Returns the options of every initdb that makes a sealed cluster, if the machine has some.
    pub fn initdb_options(&self) -> Result<Option<String>, MachineError> {
        self.defaults().map(|defaults| defaults.initdb_options)
    }

    fn defaults(&self) -> Result<Defaults, MachineError> {
        self.read(DEFAULT, Defaults::of)
    }

    /// Returns the name of a cluster's own file, unless it is certain that there is none. A file
    /// that cannot be looked at is reported when it is read.
    fn own_file(&self, id: ClusterId) -> Option<String> {
        let name = format!("{id}.toml");
        let found = fs::symlink_metadata(self.dir.join(&name));
        let is_missing = matches!(&found, Err(error) if error.kind() == io::ErrorKind::NotFound);
        (!is_missing).then_some(name)
    }

    /// Reads a file, which `understand` takes apart. A file that is not there says nothing.
    fn read<T: Default>(
        &self,
        name: &str,
        understand: impl FnOnce(Settings) -> Result<T, String>,
    ) -> Result<T, MachineError> {
        let path = self.dir.join(name);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(T::default()),
            Err(error) => return Err(self.unreadable(path, error)),
        };
        for path in [&path, self.dir] {
            let metadata = fs::metadata(path);
            let metadata = metadata.map_err(|error| MachineError::Read(path.to_owned(), error))?;
            if !self.is_trusted(&metadata) {
                return Err(MachineError::Owner(path.to_owned()));
            }
        }
        let understood = Settings::parse(&text).and_then(understand);
        understood.map_err(|why| MachineError::Syntax(path, why))
    }

    /// Returns the error for a file that cannot be read. A directory that cannot be entered hides
    /// whether there is such a file.
    fn unreadable(&self, path: PathBuf, error: io::Error) -> MachineError {
        match fs::symlink_metadata(&path) {
            Err(hidden) if hidden.kind() == io::ErrorKind::PermissionDenied => {
                MachineError::Enter(self.dir.to_owned(), hidden)
            }
            _ => MachineError::Read(path, error),
        }
    }

    fn is_trusted(&self, metadata: &Metadata) -> bool {
        metadata.uid() == self.owner && metadata.mode() & 0o022 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::unistd::{setfsuid, Uid};
    use std::os::unix::fs::PermissionsExt;

    const ID: ClusterId = ClusterId([0xab; 16]);

    struct Etc(tempfile::TempDir);

    impl Etc {
        fn new() -> Self {
            Self(tempfile::tempdir().expect("a directory"))
        }

        fn write(&self, name: &str, text: &str, mode: u32) {
            let path = self.0.path().join(name);
            fs::write(&path, text).expect("a file");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
        }

        fn machine(&self) -> Machine<'_> {
            let owner = fs::metadata(self.0.path()).expect("it exists").uid();
            Machine {
                dir: self.0.path(),
                owner,
            }
        }
    }

    /// What cannot be read may forbid something, so it is not passed over.
    #[test]
    fn a_policy_that_cannot_be_read_is_an_error() {
        let etc = Etc::new();
        fs::create_dir(etc.0.path().join("policy.toml")).expect("a directory");
        let read = etc.machine().is_external();
        assert!(matches!(read, Err(MachineError::Read(..))));
    }

    /// Whether there is a policy is not known then.
    #[test]
    fn a_directory_that_cannot_be_entered_is_an_error() {
        let etc = Etc::new();
        let machine = etc.machine();
        let enter = |mode| fs::set_permissions(machine.dir, fs::Permissions::from_mode(mode));
        enter(0o000).expect("it is ours");
        let read = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                // Root enters every directory, but this thread of root does not.
                setfsuid(Uid::from_raw(65534));
                machine.is_external()
            });
            reader.join().expect("no panic")
        });
        enter(0o700).expect("it is ours");
        assert!(matches!(read, Err(MachineError::Enter(..))), "{read:?}");
        let gone = machine.unreadable("/nonexistent".into(), io::ErrorKind::Other.into());
        assert!(matches!(gone, MachineError::Read(..)));
    }

    #[test]
    fn nothing_is_said_by_default() {
        let etc = Etc::new();
        assert!(!etc.machine().is_external().expect("no file"));
        assert_eq!(
            etc.machine().cluster(ID).expect("no file"),
            Cluster::default()
        );
    }

    #[test]
    fn settings_are_read() {
        let etc = Etc::new();
        etc.write("policy.toml", "policy = \"external\"\n", 0o644);
        let name = format!("{ID}.toml");
        assert_eq!(name, "abababababababababababababababab.toml");
        etc.write(&name, "key_unwrap_command = 'cat \"%p\"'\n", 0o600);
        assert!(etc.machine().is_external().expect("a good file"));
        assert_eq!(etc.machine().audit_log().expect("a good file"), None);
        etc.write("policy.toml", "audit_log = '/var/log/keys'\n", 0o644);
        assert!(!etc.machine().is_external().expect("a good file"));
        assert!(!etc.machine().requires_fips().expect("a good file"));
        etc.write(
            "policy.toml",
            "require_fips = true\naudit_log = '/var/log/keys'\n",
            0o644,
        );
        assert!(etc.machine().requires_fips().expect("a good file"));
        let log = etc.machine().audit_log().expect("a good file");
        assert_eq!(log, Some(PathBuf::from("/var/log/keys")));
        let cluster = etc.machine().cluster(ID).expect("a good file");
        assert_eq!(cluster.key_unwrap_command.as_deref(), Some("cat \"%p\""));
    }

    #[test]
    fn clusters_without_a_file_have_the_default_settings() {
        let etc = Etc::new();
        let default = "passphrase_file = '/default'\ninitdb_options = '--data-encryption'\n";
        etc.write("default.toml", default, 0o644);
        let cluster = etc.machine().cluster(ID).expect("a good file");
        assert_eq!(cluster.passphrase_file, Some(PathBuf::from("/default")));
        assert_eq!(
            etc.machine().of_cluster(ID),
            etc.0.path().join("default.toml")
        );
        let options = etc.machine().initdb_options().expect("a good file");
        assert_eq!(options.as_deref(), Some("--data-encryption"));
        let own = format!("{ID}.toml");
        etc.write(&own, "key_provider = 'tpm:'\n", 0o644);
        let cluster = etc.machine().cluster(ID).expect("a good file");
        assert_eq!(cluster.key_provider.as_deref(), Some("tpm:"));
        assert_eq!(cluster.passphrase_file, None);
        assert_eq!(etc.machine().of_cluster(ID), etc.0.path().join(&own));
        etc.write(&own, "initdb_options = '--data-encryption'\n", 0o644);
        assert!(matches!(
            etc.machine().cluster(ID),
            Err(MachineError::Syntax(..))
        ));
    }

    #[test]
    fn the_directory_may_be_a_link() {
        let etc = Etc::new();
        etc.write("default.toml", "passphrase_file = '/default'\n", 0o644);
        let link = etc.0.path().join("link");
        std::os::unix::fs::symlink(etc.0.path(), &link).expect("a link");
        let machine = Machine {
            dir: &link,
            ..etc.machine()
        };
        let cluster = machine.cluster(ID).expect("a good file");
        assert_eq!(cluster.passphrase_file, Some(PathBuf::from("/default")));
        fs::set_permissions(etc.0.path(), fs::Permissions::from_mode(0o777)).expect("a mode");
        assert!(matches!(machine.cluster(ID), Err(MachineError::Owner(_))));
    }

    #[test]
    fn what_others_can_write_is_refused() {
        let etc = Etc::new();
        etc.write("policy.toml", "policy = \"stored\"\n", 0o664);
        assert!(matches!(
            etc.machine().is_external(),
            Err(MachineError::Owner(_))
        ));
        etc.write("policy.toml", "policy = \"stored\"\n", 0o644);
        let stranger = Machine {
            owner: etc.machine().owner + 1,
            ..etc.machine()
        };
        assert!(matches!(
            stranger.is_external(),
            Err(MachineError::Owner(_))
        ));
    }

    #[test]
    fn a_misspelt_policy_is_not_passed_over() {
        let etc = Etc::new();
        for text in [
            "policy = external\n",
            "policy = \"extern\"\n",
            "polcy = \"external\"\n",
            "require_fips = \"true\"\n",
            "require-fips = true\n",
        ] {
            etc.write("policy.toml", text, 0o644);
            assert!(
                matches!(etc.machine().is_external(), Err(MachineError::Syntax(..))),
                "{text}"
            );
        }
    }
}
