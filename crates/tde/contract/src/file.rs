//! Files that pgseal adds to a data directory, and those that it installs.

use crate::Word;

/// The directory below the data directory that holds the wrapped key.
pub const KEY_DIRECTORY: Word = Word(c"pg_encryption");
/// The wrapped key, in [`KEY_DIRECTORY`].
pub const KEY_FILE: Word = Word(c"key.bin");
/// The name that a new key file has until it is complete and was seen to open.
pub const NEW_KEY_FILE: Word = Word(c"key.bin.new");
/// The header of the key for a cluster that one command unlocks, in [`KEY_DIRECTORY`].
pub const KEY_SETTINGS: Word = Word(c"pgseal.toml");
/// The notes about key slots, in [`KEY_DIRECTORY`].
pub const SLOT_NOTES: Word = Word(c"slots.bin");
/// The name that new notes have until they are complete.
pub const NEW_SLOT_NOTES: Word = Word(c"slots.bin.new");
/// The list of receiver tokens, in [`KEY_DIRECTORY`].
pub const RECEIVER_LIST: Word = Word(c"receivers.bin");
/// The name that a new list of tokens has until it is complete.
pub const NEW_RECEIVER_LIST: Word = Word(c"receivers.bin.new");
/// The path of the notes about key slots below the data directory.
pub const SLOT_NOTES_PATH: Word = Word(c"pg_encryption/slots.bin");
/// The path of the list of receiver tokens below the data directory.
pub const RECEIVER_LIST_PATH: Word = Word(c"pg_encryption/receivers.bin");
/// The path of the wrapped key below the data directory.
pub const KEY_PATH: Word = Word(c"pg_encryption/key.bin");
/// The notice for people in a sealed data directory. It goes where the key directory goes.
pub const NOTICE: Word = Word(c"SEALED.README");
/// The socket in a data directory at which root waits for the key of a running server whose key
/// file is lost.
pub const RESCUE_SOCKET: Word = Word(c"pgseal.rescue");
/// The bytes that root sends there first. Other services of root's, to whose sockets a link in the
/// data directory could lead, send none.
pub const RESCUE_REQUEST: &[u8; 8] = b"pgsealr1";
/// The preloaded library, as it is installed.
pub const LIBRARY: Word = Word(c"libpgseal.so");
/// The link to the version in use, beside the directories of the versions that packages install:
/// `/usr/lib/pgseal/current`.
pub const CURRENT: Word = Word(c"current");
/// The beginning of the name of a mapping by which a server shows the version of its library; the
/// version follows.
pub const LIBRARY_MAPPING: Word = Word(c"libpgseal ");
