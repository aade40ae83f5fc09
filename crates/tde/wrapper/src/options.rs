//! The options of sealed programs beyond PostgreSQL's, in EDB's and CYBERTEC's spellings.
//!
//! They are taken out of the argument list; everything else stays, in its order.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use pgseal_keys::exit::{Code, Exit};
use pgseal_keys::new_key::{argon2_memory, key_length, KeyProtection, NewKeyError};
use pgseal_keys::new_slot::Hardening;
use pgseal_keys::unlock::Ways;

use crate::programs::{passes_options_on, short_with_value};

/// An option of pgseal's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Name {
    DataEncryption,
    WrapCommand,
    UnwrapCommand,
    NoKeyWrap,
    CopyKeyFrom,
    SameKeyAs,
    KeyCommand,
    KeyProvider,
    KeyPassphrase,
    KeyPassphraseFile,
    Argon2Memory,
    AllowWeak,
    KeyFile,
    KeyBin,
    CopyByBlock,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Value {
    None,
    Optional,
    Required,
}

struct Known {
    name: Name,
    long: &'static str,
    short: Option<u8>,
    value: Value,
    programs: &'static [&'static str],
}

/// The programs that make a cluster with a key of its own.
const NEW_KEY: &[&str] = &["initdb", "pg_basebackup"];
const UNWRAPPERS: &[&str] = &[
    "initdb",
    "pg_basebackup",
    "pg_combinebackup",
    "pg_ctl",
    "pg_receivewal",
    "pg_resetwal",
    "pg_rewind",
    "pg_upgrade",
    "pg_verifybackup",
    "pg_waldump",
];

const KNOWN: [Known; 15] = [
    Known {
        name: Name::DataEncryption,
        long: "data-encryption",
        short: Some(b'y'),
        value: Value::Optional,
        programs: &["initdb", "pg_basebackup", "pg_waldump"],
    },
    Known {
        name: Name::WrapCommand,
        long: "key-wrap-command",
        short: None,
        value: Value::Required,
        programs: NEW_KEY,
    },
    Known {
        name: Name::UnwrapCommand,
        long: "key-unwrap-command",
        short: None,
        value: Value::Required,
        programs: UNWRAPPERS,
    },
    Known {
        name: Name::NoKeyWrap,
        long: "no-key-wrap",
        short: None,
        value: Value::None,
        programs: NEW_KEY,
    },
    Known {
        name: Name::CopyKeyFrom,
        long: "copy-key-from",
        short: None,
        value: Value::Required,
        programs: NEW_KEY,
    },
    Known {
        name: Name::SameKeyAs,
        long: "same-key-as",
        short: None,
        value: Value::Required,
        programs: &["initdb"],
    },
    Known {
        name: Name::KeyCommand,
        long: "encryption-key-command",
        short: Some(b'K'),
        value: Value::Required,
        programs: &[
            "initdb",
            "pg_basebackup",
            "pg_ctl",
            "pg_rewind",
            "pg_upgrade",
        ],
    },
    Known {
        name: Name::KeyProvider,
        long: "key-provider",
        short: None,
        value: Value::Required,
        programs: UNWRAPPERS,
    },
    Known {
        name: Name::KeyPassphrase,
        long: "key-passphrase",
        short: None,
        value: Value::None,
        programs: NEW_KEY,
    },
    Known {
        name: Name::KeyPassphraseFile,
        long: "key-passphrase-file",
        short: None,
        value: Value::Required,
        programs: NEW_KEY,
    },
    Known {
        name: Name::Argon2Memory,
        long: "argon2-memory",
        short: None,
        value: Value::Required,
        programs: NEW_KEY,
    },
    Known {
        name: Name::AllowWeak,
        long: "allow-weak",
        short: None,
        value: Value::None,
        programs: NEW_KEY,
    },
    Known {
        name: Name::KeyFile,
        long: "key-file",
        short: None,
        value: Value::Required,
        programs: NEW_KEY,
    },
    Known {
        name: Name::KeyBin,
        long: "key-file-name",
        short: None,
        value: Value::Required,
        programs: &["pg_waldump"],
    },
    Known {
        name: Name::CopyByBlock,
        long: "copy-by-block",
        short: None,
        value: Value::None,
        programs: &["pg_upgrade"],
    },
];

