//! These tests say which source opens a slot first, with whose rights it runs, and how often it is
//! tried.

use std::fs::File;
use std::os::unix::fs::MetadataExt;

use super::*;
use crate::SourceError;
use pgseal_crypto::passphrase::SALT;
use pgseal_crypto::pbkdf2::Pbkdf2Params;
use pgseal_crypto::{KeyLength, Suite};
use pgseal_format::{ClusterId, Cost, Kdf, PayloadError};

fn header() -> Header {
    let master = MasterKey::from_bytes(&mut [1; 32]);
    Header {
        suite: Suite::AesXts,
        length: KeyLength::Bits256,
        cluster: ClusterId([2; 16]),
        key_id: master.key_id(),
        created: 0,
    }
}

/// Returns the outcome of a slot whose stored command leaves a trace, and whether it ran.
fn tried(external: bool) -> (SlotError, bool) {
    let data = tempfile::tempdir().expect("a directory");
    let refusal = tried_in(data.path(), external, "echo ran | tee canary");
    (refusal, data.path().join("canary").exists())
}

fn tried_in(data: &Path, external: bool, command: &str) -> SlotError {
    let sources = || Sources {
        external,
        ..Sources::default()
    };
    let key_bin = data.join("key.bin");
    std::fs::write(&key_bin, "").expect("a file");
    let owner = std::fs::metadata(data).expect("it exists").uid();
    std::os::unix::fs::chown(&key_bin, Some(owner), None).expect("of whose it is");
    let file = File::open(&key_bin).expect("it was just made");
    let unlocker = Unlocker {
        source: writer::Source::of(&key_bin, &file).ok(),
        data,
        unwrap: sources(),
        key: sources(),
        provider: sources(),
        passphrase: Source::default(),
        agent: false,
        demand: Demand::default(),
        files: Vec::new(),
        of_machine: None,
    };
    let kind = SlotKind::Command {
        unwrap: command.into(),
        wrapped: vec![0],
    };
    let refusal = unlocker.slot(&header(), &Slot { id: 1, kind }).err();
    refusal.expect("the command prints no key")
}

/// Each kind has sources of its own, and `-` is no command.
#[test]
fn what_is_given_ranks_before_what_is_stored() {
    let ways = Ways {
        unwrap_command: Some("unwrap".into()),
        key_provider: Some("tpm:".into()),
        ..Ways::default()
    };
    let mut unlocker = Unlocker::fixed(Path::new("/data"), ways);
    unlocker.key.command_line = Some("key".into());
    for (sources, given) in [
        (unlocker.unwrap_sources(), "unwrap"),
        (unlocker.key_sources(), "key"),
        (unlocker.provider_sources(), "tpm:"),
    ] {
        let chosen = sources.choose(Some("stored"));
        assert_eq!(chosen, Ok((given, Origin::CommandLine)));
    }
    assert_eq!(given("cat".into()).as_deref(), Some("cat"));
    assert!(given("-".into()).is_none() && given(String::new()).is_none());
}

fn derived(source: SecretSource) -> SlotKind {
    let cost = Cost::Pbkdf2(Pbkdf2Params::LEAST);
    let salt = [0; SALT];
    SlotKind::Derived {
        source,
        kdf: Kdf { salt, cost },
        wrapped: Vec::new(),
    }
}

#[test]
fn files_that_the_slots_themselves_name() {
    let command = |name: &str| format!("openssl enc -d -pass file:{name} -in \"%p\"");
    let kinds = [
        derived(SecretSource::Command(command("/of-key"))),
        derived(SecretSource::Passphrase),
        SlotKind::Command {
            unwrap: command("beside"),
            wrapped: Vec::new(),
        },
        SlotKind::File {
            path: b"/key".to_vec(),
        },
    ];
    let slots: Vec<_> = (1..)
        .zip(kinds)
        .map(|(id, kind)| Slot { id, kind })
        .collect();
    let unlocker = Unlocker::fixed(Path::new("/data"), Ways::default());
    let files = ["/of-key", "/data/beside", "/key"].map(PathBuf::from);
    assert_eq!(unlocker.secret_files(&slots), files);
}

/// A file or a command gives the same secret again.
#[test]
fn only_who_types_a_passphrase_may_try_again() {
    let mut unlocker = Unlocker::fixed(Path::new("/data"), Ways::default());
    let command = SecretSource::Command("command".into());
    let typed = if unlocker.passphrase.is_asked() { 3 } else { 1 };
    assert_eq!(unlocker.tries(&SecretSource::Passphrase), typed);
    assert_eq!(unlocker.tries(&command), 1);
    unlocker.passphrase = Source::of_options(Some("/passphrase".into()), None);
    assert_eq!(unlocker.tries(&SecretSource::Passphrase), 1);
}

#[test]
fn a_stored_command_has_the_rights_of_who_wrote_it() {
    const NOBODY: u32 = 65534;
    let data = tempfile::tempdir().expect("a directory");
    let mut user = nix::unistd::geteuid().as_raw();
    if user == 0 {
        std::os::unix::fs::chown(data.path(), Some(NOBODY), Some(NOBODY)).expect("root may");
        user = NOBODY;
    }
    tried_in(data.path(), false, "id -u | tee user; id -G > groups");
    let seen = |file| std::fs::read_to_string(data.path().join(file)).expect("it ran");
    assert_eq!(seen("user"), format!("{user}\n"));
    assert!(user != NOBODY || seen("groups") == format!("{NOBODY}\n"));
}

#[test]
fn a_foreign_directory_runs_nothing_under_the_external_policy() {
    let (refusal, ran) = tried(true);
    assert!(matches!(
        refusal,
        SlotError::Source(SourceError::External(_))
    ));
    assert!(!ran);
    let (refusal, ran) = tried(false);
    assert!(matches!(refusal, SlotError::Payload(PayloadError::NotAKey)));
    assert!(ran);
}
