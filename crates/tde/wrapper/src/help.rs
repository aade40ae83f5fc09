//! `--help` and `--version` of the wrappers: PostgreSQL's text, then that of pgseal.
//!
//! Invariant: both parts leave in one write. PostgreSQL's programs ask each other for their version
//! through a pipe, read one line and close it; a later write would end in SIGPIPE.

use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;

use pgseal_keys::exit::Failure;

use crate::options::{self, Name};
use crate::Wrapper;

const INITDB: &str = "
Options of pgseal for a sealed cluster:
  -y, --data-encryption[=128|192|256]
                            encrypt the cluster; 256 is the default
      --key-wrap-command=COMMAND
                            command that wraps the key: reads it, writes \"%p\"
      --key-unwrap-command=COMMAND
                            command that unwraps it: reads \"%p\", writes the key
      --key-passphrase      protect the key by a passphrase from the terminal
      --key-passphrase-file=FILE
                            protect it by the passphrase in FILE
      --argon2-memory=SIZE  memory that the passphrase takes to open the key
      --allow-weak          take a passphrase of fewer than 8 bytes
  -K, --encryption-key-command=COMMAND
                            protect it by the key that COMMAND prints
      --key-provider=URI    protect it by a key in a service or a device,
                            such as vault://HOST/transit/KEY
      --key-file=FILE       keep the key in FILE, outside the data directory
      --no-key-wrap         leave the key unprotected, for tests
      --copy-key-from=FILE  use the key of another cluster's key.bin
      --same-key-as=DATADIR use the key of the cluster in DATADIR if one is
                            there and is sealed, and else a new key
";

const BASEBACKUP: &str = "
Options of pgseal; a copy of a sealed server is sealed under the server's key:
      --key-unwrap-command=COMMAND
                            command that unwraps the server's key: reads \"%p\",
                            writes it
  -K, --encryption-key-command=COMMAND
                            command that prints the key that the server's is
                            protected by
      --key-provider=URI    key in a service or a device that unwraps it
      --copy-key-from=FILE  seal the copy under the key of this key.bin
  -y, --data-encryption[=128|192|256]
                            seal the copy under a new key, with the options of
                            initdb for its protection: --key-wrap-command,
                            --key-unwrap-command, --key-passphrase,
                            --key-passphrase-file, --argon2-memory,
                            --allow-weak, --key-provider, -K, --key-file,
                            --no-key-wrap
";

const UNWRAP: &str = "
Options of pgseal for a sealed cluster:
      --key-unwrap-command=COMMAND
                            command that unwraps the key: reads \"%p\", writes it
";

const UPGRADE: &str = "
Options of pgseal for sealed clusters:
      --key-unwrap-command=COMMAND
                            command that unwraps the keys: reads \"%p\", writes it
      --copy-by-block       copy, as without it; pages always go through the cipher
";

const WALDUMP: &str = "
Options of pgseal for a sealed cluster:
  -y, --data-encryption[=128|192|256]
                            accepted; key.bin says it
      --key-file-name=FILE  use this key.bin
      --key-unwrap-command=COMMAND
                            command that unwraps the key: reads \"%p\", writes it
";

/// Arguments that make a program tell about itself and end.
const INFORMATIVE: [&str; 4] = ["--help", "-?", "--version", "-V"];

/// Whether the program will only tell about itself.
pub fn is_informative(args: &[OsString]) -> bool {
    let first = args.first().and_then(|arg| arg.to_str());
    first.is_some_and(|first| INFORMATIVE.contains(&first))
}

/// Whether the wrapper adds something to what the program says.
pub fn is_asked_for(name: &str, args: &[OsString]) -> bool {
    is_informative(args) && !addition(name, args).is_empty()
}

/// Runs the program and adds the text of pgseal.
pub fn show(wrapper: &Wrapper, args: &[OsString]) -> Result<ExitCode, Failure> {
    let output = wrapper.sealed(args)?.output()?;
    let mut text = output.stdout;
    text.extend_from_slice(addition(&wrapper.name, args).as_bytes());
    // Anyone who closed the other end has read what it wanted.
    let _ = io::stderr().write_all(&output.stderr);
    let _ = io::stdout().write_all(&text);
    let code = output
        .status
        .code()
        .and_then(|code| u8::try_from(code).ok());
    Ok(ExitCode::from(code.unwrap_or(1)))
}

fn addition(name: &str, args: &[OsString]) -> &'static str {
    let is_version = args
        .first()
        .is_some_and(|arg| arg == "--version" || arg == "-V");
    match (name, is_version) {
        ("initdb", true) => concat!("pgseal ", env!("CARGO_PKG_VERSION"), "\n"),
        (_, true) => "",
        ("initdb", _) => INITDB,
        ("pg_basebackup", _) => BASEBACKUP,
        ("pg_upgrade", _) => UPGRADE,
        ("pg_waldump", _) => WALDUMP,
        _ if options::takes(name, Name::UnwrapCommand) => UNWRAP,
        _ => "",
    }
}
