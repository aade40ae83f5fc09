//! The server that a receiver copies from: what it must know before the copy begins.
//!
//! It is asked by the stock psql over a replication connection, so that every connection option,
//! PG* variable, service, password file and TLS setting means what it means to the program that
//! will copy. That connection declares itself raw: it takes no page, only the wrapped key.

use std::env;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::{SystemTime, UNIX_EPOCH};

use pgseal_contract::{receiver, variable};
use pgseal_crypto::{KeyId, MasterKey};
use pgseal_format::{KeyImage, ReceiverToken};
use pgseal_keys::exit::{Code, Exit, Failure};

use crate::getopt::Given;
use crate::programs::is_elf;
use crate::Wrapper;

/// The variable from which the library in the program learns what to declare: `raw`, a token, or
/// that it holds the server's key and makes a token at each connection.
pub const RECEIVER: &str = variable::RECEIVER.as_str();
/// The variable that says what to declare on a second connection, which brings WAL while the
/// first brings stored pages.
pub const WAL_RECEIVER: &str = variable::WAL_RECEIVER.as_str();
/// The variable that says how long the incoming segments are.
pub const SEGMENT_SIZE: &str = variable::WAL_SEGMENT_SIZE.as_str();
/// The declaration of a receiver that takes ciphertext.
pub const RAW: &str = receiver::RAW.as_str();

/// A token's lifetime in seconds: a copy begins, and connects again when the checkpoint is over.
const LIFETIME: u64 = receiver::LIFETIME;

/// The SQLSTATE for a setting that the server does not know.
const UNDEFINED_OBJECT: &str = "42704";

/// Why the server could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("the server cannot be asked for its key: {0}")]
    NoAnswer(String),
    #[error(
        "PostgreSQL's own psql, by which the server is asked for its key, is neither in {} nor in \
         ../bin beside it: install PostgreSQL's client programs there",
        .0.display()
    )]
    NoPsql(PathBuf),
    #[error(
        "pg_encryption/key.bin of the server is missing or empty, and nobody could open the copy \
         without it: restore key.bin from a copy, or dump the databases before the server stops"
    )]
    NoKeyFile,
    #[error(
        "the server's answer to {0} cannot be understood: check that it is PostgreSQL 15 or later"
    )]
    Answer(&'static str),
}

impl Exit for SourceError {
    fn code(&self) -> Code {
        Code::Io
    }
}

/// The facts that a server gives about itself.
pub struct Source {
    pub system_id: u64,
    pub segment_size: u64,
    /// of blocks in relations and in WAL
    pub block_sizes: [u32; 2],
    /// its major version
    pub version: u32,
    /// whether it has data checksums or `wal_log_hints`, without which no sealed server runs
    pub logs_hints: bool,
    /// the role that we connect as
    pub role: String,
    /// its key file, if it is sealed
    pub key_file: Option<Vec<u8>>,
}

impl Source {
    /// Asks the server that a receiver's options name.
    pub fn ask(wrapper: &Wrapper, given: &Given) -> Result<Self, Failure> {
        let output = ask(wrapper, given, &options(given), &QUESTIONS)?;
        let said = String::from_utf8_lossy(&output.stderr);
        match output.status.code() {
            Some(0) => {}
            Some(1) if said.contains(UNDEFINED_OBJECT) => {}
            _ => return Err(SourceError::NoAnswer(said.trim().to_owned()).into()),
        }
        let text = String::from_utf8_lossy(&output.stdout);
        Ok(Self::parse(&text, output.status.success())?)
    }

    fn parse(text: &str, sealed: bool) -> Result<Self, SourceError> {
        let mut lines = text.lines();
        let role = lines.next().unwrap_or_default().to_owned();
        let system_id = lines
            .next()
            .and_then(|line| line.split('|').next()?.parse().ok());
        let segment_size = lines.next().and_then(bytes_of);
        let mut number = || lines.next().and_then(|line| line.parse().ok());
        let (data, wal, version) = (number(), number(), number());
        let mut is_on = || lines.next().is_some_and(|line| line == "on");
        let logs_hints = [is_on(), is_on()].contains(&true);
        let key_file = sealed.then(|| lines.next().and_then(unhex));
        Ok(Self {
            system_id: system_id.ok_or(SourceError::Answer("IDENTIFY_SYSTEM"))?,
            segment_size: segment_size.ok_or(SourceError::Answer("SHOW wal_segment_size"))?,
            block_sizes: [
                data.ok_or(SourceError::Answer("SHOW block_size"))?,
                wal.ok_or(SourceError::Answer("SHOW wal_block_size"))?,
            ],
            version: version.ok_or(SourceError::Answer("SHOW server_version_num"))? / 10_000,
            logs_hints,
            role,
            key_file: match key_file {
                Some(None) => return Err(SourceError::NoKeyFile),
                Some(found) => found,
                None => None,
            },
        })
    }

