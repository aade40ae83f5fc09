//! The command line of a program of PostgreSQL, read as glibc's `getopt_long` reads it: long
//! options may be cut short as long as one is meant, and options and other words may be mixed.
//!
//! The command line is only read: the program gets it as it is. What the program itself will
//! refuse is passed over.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

/// The options of a program.
pub struct Options {
    /// Short options as `getopt` takes them: a colon follows a letter that takes a value.
    pub short: &'static str,
    /// Long names; one that takes a value ends with `=`. A blank and a letter follow if a letter
    /// means the same.
    pub long: &'static [&'static str],
}

/// The options that a command line gives, by letter if they have one, else by long name.
#[derive(Debug, Default, PartialEq)]
pub struct Given {
    options: Vec<(String, Option<OsString>)>,
    /// the words that are no options, nor values of options
    pub words: Vec<OsString>,
}

impl Given {
    /// Whether the option is there.
    pub fn has(&self, name: &str) -> bool {
        self.options.iter().any(|(other, _)| other == name)
    }

    /// Returns the value that counts: the last one.
    pub fn value(&self, name: &str) -> Option<&OsStr> {
        let mut found = self.options.iter().rev().filter(|(other, _)| other == name);
        found.next().and_then(|(_, value)| value.as_deref())
    }

    /// Returns all values of an option that may be given several times.
    pub fn values<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a OsStr> {
        let found = self.options.iter().filter(move |(other, _)| other == name);
        found.filter_map(|(_, value)| value.as_deref())
    }

    /// Returns which of these options counts: the last one that is there.
    pub fn last_of(&self, names: &[&str]) -> Option<&str> {
        let mut given = self.options.iter().rev().map(|(name, _)| name.as_str());
        given.find(|name| names.contains(name))
    }
}

impl Options {
    /// Reads a command line.
    pub fn read(&self, args: &[OsString]) -> Given {
        let mut given = Given::default();
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let bytes = arg.as_bytes();
            if bytes == b"--" {
                given.words.extend(args.by_ref().cloned());
            } else if let Some(long) = bytes.strip_prefix(b"--") {
                given.options.extend(self.long_option(long, &mut args));
            } else if bytes.len() > 1 && bytes[0] == b'-' {
                self.short_options(&bytes[1..], &mut args, &mut given);
            } else {
                given.words.push(arg.clone());
            }
        }
        given
    }

    fn long_option<'a>(
        &self,
        option: &[u8],
        args: &mut impl Iterator<Item = &'a OsString>,
    ) -> Option<(String, Option<OsString>)> {
        let equals = option.iter().position(|&byte| byte == b'=');
        let name = std::str::from_utf8(&option[..equals.unwrap_or(option.len())]).ok()?;
        let attached = equals.map(|at| OsStr::from_bytes(&option[at + 1..]).to_owned());
        let (long, letter) = self.meant(name)?;
        let value = if long.ends_with('=') {
            attached.or_else(|| args.next().cloned())
        } else {
            None
        };
        Some((
            letter.unwrap_or(long.trim_end_matches('=')).to_owned(),
            value,
        ))
    }

    /// Finds a long option and its letter by its whole name, or by a beginning that no other has.
    fn meant(&self, name: &str) -> Option<(&'static str, Option<&'static str>)> {
        let divided = self.long.iter().map(|entry| match entry.split_once(' ') {
            Some((long, letter)) => (long, Some(letter)),
            None => (*entry, None),
        });
        let candidates: Vec<_> = divided.filter(|(long, _)| long.starts_with(name)).collect();
        let whole = candidates
            .iter()
            .find(|(long, _)| long.trim_end_matches('=') == name);
        whole
            .or(candidates.first().filter(|_| candidates.len() == 1))
            .copied()
    }

    fn short_options<'a>(
        &self,
        cluster: &[u8],
        args: &mut impl Iterator<Item = &'a OsString>,
        given: &mut Given,
    ) {
        for (at, &letter) in cluster.iter().enumerate() {
            let name = char::from(letter).to_string();
            let takes_value = self.short.contains(&format!("{name}:"));
            if !takes_value {
                given.options.push((name, None));
                continue;
            }
            let tail = &cluster[at + 1..];
            let attached = (!tail.is_empty()).then(|| OsStr::from_bytes(tail).to_owned());
            given
                .options
                .push((name, attached.or_else(|| args.next().cloned())));
            return;
        }
    }
}

/// initdb of PostgreSQL 15 to 19.
pub const INITDB: Options = Options {
    short: "A:c:dD:E:gkL:nNsST:U:VWX:?",
    long: &[
        "allow-group-access g",
        "auth= A",
        "auth-host=",
        "auth-local=",
        "builtin-locale=",
        "data-checksums k",
        "debug d",
        "discard-caches",
        "encoding= E",
        "help ?",
        "icu-locale=",
        "icu-rules=",
        "lc-collate=",
        "lc-ctype=",
        "lc-messages=",
        "lc-monetary=",
        "lc-numeric=",
        "lc-time=",
        "locale=",
        "locale-provider=",
        "no-clean n",
        "no-data-checksums",
        "no-instructions",
        "no-locale",
        "no-sync N",
        "no-sync-data-files",
        "noclean n",
        "nosync N",
        "pgdata= D",
        "pwfile=",
        "pwprompt W",
        "set= c",
        "show s",
        "sync-method=",
        "sync-only S",
        "text-search-config= T",
        "username= U",
        "version V",
        "wal-segsize=",
        "waldir= X",
    ],
};

