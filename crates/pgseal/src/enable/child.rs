//! The programs that the steps run, and what is done with the rights of the server's user.
//!
//! Invariant: a file or directory that the server's user may change is written with that user's
//! rights, because a link in its place could lead anywhere.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::unistd::{getgroups, initgroups, setegid, seteuid, setgroups, Gid, Uid, User};
use pgseal_keys::exit::Failure;
use pgseal_wrapper::launch;
use std::ffi::CString;
use tempfile::NamedTempFile;

use super::EnableError;

/// Where root's programs are found. Those of the caller's PATH could be another user's.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The server's user, who owns the data directory.
#[derive(Clone, Debug)]
pub struct Owner {
    pub uid: Uid,
    pub gid: Gid,
    pub name: String,
}

impl Owner {
    /// Returns the owner of a data directory, who may not be root.
    pub fn of(data: &Path) -> Result<Self, EnableError> {
        let unreadable = |error| EnableError::Data(data.to_owned(), error);
        let metadata = fs::metadata(data).map_err(unreadable)?;
        let uid = Uid::from_raw(metadata.uid());
        let user = User::from_uid(uid).ok().flatten();
        match user.filter(|_| !uid.is_root()) {
            Some(user) => Ok(Self {
                uid,
                gid: user.gid,
                name: user.name,
            }),
            None => Err(EnableError::Owner(data.to_owned())),
        }
    }

    /// Does something with this user's rights.
    pub fn act<T>(&self, what: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let _rights = Rights::take(self)?;
        what()
    }
}

/// The rights of another user, until this is dropped.
struct Rights {
    groups: Vec<Gid>,
}

impl Rights {
    fn take(owner: &Owner) -> io::Result<Self> {
        let rights = Self {
            groups: getgroups()?,
        };
        let name = CString::new(owner.name.as_str()).map_err(|_| ErrorKind::InvalidInput)?;
        initgroups(&name, owner.gid)?;
        setegid(owner.gid)?;
        seteuid(owner.uid)?;
        Ok(rights)
    }
}

impl Drop for Rights {
    fn drop(&mut self) {
        // Root gets back what it had; going on with less would fail closed.
        let _ = seteuid(Uid::from_raw(0));
        let _ = setegid(Gid::from_raw(0));
        let _ = setgroups(&self.groups);
    }
}

/// One program with its arguments and variables.
pub struct Program {
    command: Command,
    name: String,
    /// Read by a shell before it becomes the program; empty without a shell.
    script: String,
}

/// The shell of a program that another user's variables are for. It reads the descriptor, because
/// that user may not open root's pipe by its name.
const READ_VARIABLES: &str = "eval \"$(cat)\" && exec \"$0\" \"$@\" </dev/null";

impl Program {
    /// A program of this machine, by its name, as root.
    pub fn root(name: &str) -> Self {
        let mut command = Command::new(name);
        command.env_clear().env("PATH", PATH).env("LANG", "C.UTF-8");
        command.current_dir("/").stdin(Stdio::null());
        Self {
            command,
            name: name.to_owned(),
            script: String::new(),
        }
    }

    /// A program as the server's user, in the environment of the server. That user writes the
    /// variables, and some of them load libraries: no program of root's has them, and no list of
    /// processes shows them.
    pub fn owner(owner: &Owner, program: &Path, environment: &BTreeMap<String, String>) -> Self {
        let mut own = Self::root("setpriv");
        own.command
            .arg(format!("--reuid={}", owner.uid))
            .arg(format!("--regid={}", owner.gid))
            .args(["--init-groups", "--", "/bin/sh", "-c", READ_VARIABLES])
            .arg(program)
            .stdin(Stdio::piped());
        let name = program.file_name().unwrap_or_default();
        own.name = name.to_string_lossy().into_owned();
        own.script = exports(environment);
        own
    }

    /// This command as the server's user.
    pub fn pgseal(
        owner: &Owner,
        environment: &BTreeMap<String, String>,
        subcommand: &str,
    ) -> Result<Self, Failure> {
        let mut own = Self::owner(owner, &launch::pgseal()?, environment);
        own.name = format!("pgseal {subcommand}");
        Ok(own.arg(subcommand))
    }

