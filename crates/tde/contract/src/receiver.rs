//! How a replication client says what it may receive.

use crate::Word;

/// The setting in a connection's options whose value is a token, or [`RAW`].
pub const SETTING: Word = Word(c"pgseal.receiver");
/// The value of a client that wants pages as they are stored, and shows no token.
pub const RAW: Word = Word(c"raw");
/// How long a token holds that a program makes for its own connection, in seconds.
pub const LIFETIME: u64 = 3600;