/// `pg_basebackup` of PostgreSQL 15 to 19.
pub const PG_BASEBACKUP: Options = Options {
    short: "c:Cd:D:F:h:i:l:nNp:Pr:Rs:S:t:T:U:vwWX:zZ:",
    long: &[
        "checkpoint= c",
        "compress= Z",
        "create-slot C",
        "dbname= d",
        "format= F",
        "gzip z",
        "help ?",
        "host= h",
        "incremental= i",
        "label= l",
        "manifest-checksums=",
        "manifest-force-encode",
        "max-rate= r",
        "no-clean n",
        "no-estimate-size",
        "no-manifest",
        "no-password w",
        "no-slot",
        "no-sync N",
        "no-verify-checksums",
        "password W",
        "pgdata= D",
        "port= p",
        "progress P",
        "slot= S",
        "status-interval= s",
        "sync-method=",
        "tablespace-mapping= T",
        "target= t",
        "username= U",
        "verbose v",
        "version V",
        "wal-method= X",
        "waldir=",
        "write-recovery-conf R",
    ],
};

/// `pg_receivewal` of PostgreSQL 15 to 19.
pub const PG_RECEIVEWAL: Options = Options {
    short: "d:D:E:h:np:s:S:U:vwWZ:",
    long: &[
        "compress= Z",
        "create-slot",
        "dbname= d",
        "directory= D",
        "drop-slot",
        "endpos= E",
        "help ?",
        "host= h",
        "if-not-exists",
        "no-loop n",
        "no-password w",
        "no-sync",
        "password W",
        "port= p",
        "slot= S",
        "status-interval= s",
        "synchronous",
        "username= U",
        "verbose v",
        "version V",
    ],
};

/// `pg_combinebackup` of PostgreSQL 17 to 19.
pub const PG_COMBINEBACKUP: Options = Options {
    short: "dknNo:T:",
    long: &[
        "clone",
        "copy",
        "copy-file-range",
        "debug d",
        "dry-run n",
        "help ?",
        "link k",
        "manifest-checksums=",
        "no-manifest",
        "no-sync N",
        "output= o",
        "sync-method=",
        "tablespace-mapping= T",
        "version V",
    ],
};

/// `pg_verifybackup` of PostgreSQL 15 to 19.
pub const PG_VERIFYBACKUP: Options = Options {
    short: "eF:i:m:nPqsw:",
    long: &[
        "exit-on-error e",
        "format= F",
        "help ?",
        "ignore= i",
        "manifest-path= m",
        "no-parse-wal n",
        "progress P",
        "quiet q",
        "skip-checksums s",
        "version V",
        "wal-directory= w",
        "wal-path= w",
    ],
};

/// `pg_ctl` of PostgreSQL 15 to 19. Its first word says what it shall do.
pub const PG_CTL: Options = Options {
    short: "cD:e:l:m:N:o:p:P:sS:t:U:wW",
    long: &[
        "core-files c",
        "help ?",
        "log= l",
        "mode= m",
        "no-wait W",
        "options= o",
        "pgdata= D",
        "silent s",
        "timeout= t",
        "version V",
        "wait w",
    ],
};

/// The server of PostgreSQL 15 to 19. Its long options are settings; of these only its data
/// directory is of interest.
pub const POSTGRES: Options = Options {
    short: "B:bC:c:D:d:EeFf:h:ijk:lN:nOPp:r:S:sTt:v:W:",
    long: &["data-directory= data_directory", "data_directory="],
};

#[cfg(test)]
mod tests {
    use super::*;

    fn read(args: &[&str]) -> Given {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        PG_BASEBACKUP.read(&args)
    }

    fn value(given: &Given, name: &str) -> Option<String> {
        given
            .value(name)
            .map(|value| value.to_string_lossy().into_owned())
    }

    #[test]
    fn every_spelling() {
        assert_eq!(
            read(&["a", "-D", "x", "b", "--", "-c"]).words,
            ["a", "b", "-c"]
        );
        for args in [
            &["-D", "x"][..],
            &["-Dx"],
            &["-PvDx"],
            &["--pgdata=x"],
            &["--pgdata", "x"],
            &["--pg=x"],
            &["word", "-D", "y", "-Dx", "--", "-Dz"],
        ] {
            assert_eq!(value(&read(args), "D").as_deref(), Some("x"), "{args:?}");
        }
    }

    #[test]
    fn a_value_is_no_option() {
        let given = read(&["-h", "-D", "-T", "a=b", "--tablespace-mapping", "-D"]);
        assert_eq!(given.words, [""; 0]);
        assert_eq!(value(&given, "h").as_deref(), Some("-D"));
        assert!(!given.has("D"));
        assert_eq!(value(&given, "T").as_deref(), Some("-D"));
    }

    #[test]
    fn what_is_cut_too_short_is_passed_over() {
        assert_eq!(read(&["--no", "--progre", "-n"]), read(&["-P", "-n"]));
        assert!(read(&["--waldir", "w"]).has("waldir"));
    }

    #[test]
    fn the_last_one_counts() {
        let given = read(&["-P", "-v", "--progress", "-R"]);
        assert_eq!(given.last_of(&["v", "P"]), Some("P"));
        assert_eq!(given.last_of(&["C"]), None);
    }
}