    pub fn arg(mut self, argument: impl AsRef<OsStr>) -> Self {
        self.command.arg(argument);
        self
    }

    pub fn args(mut self, arguments: impl IntoIterator<Item = OsString>) -> Self {
        self.command.args(arguments);
        self
    }

    /// Adds words to the name that messages give the program.
    pub fn named(mut self, words: &str) -> Self {
        self.name = format!("{} {words}", self.name);
        self
    }

    /// Runs it to its end; what it prints is seen by the operator.
    pub fn run(mut self) -> Result<(), EnableError> {
        let status = self.begin().and_then(|mut child| child.wait());
        let status = status.map_err(|error| EnableError::Start(self.name.clone(), error))?;
        match status.success() {
            true => Ok(()),
            false => Err(EnableError::program(self.name, status.code())),
        }
    }

    /// Runs it to its end, and returns its exit code and what it printed.
    pub fn output(mut self) -> Result<(Option<i32>, String), EnableError> {
        self.command.stdout(Stdio::piped());
        let output = self.begin().and_then(Child::wait_with_output);
        let output = output.map_err(|error| EnableError::Start(self.name.clone(), error))?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok((output.status.code(), text))
    }

    /// Starts it. What the shell reads fits a pipe, or waits until the shell reads.
    fn begin(&mut self) -> io::Result<Child> {
        let mut child = self.command.spawn()?;
        if let Some(mut stdin) = child.stdin.take() {
            stdin.write_all(self.script.as_bytes())?;
        }
        Ok(child)
    }

    /// Returns the text that it printed, without the end of the last line; it must succeed.
    pub fn answer(self) -> Result<String, EnableError> {
        let name = self.name.clone();
        match self.output()? {
            (Some(0), text) => Ok(text.trim_end().to_owned()),
            (code, _) => Err(EnableError::program(name, code)),
        }
    }
}

/// The variables as a shell reads them. A name that is none, or a value with a zero byte, which no
/// variable has, is left out.
fn exports(environment: &BTreeMap<String, String>) -> String {
    let is_name = |name: &str| {
        let mut bytes = name.bytes();
        let letter = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
        bytes.next().is_some_and(letter) && bytes.all(|byte| letter(byte) || byte.is_ascii_digit())
    };
    let named = environment.iter().filter(|(name, _)| is_name(name));
    let lines = named.filter_map(|(name, value)| {
        let value = shlex::try_quote(value).ok()?;
        Some(format!("export {name}={value}\n"))
    });
    lines.collect()
}

/// Writes a file in place of the one that is there: whole, or not at all. It keeps its mode.
pub fn replace(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let directory = path.parent().unwrap_or(Path::new("/"));
    let mode = fs::symlink_metadata(path).map_or(mode, |file| file.mode() & 0o777);
    let mut aside = NamedTempFile::new_in(directory)?;
    let permissions = fs::Permissions::from_mode(mode);
    aside.as_file().set_permissions(permissions)?;
    aside.write_all(text.as_bytes())?;
    aside.as_file().sync_all()?;
    aside.persist(path)?;
    File::open(directory)?.sync_all()
}

/// The text of a file; none if it is not there.
pub fn read(path: &Path) -> io::Result<Option<String>> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shell_reads_what_was_meant() {
        let given = [
            ("A", "it's $(id) `id` \\"),
            ("B", ""),
            ("C D", "x"),
            ("1", "x"),
            ("E", "\0"),
        ];
        let given = given.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let script = exports(&BTreeMap::from(given));
        assert_eq!(script.lines().count(), 2);
        let mut shell = Command::new("/bin/sh");
        let shell = shell.args(["-c", &format!("{script}printf '%s|%s' \"$A\" \"$B\"")]);
        let output = shell.output().expect("there is a shell");
        assert_eq!(output.stdout, b"it's $(id) `id` \\|");
    }
}
