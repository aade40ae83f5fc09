//! Environment variables. Those that users set are documented in `docs/`.

use crate::Word;

/// The command that wraps a new cluster's key; EDB's name.
pub const WRAP_COMMAND: Word = Word(c"PGDATAKEYWRAPCMD");
/// The command that unwraps a cluster's key; EDB's name.
pub const UNWRAP_COMMAND: Word = Word(c"PGDATAKEYUNWRAPCMD");
/// The id of the one key that a server may run with.
pub const EXPECT_KEY: Word = Word(c"PGSEAL_EXPECT_KEY");
/// The setting that says which WAL a server accepts in clear from an archive.
pub const CLEAR_WAL: Word = Word(c"PGSEAL_CLEAR_WAL");
/// The setting whose value `off` refuses all replication clients.
pub const RECEIVERS: Word = Word(c"PGSEAL_RECEIVERS");
/// The file of the audit log of keys, unless the machine's policy names one.
pub const AUDIT_LOG: Word = Word(c"PGSEAL_AUDIT_LOG");
/// The socket of the agent that holds keys which are open already.
pub const AGENT: Word = Word(c"PGSEAL_AGENT");
/// A file for the library's counters, which `pgseal bench` reads.
pub const COUNTERS: Word = Word(c"PGSEAL_COUNTERS");
/// The library's path, where it does not lie beside the command.
pub const LIBRARY: Word = Word(c"PGSEAL_LIBRARY");

// The rest is between the wrappers and the library: no user sets it.

/// The descriptor of the memory file that holds the keys.
pub const KEYS_FD: Word = Word(c"PGSEAL_KEYS_FD");
/// The path of the command, which the library runs to unlock a cluster that it meets.
pub const COMMAND: Word = Word(c"PGSEAL_BIN");
/// More programs in which the library acts: their names, separated by colons.
pub const PROGRAMS: Word = Word(c"PGSEAL_PROGRAMS");
/// The data directories of which a viewer sees `pg_control` in clear, separated by colons.
pub const VIEW: Word = Word(c"PGSEAL_VIEW");
/// The descriptor on which the library answers a wrapper's question.
pub const ANSWER_FD: Word = Word(c"PGSEAL_ANSWER_FD");
/// The path that a program was started as, while a wrapper asks about it.
pub const STARTED_AS: Word = Word(c"PGSEAL_STARTED_AS");
/// The credential that a receiver's connections show for pages: a token, or `raw`.
pub const RECEIVER: Word = Word(c"PGSEAL_RECEIVER");
/// The credential that a receiver's connection shows for WAL.
pub const WAL_RECEIVER: Word = Word(c"PGSEAL_WAL_RECEIVER");
/// The size in bytes of the segments that a receiver writes.
pub const WAL_SEGMENT_SIZE: Word = Word(c"PGSEAL_WAL_SEGMENT_SIZE");