    /// Returns the declaration that the library holds this server's key, so that no token's
    /// lifetime ends before the program does.
    pub fn own_token(&self) -> OsString {
        format!("own.{}", self.system_id).into()
    }

    /// Returns a token for a program whose library holds another key than this server's, `master`.
    /// The program may connect until it expires.
    pub fn token(&self, master: &MasterKey) -> OsString {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let expiry = now.map_or(0, |now| now.as_secs()) + LIFETIME;
        let role = self.role.as_bytes();
        OsString::from_vec(ReceiverToken::grant(master, self.system_id, role, expiry))
    }

    /// Returns words for where its key file came from.
    pub fn origin() -> PathBuf {
        PathBuf::from("the server's key file")
    }
}

/// Whether the operator declares the receiver, with a token that was granted.
pub fn is_declared(given: &Given) -> bool {
    let own = env::var_os("PGOPTIONS");
    let declares = |text: &OsStr| text.to_string_lossy().contains("pgseal.receiver");
    own.as_deref().is_some_and(declares) || given.value("d").is_some_and(declares)
}

/// Returns the public name of the key in a key file.
pub fn key_id(key_file: &[u8]) -> Option<KeyId> {
    match KeyImage::decode(key_file) {
        Ok(KeyImage::File(file)) => Some(file.header().key_id),
        _ => None,
    }
}

/// Every receiver asks these questions. Only a sealed server answers the last one.
const QUESTIONS: [&str; 9] = [
    r"\echo :USER",
    "IDENTIFY_SYSTEM",
    "SHOW wal_segment_size",
    "SHOW block_size",
    "SHOW wal_block_size",
    "SHOW server_version_num",
    "SHOW data_checksums",
    "SHOW wal_log_hints",
    "SHOW pgseal.key_file",
];

/// Asks the server `questions` over a connection for replication that takes no page, by psql with
/// these options.
pub fn ask(
    wrapper: &Wrapper,
    given: &Given,
    options: &[OsString],
    questions: &[&str],
) -> Result<Output, Failure> {
    let mut args = connection(given, Some(for_replication(given.value("d"))));
    args.extend_from_slice(options);
    args.extend(
        questions
            .iter()
            .flat_map(|question| ["-c".into(), (*question).into()]),
    );
    let mut sealed = psql(wrapper)?.sealed(&args)?;
    sealed.act();
    sealed.tell(RECEIVER, RAW);
    Ok(sealed.output()?)
}

/// Returns psql's options for errors as codes, and the operator's choice about a password.
fn options(given: &Given) -> Vec<OsString> {
    let mut options = ["-v", "VERBOSITY=sqlstate"].map(OsString::from).to_vec();
    options.extend(
        ["w", "W"]
            .iter()
            .filter(|letter| given.has(letter))
            .map(|letter| format!("-{letter}").into()),
    );
    options
}

/// Returns psql's options for bare answers over a connection as the receiver's, with this string.
pub fn connection(given: &Given, conninfo: Option<OsString>) -> Vec<OsString> {
    let mut args: Vec<OsString> = ["-X", "-A", "-t", "-q"].map(OsString::from).into();
    args.extend(
        conninfo
            .into_iter()
            .flat_map(|conninfo| ["-d".into(), conninfo]),
    );
    for letter in ["h", "p", "U"] {
        if let Some(value) = given.value(letter) {
            args.extend([format!("-{letter}").into(), value.to_owned()]);
        }
    }
    args
}

/// Returns a connection string with what a receiver adds to it; the last value counts.
fn for_replication(conninfo: Option<&OsStr>) -> OsString {
    let given = conninfo.unwrap_or_default().as_bytes();
    let uri = given.starts_with(b"postgresql://") || given.starts_with(b"postgres://");
    let separators: [&[u8]; 2] = match (uri, given.contains(&b'?')) {
        (true, true) => [b"&", b"&"],
        (true, false) => [b"?", b"&"],
        (false, _) => [b" ", b" "],
    };
    let parts = [
        given,
        separators[0],
        b"dbname=replication",
        separators[1],
        b"replication=true",
    ];
    OsString::from_vec(parts.concat())
}