/// A command line that cannot be understood.
#[derive(Debug, thiserror::Error)]
pub enum OptionError {
    #[error("option --{0} needs a value")]
    NoValue(&'static str),
    #[error("option --{0} takes no value")]
    NeedlessValue(&'static str),
    #[error("option --{0} is not UTF-8")]
    NotText(&'static str),
    #[error("{0} has an open quote: close it")]
    OpenQuote(&'static str),
    #[error("PGSEAL_INITDB_OPTIONS is not UTF-8: write it so, or give the options to initdb")]
    DefaultsNotText,
    #[error("--{0} does not reach initdb from here: give it in -o, with --data-encryption")]
    NotForInitdb(&'static str),
    #[error("--{0} is for a sealed cluster: add --data-encryption")]
    NotSealed(&'static str),
    #[error("--copy-by-block and {0} are two ways of transfer: give one of them")]
    TwoTransfers(String),
}

impl Exit for OptionError {
    fn code(&self) -> Code {
        Code::Usage
    }
}

/// A command line, divided.
#[derive(Debug, Default)]
pub struct Split {
    ours: Vec<(Name, Option<String>)>,
    /// PostgreSQL's part.
    pub rest: Vec<OsString>,
}

impl Split {
    /// Whether an option of pgseal's is there.
    pub fn has(&self, name: Name) -> bool {
        self.ours.iter().any(|(other, _)| *other == name)
    }

    /// Returns the long name of the first option of pgseal's, if there is one.
    pub fn first(&self) -> Option<&'static str> {
        let (name, _) = self.ours.first()?;
        KNOWN
            .iter()
            .find(|known| known.name == *name)
            .map(|known| known.long)
    }

    /// Returns the long name of one of these options, if one is there.
    pub fn first_of(&self, names: &[Name]) -> Option<&'static str> {
        let mut known = KNOWN.iter().filter(|known| names.contains(&known.name));
        known
            .find(|known| self.has(known.name))
            .map(|known| known.long)
    }

    /// Returns the ways to open a key that the options name.
    pub fn ways(&self) -> Ways {
        Ways {
            unwrap_command: self.value(Name::UnwrapCommand).map(str::to_owned),
            key_command: self.value(Name::KeyCommand).map(str::to_owned),
            key_provider: self.value(Name::KeyProvider).map(str::to_owned),
            ..Ways::default()
        }
        .or_agent()
    }

    /// Returns the length and the protection that the options ask of a new key.
    pub fn protection(&self) -> Result<KeyProtection, NewKeyError> {
        let text = |name| self.value(name).map(str::to_owned);
        let path = |name| self.value(name).map(PathBuf::from);
        let length = self.value(Name::DataEncryption).map(key_length);
        let memory = self.value(Name::Argon2Memory).map(argon2_memory);
        Ok(KeyProtection {
            length: length.transpose()?,
            wrap_command: text(Name::WrapCommand),
            unwrap_command: text(Name::UnwrapCommand),
            key_command: text(Name::KeyCommand),
            key_provider: text(Name::KeyProvider),
            passphrase: self.has(Name::KeyPassphrase),
            passphrase_file: path(Name::KeyPassphraseFile),
            hardening: Hardening {
                memory_kib: memory.transpose()?,
                allow_weak: self.has(Name::AllowWeak),
            },
            key_file: path(Name::KeyFile),
            plain: self.has(Name::NoKeyWrap),
            copy_from: path(Name::CopyKeyFrom),
            same_as: path(Name::SameKeyAs),
        })
    }

    /// Returns the last value of an option.
    pub fn value(&self, name: Name) -> Option<&str> {
        let mut found = self.ours.iter().rev().filter(|(other, _)| *other == name);
        found.next().and_then(|(_, value)| value.as_deref())
    }
}

/// Whether `program` takes this option of pgseal's.
pub fn takes(program: &str, name: Name) -> bool {
    let mut known = KNOWN.iter().filter(|known| known.name == name);
    known.any(|known| known.programs.contains(&program))
}

/// Divides the arguments of `program`.
pub fn split(program: &str, args: Vec<OsString>) -> Result<Split, OptionError> {
    let mut split = Split::default();
    let mut args = args.into_iter();
    while let Some(arg) = args.next() {
        let bytes = arg.as_bytes();
        if bytes == b"--" {
            split.rest.push(arg);
            split.rest.extend(args.by_ref());
        } else if let Some(long) = bytes.strip_prefix(b"--") {
            match long_option(program, long, &mut args)? {
                Some(ours) => split.ours.push(ours),
                None => {
                    let one_more = passes_options_on(program, long);
                    split.rest.push(arg);
                    if one_more {
                        split.rest.extend(args.next());
                    }
                }
            }
        } else if bytes.len() > 1 && bytes[0] == b'-' {
            short_options(program, &bytes[1..], &mut args, &mut split)?;
        } else {
            split.rest.push(arg);
        }
    }
    if split.has(Name::CopyByBlock) {
        only_transfer(&split.rest)?;
    }
    Ok(split)
}

/// Refuses `--copy-by-block` beside another transfer. `pg_upgrade` itself takes the last transfer
/// that it is given, and this option is out of its list by then.
fn only_transfer(rest: &[OsString]) -> Result<(), OptionError> {
    const OTHERS: [&str; 5] = ["--link", "-k", "--clone", "--copy-file-range", "--swap"];
    let mut words = rest.iter().filter_map(|arg| arg.to_str());
    match words.find(|word| OTHERS.contains(word)) {
        Some(other) => Err(OptionError::TwoTransfers(other.to_owned())),
        None => Ok(()),
    }
}

type Ours = (Name, Option<String>);

fn long_option(
    program: &str,
    option: &[u8],
    args: &mut impl Iterator<Item = OsString>,
) -> Result<Option<Ours>, OptionError> {
    let equals = option.iter().position(|&byte| byte == b'=');
    let name = &option[..equals.unwrap_or(option.len())];
    let Some(known) = find(program, |known| known.long.as_bytes() == name) else {
        return Ok(None);
    };
    let value = equals.map(|at| OsStr::from_bytes(&option[at + 1..]).to_owned());
    known.with(value, args).map(Some)
}

/// Divides a cluster of short options, such as `-ky128`. PostgreSQL's are put together again.
fn short_options(
    program: &str,
    cluster: &[u8],
    args: &mut impl Iterator<Item = OsString>,
    split: &mut Split,
) -> Result<(), OptionError> {
    let mut theirs = vec![b'-'];
    let mut value_follows = false;
    for (at, &letter) in cluster.iter().enumerate() {
        let tail = &cluster[at + 1..];
        if let Some(known) = find(program, |known| known.short == Some(letter)) {
            let attached = (!tail.is_empty()).then(|| OsStr::from_bytes(tail).to_owned());
            split.ours.push(known.with(attached, args)?);
            break;
        }
        theirs.push(letter);
        if short_with_value(program).as_bytes().contains(&letter) {
            theirs.extend_from_slice(tail);
            value_follows = tail.is_empty();
            break;
        }
    }
    if theirs.len() > 1 {
        split.rest.push(OsString::from_vec(theirs));
    }
    if value_follows {
        split.rest.extend(args.next());
    }
    Ok(())
}

fn find(program: &str, is: impl Fn(&Known) -> bool) -> Option<&'static Known> {
    KNOWN
        .iter()
        .find(|known| is(known) && known.programs.contains(&program))
}

impl Known {
    fn with(
        &self,
        attached: Option<OsString>,
        args: &mut impl Iterator<Item = OsString>,
    ) -> Result<Ours, OptionError> {
        let value = match self.value {
            Value::None if attached.is_some() => return Err(OptionError::NeedlessValue(self.long)),
            Value::None | Value::Optional => attached,
            Value::Required => {
                let value = attached.or_else(|| args.next());
                Some(value.ok_or(OptionError::NoValue(self.long))?)
            }
        };
        let text = value.map(|value| value.into_string());
        let text = text
            .transpose()
            .map_err(|_| OptionError::NotText(self.long))?;
        Ok((self.name, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn divided(program: &str, args: &[&str]) -> (Vec<Ours>, Vec<String>) {
        let args = args.iter().map(OsString::from).collect();
        let split = split(program, args).expect("a good command line");
        let rest = split
            .rest
            .into_iter()
            .map(|arg| arg.into_string().expect("ASCII"));
        (split.ours, rest.collect())
    }

    #[test]
    fn ours_are_taken_out() {
        let (ours, rest) = divided(
            "initdb",
            &["-D", "d", "--data-encryption=128", "-k", "--no-key-wrap"],
        );
        let expected = [
            (Name::DataEncryption, Some("128".into())),
            (Name::NoKeyWrap, None),
        ];
        assert_eq!(ours, expected);
        assert_eq!(rest, ["-D", "d", "-k"]);
    }

    #[test]
    fn clusters_of_letters() {
        let (ours, rest) = divided(
            "initdb",
            &["-ky128", "-kK", "echo", "-Ay", "-U", "-y", "-gD", "x"],
        );
        let expected = [
            (Name::DataEncryption, Some("128".into())),
            (Name::KeyCommand, Some("echo".into())),
        ];
        assert_eq!(ours, expected);
        assert_eq!(rest, ["-k", "-k", "-Ay", "-U", "-y", "-gD", "x"]);
    }

    #[test]
    fn words_for_another_program_stay() {
        for (program, args) in [
            ("pg_ctl", ["--options", "--key-unwrap-command=a"]),
            ("pg_ctl", ["--opt", "-Ka"]),
            ("pg_upgrade", ["--old-options", "--copy-by-block"]),
            ("pg_upgrade", ["--new-o", "--copy-by-block"]),
        ] {
            assert_eq!(
                divided(program, &args),
                (vec![], args.map(Into::into).into())
            );
        }
        let (ours, rest) = divided("pg_upgrade", &["--old-port", "--copy-by-block"]);
        assert_eq!((ours.len(), rest.len()), (1, 1));
        let (ours, rest) = divided("pg_ctl", &["--options=-p 1", "-Ka"]);
        assert_eq!((ours.len(), rest.len()), (1, 1));
    }

    #[test]
    fn an_optional_value_is_attached_or_absent() {
        let (ours, rest) = divided("initdb", &["-y", "data", "--data-encryption", "256"]);
        assert_eq!(
            ours,
            [(Name::DataEncryption, None), (Name::DataEncryption, None)]
        );
        assert_eq!(rest, ["data", "256"]);
    }

    #[test]
    fn each_program_has_its_own() {
        let args = [
            "--copy-by-block",
            "--key-unwrap-command",
            "cat %p",
            "--key-file-name=k",
        ];
        let (ours, rest) = divided("pg_upgrade", &args);
        let unwrap = (Name::UnwrapCommand, Some("cat %p".into()));
        assert_eq!(ours, [(Name::CopyByBlock, None), unwrap]);
        assert_eq!(rest, ["--key-file-name=k"]);
        let (ours, rest) = divided("psql", &args);
        assert_eq!(ours, []);
        assert_eq!(rest, args);
    }

    #[test]
    fn one_way_of_transfer() {
        let args = ["-d", "old", "-k", "--copy-by-block"].map(OsString::from);
        let refusal = split("pg_upgrade", args.into())
            .err()
            .map(|e| e.to_string());
        let expected = "--copy-by-block and -k are two ways of transfer: give one of them";
        assert_eq!(refusal.as_deref(), Some(expected));
    }

    #[test]
    fn nothing_is_taken_after_two_dashes() {
        let (ours, rest) = divided("initdb", &["--", "--no-key-wrap"]);
        assert_eq!(ours, []);
        assert_eq!(rest, ["--", "--no-key-wrap"]);
    }

    #[test]
    fn values_that_are_missing_or_too_many() {
        for (args, message) in [
            (
                ["--key-wrap-command"],
                "option --key-wrap-command needs a value",
            ),
            (["--no-key-wrap=1"], "option --no-key-wrap takes no value"),
        ] {
            let error = split("initdb", args.iter().map(OsString::from).collect()).err();
            assert_eq!(
                error.map(|error| error.to_string()).as_deref(),
                Some(message)
            );
        }
    }
}
