//! The sources of a passphrase: a file, a descriptor, or the terminal. It never comes from an
//! argument or the environment: other users see the one, other programs the other.

use std::env;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use nix::poll::PollTimeout;
use nix::sys::termios::{tcgetattr, tcsetattr, LocalFlags, SetArg, Termios};
use zeroize::Zeroizing;

use crate::interrupt::PutOff;

/// The variable that names the file of a passphrase.
pub const FILE: &str = "PGSEAL_PASSPHRASE_FILE";

/// The longest passphrase that is read.
const MAX: usize = 4096;

/// The most bytes that are taken from a file: a byte more shows that a passphrase is too long.
const MOST: u64 = MAX as u64 + 1;

/// The length below which a new passphrase is refused: such are guessed, whatever a guess costs.
const SHORT: usize = 8;

/// Why there is no passphrase.
#[derive(Debug, thiserror::Error)]
pub enum PassphraseError {
    #[error("the passphrase file {0} cannot be read ({1}): check its path, owner and mode")]
    File(PathBuf, io::Error),
    #[error("no passphrase is set, and there is no terminal to prompt on: {0}")]
    NoTerminal(String),
    #[error("no passphrase was typed: try again")]
    Nothing,
    #[error("the passphrase is empty: give one")]
    Empty,
    #[error("the passphrase is longer than {MAX} bytes: give a shorter one")]
    TooLong,
    #[error("the two passphrases differ: try again")]
    Differ,
    #[error("the new passphrase has fewer than {SHORT} bytes and can be guessed: give a longer one, or --allow-weak")]
    Weak,
}

/// The source to read from. What a pipe held is read once, and serves every slot and cluster.
#[derive(Clone, Default)]
pub struct Source {
    place: Place,
    /// the option of the present command that names a file
    option: Option<&'static str>,
    read: Arc<OnceLock<Secret>>,
}

type Secret = Zeroizing<Vec<u8>>;

#[derive(Clone, Default)]
enum Place {
    /// `PGSEAL_PASSPHRASE_FILE` if it is set, else the terminal.
    #[default]
    Default,
    /// A file.
    File(PathBuf),
    /// An open descriptor.
    Descriptor(i32),
}

impl Source {
    /// Returns the same source for a command with this option that names a file.
    pub fn by_option(self, option: &'static str) -> Self {
        Self {
            option: Some(option),
            ..self
        }
    }

    /// Is a user asked, who may be asked again?
    pub fn is_asked(&self) -> bool {
        matches!(self.place, Place::Default) && file_of_environment().is_none()
    }

    /// Returns whether no option names a file or a descriptor.
    pub fn is_unnamed(&self) -> bool {
        matches!(self.place, Place::Default)
    }

    /// Returns the source that two options name, the file first.
    pub fn of_options(file: Option<PathBuf>, fd: Option<i32>) -> Self {
        let place = match (file, fd) {
            (Some(file), _) => Place::File(file),
            (None, Some(fd)) => Place::Descriptor(fd),
            (None, None) => Place::Default,
        };
        Self {
            place,
            ..Self::default()
        }
    }

    /// Returns this source, or `file` if no source was named.
    pub fn or_file(&self, file: Option<PathBuf>) -> Self {
        match (&self.place, file) {
            (Place::Default, Some(file)) => Self::of_options(Some(file), None),
            _ => self.clone(),
        }
    }

    /// Returns the file that was named to hold it.
    pub fn file(&self) -> Option<PathBuf> {
        match &self.place {
            Place::File(path) => Some(path.clone()),
            Place::Default | Place::Descriptor(_) => None,
        }
    }

    /// Reads an existing passphrase. A user is asked each time, by `prompt`.
    pub fn read(&self, prompt: &str) -> Result<Secret, PassphraseError> {
        if let Some(read) = self.read.get() {
            return Ok(read.clone());
        }
        let secret = match &self.place {
            Place::File(path) => read_file(path),
            // Opening it again fails for a socket, and for another user's pipe.
            Place::Descriptor(0) => {
                let input = io::stdin().as_fd().try_clone_to_owned().map(File::from);
                read_from(input, Path::new("/proc/self/fd/0"))
            }
            Place::Descriptor(fd) => read_file(Path::new(&format!("/proc/self/fd/{fd}"))),
            Place::Default => match file_of_environment() {
                Some(path) => read_file(&path),
                None => return ask(prompt).map_err(|error| error.advised(&self.advice())),
            },
        }?;
        Ok(self.read.get_or_init(|| secret).clone())
    }

