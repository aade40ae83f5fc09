//! Commands that a walsender's client may type: nothing panics, and no spelling gets a physical
//! stream or a base backup past a session that proved nothing.

#![no_main]

#[path = "../../crates/tde/preload/src/receivers/command.rs"]
mod command;

use command::{is_base_backup, judge};
use libfuzzer_sys::fuzz_target;
use process::Connection;

/// The library's module, as far as the commands use it.
mod process {
    /// As in the library; its other states are not asked about commands.
    #[derive(Clone, Copy)]
    pub enum Connection {
        Unproven,
        Raw,
        Clear,
    }
}

fuzz_target!(|command: &[u8]| {
    let allowed = [Connection::Unproven, Connection::Raw, Connection::Clear]
        .map(|state| judge(state, command).is_ok());
    if is_base_backup(command) {
        assert!(!allowed[0]);
    }
    // Who proved nothing gets nothing that a proven receiver is refused.
    assert!(!allowed[0] || (allowed[1] && allowed[2]));
    let streamed = [b"START_REPLICATION ".as_slice(), command].concat();
    if !command.trim_ascii_start().starts_with(b"SLOT") && starts_a_word(command) {
        assert!(judge(Connection::Unproven, &streamed).is_err());
    }
});

/// The text after the keyword is not a part of it, and nothing before it is in quotes.
fn starts_a_word(command: &[u8]) -> bool {
    command.first().is_some_and(u8::is_ascii_digit)
}