/// Reads a size such as `16MB` or `1GB`, in bytes.
pub fn bytes_of(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let unit = match &text[digits.len()..] {
        "kB" => 10,
        "MB" => 20,
        "GB" => 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << unit)
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair)
            .ok()
            .filter(|pair| pair.len() == 2)?;
        u8::from_str_radix(pair, 16).ok()
    });
    pairs
        .collect::<Option<Vec<u8>>>()
        .filter(|bytes| !bytes.is_empty())
}

/// Returns the psql of the installation that a receiver belongs to.
pub fn psql(receiver: &Wrapper) -> Result<Wrapper, SourceError> {
    let program = psql_of(&receiver.program)?;
    Ok(Wrapper {
        argv0: program.clone().into_os_string(),
        name: "psql".to_owned(),
        program,
    })
}

/// Finds psql. `pgseal-divert` moves the programs that touch data directories into a directory
/// beside `bin`, and leaves psql where it was.
fn psql_of(program: &Path) -> Result<PathBuf, SourceError> {
    let own = program.parent().unwrap_or(Path::new("/"));
    let places = [own.join("psql"), own.join("../bin/psql")];
    let found = places.into_iter().find(|place| is_elf(place));
    found.ok_or_else(|| SourceError::NoPsql(own.to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn connection_strings() {
        let with = |given: &str| {
            let whole = for_replication(Some(OsStr::new(given)));
            whole.into_string().expect("ASCII")
        };
        assert_eq!(with("host=a"), "host=a dbname=replication replication=true");
        assert_eq!(
            with("postgresql://a/b"),
            "postgresql://a/b?dbname=replication&replication=true"
        );
        assert_eq!(
            with("postgres://a?user=b"),
            "postgres://a?user=b&dbname=replication&replication=true"
        );
    }

    #[test]
    fn psql_is_beside_the_program_or_where_the_program_was() {
        let place = tempfile::tempdir().expect("a directory");
        let (stock, bin) = (place.path().join("stock"), place.path().join("bin"));
        for directory in [&stock, &bin] {
            fs::create_dir(directory).expect("a directory");
        }
        let found = || psql_of(&stock.join("pg_basebackup")).ok();
        fs::write(bin.join("psql"), "#!/opt/pgseal-twin /opt/psql\n").expect("a file");
        assert_eq!(found(), None);
        fs::write(bin.join("psql"), "\x7fELF").expect("a file");
        assert_eq!(found(), Some(stock.join("../bin/psql")));
        fs::write(stock.join("psql"), "\x7fELF").expect("a file");
        assert_eq!(found(), Some(stock.join("psql")));
    }

    #[test]
    fn answers() {
        let text =
            "repl\n7000000000000000001|1|0/3000060|\n1GB\n8192\n16384\n150020\noff\non\n00ff\n";
        let source = Source::parse(text, true).expect("good answers");
        assert_eq!(source.system_id, 7_000_000_000_000_000_001);
        assert_eq!(source.segment_size, 1 << 30);
        assert_eq!(source.block_sizes, [8192, 16384]);
        assert_eq!((source.version, source.logs_hints), (15, true));
        assert_eq!(source.role, "repl");
        assert_eq!(source.key_file.as_deref(), Some(&[0, 255][..]));
        let plain = Source::parse("r\n1|1|0/0|\n16MB\n8192\n8192\n180000\noff\noff\n", false)
            .expect("good answers");
        assert_eq!((plain.version, plain.logs_hints), (18, false));
        assert_eq!((plain.segment_size, plain.key_file), (16 << 20, None));
        for bad in [
            "",
            "r\n",
            "r\nx|1\n16MB\n8192\n8192\n150020\non\non\n00",
            "r\n1|1\n16\n8192\n8192\n150020\non\non\n00",
            "r\n1|1\n16MB\n8192\n150020\non\non\n00",
            "r\n1|1\n16MB\n8192\n8192\nx\non\non\n00",
            "r\n1|1\n16MB\n8192\n8192\n150020\non\non\n0",
            "r\n1|1\n16MB\n8192\n8192\n150020\non\non\n",
        ] {
            assert!(Source::parse(bad, true).is_err(), "{bad:?}");
        }
    }
}