    /// Returns advice for a command that has no terminal.
    fn advice(&self) -> String {
        match self.option {
            Some(option) => format!("set {FILE}, or name a file with {option}"),
            None => format!("set {FILE} to the path of a file that holds it"),
        }
    }
}

impl PassphraseError {
    fn advised(self, advice: &str) -> Self {
        match self {
            Self::NoTerminal(_) => Self::NoTerminal(advice.to_owned()),
            other => other,
        }
    }
}

/// Says to the user that what was typed does not open a slot, before it is asked for again.
pub fn tell_wrong(slot: u8) {
    if let Ok(mut terminal) = File::options().write(true).open("/dev/tty") {
        // The prompt that follows says enough.
        let _ = writeln!(
            terminal,
            "This passphrase does not open slot {slot}: try again."
        );
    }
}

/// Returns the file that `PGSEAL_PASSPHRASE_FILE` names. It holds the present passphrase of a
/// cluster, so only initdb may take a new one from it.
pub fn file_of_environment() -> Option<PathBuf> {
    env::var_os(FILE)
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
}

/// Reads a new passphrase: from `file`, which `option` names, or twice from the terminal. One that
/// can be guessed is refused, unless weak ones are allowed.
pub fn read_new(
    file: Option<&Path>,
    option: &str,
    allow_weak: bool,
) -> Result<Secret, PassphraseError> {
    let secret = match file {
        Some(file) => read_file(file),
        None => ask_twice().map_err(|error| error.advised(&format!("name a file with {option}"))),
    }?;
    match secret.len() < SHORT && !allow_weak {
        true => Err(PassphraseError::Weak),
        false => Ok(secret),
    }
}

fn ask_twice() -> Result<Secret, PassphraseError> {
    let first = ask("New passphrase: ")?;
    if *first != *ask("New passphrase, again: ")? {
        return Err(PassphraseError::Differ);
    }
    Ok(first)
}

fn read_file(path: &Path) -> Result<Zeroizing<Vec<u8>>, PassphraseError> {
    read_from(File::open(path), path)
}

fn read_from(file: io::Result<File>, path: &Path) -> Result<Zeroizing<Vec<u8>>, PassphraseError> {
    // The buffer never grows: copies of a passphrase would stay behind.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX + 1));
    file.and_then(|file| file.take(MOST).read_to_end(&mut bytes))
        .map_err(|error| PassphraseError::File(path.to_owned(), error))?;
    first_line(bytes)
}

/// Asks at the terminal.
pub fn ask(prompt: &str) -> Result<Zeroizing<Vec<u8>>, PassphraseError> {
    let mut bytes = Zeroizing::new(vec![0; MAX + 1]);
    let len = typed(prompt, &mut bytes).map_err(|_| PassphraseError::NoTerminal(String::new()))?;
    bytes.truncate(len);
    match len {
        0 => Err(PassphraseError::Nothing),
        _ => first_line(bytes),
    }
}

/// Reads a line that the terminal does not show, with its end; 0 if there is none.
fn typed(prompt: &str, line: &mut [u8]) -> io::Result<usize> {
    let terminal = File::options().read(true).write(true).open("/dev/tty")?;
    let signals = PutOff::new()?;
    let _hidden = Hidden::of(&terminal)?;
    (&terminal).write_all(prompt.as_bytes())?;
    line_of(&terminal, &signals, line)
}

/// Reads a line of the terminal, with its end, or what was typed before the end of input.
fn line_of(mut terminal: &File, signals: &PutOff, line: &mut [u8]) -> io::Result<usize> {
    let mut len = 0;
    while len < line.len() && !line[..len].ends_with(b"\n") {
        if signals.readable(terminal.as_fd(), PollTimeout::NONE)? {
            match terminal.read(&mut line[len..])? {
                0 => break,
                read => len += read,
            }
        }
    }
    Ok(len)
}

/// The terminal, which shows nothing but ends of lines until this is dropped.
struct Hidden<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> Hidden<'a> {
    fn of(terminal: &'a File) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut hiding = before.clone();
        hiding.local_flags.remove(LocalFlags::ECHO);
        hiding.local_flags.insert(LocalFlags::ECHONL);
        tcsetattr(terminal, SetArg::TCSANOW, &hiding)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for Hidden<'_> {
    fn drop(&mut self) {
        let _ = tcsetattr(self.terminal, SetArg::TCSANOW, &self.before);
    }
}

/// Returns the first line without its end.
fn first_line(mut bytes: Zeroizing<Vec<u8>>) -> Result<Zeroizing<Vec<u8>>, PassphraseError> {
    if let Some(end) = bytes.iter().position(|&byte| byte == b'\n') {
        bytes.truncate(end);
    }
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    checked(bytes)
}

fn checked(bytes: Zeroizing<Vec<u8>>) -> Result<Zeroizing<Vec<u8>>, PassphraseError> {
    match bytes.len() {
        0 => Err(PassphraseError::Empty),
        len if len > MAX => Err(PassphraseError::TooLong),
        _ => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::pty::openpty;

    /// A file of a passphrase of so many bytes, and what follows it.
    fn file(len: usize, end: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("passphrase");
        std::fs::write(&path, "x".repeat(len) + end).expect("a file");
        (dir, path)
    }

    #[test]
    fn the_first_line_is_read_up_to_the_longest() {
        for (len, end) in [(1, "\n"), (8, "\r\nmore\n"), (MAX, ""), (MAX, "\n")] {
            let (_dir, path) = file(len, end);
            let secret = Source::of_options(Some(path), None).read("");
            assert_eq!(secret.expect("a passphrase").len(), len);
        }
        for (len, end, expected) in [
            (0, "\n", "empty"),
            (0, "", "empty"),
            (MAX + 1, "", "longer than"),
        ] {
            let (_dir, path) = file(len, end);
            let error = Source::of_options(Some(path), None).read("").err();
            assert!(error.is_some_and(|error| error.to_string().contains(expected)));
        }
    }

    #[test]
    fn a_new_passphrase_that_is_short_is_refused() {
        for (len, allow_weak, expected) in [
            (SHORT, false, true),
            (SHORT - 1, false, false),
            (1, true, true),
        ] {
            let (_dir, path) = file(len, "\n");
            let read = read_new(Some(&path), "--file", allow_weak);
            assert_eq!(read.is_ok(), expected, "{len}");
        }
    }

    /// A line that is typed in parts is read whole, and nothing behind it; the terminal shows its
    /// input again after that.
    #[test]
    fn a_line_is_typed_unseen() {
        let nix::pty::OpenptyResult { master, slave } = openpty(None, None).expect("a terminal");
        let (mut keys, terminal) = (File::from(master), File::from(slave));
        let flags = || tcgetattr(&terminal).expect("a terminal").local_flags;
        let before = flags();
        assert!(before.contains(LocalFlags::ECHO));
        let hidden = Hidden::of(&terminal).expect("a terminal");
        assert_eq!(
            flags(),
            (before - LocalFlags::ECHO) | LocalFlags::ECHONL,
            "only ends of lines are shown"
        );
        // 4 is Control-D: what was typed before it can be read.
        keys.write_all(b"to\x04gether\nmore\n\x04").expect("room");
        let signals = PutOff::new().expect("handlers");
        let mut line = [0; 64];
        let len = line_of(&terminal, &signals, &mut line).expect("a line");
        assert_eq!(&line[..len], b"together\n");
        drop(hidden);
        assert_eq!(flags(), before);
    }

    /// Only who types may be asked again, and an option that names a file is told to who cannot.
    #[test]
    fn what_is_named_is_not_asked_for() {
        let path = || Some(PathBuf::from("/passphrase"));
        let unnamed = Source::of_options(None, None).by_option("--file");
        assert_eq!(unnamed.is_asked(), env::var_os(FILE).is_none());
        assert_eq!(unnamed.or_file(path()).file(), path());
        assert!(unnamed.advice().ends_with("or name a file with --file"));
        assert!(Source::default().advice().contains("the path of a file"));
        for named in [
            Source::of_options(path(), Some(3)),
            Source::of_options(None, Some(3)),
        ] {
            let file = named.file();
            assert!(!named.is_asked() && !named.is_unnamed());
            assert_eq!(named.or_file(Some("/other".into())).file(), file);
        }
    }
}
