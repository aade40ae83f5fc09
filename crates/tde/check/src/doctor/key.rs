//! Judges what a cluster's key file and the files that open it give away: a key or a passphrase
//! that is in clear where copies of the data directory take it along, files that others may
//! read, and memory that may be written to disk.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use pgseal_format::{KeyImage, SecretSource, Slot, SlotKind, SlotNote};
use pgseal_keys::tells_secret;
use pgseal_storage::control::Control;

use super::Finding;

/// Judges the slots. A slot that holds the key in clear, or a command with the passphrase in it,
/// protects nothing from a reader of a copy of key.bin.
pub fn slots(image: &KeyImage) -> Finding {
    let about = "slots";
    let slots = match image {
        KeyImage::File(file) => file.slots(),
        KeyImage::Raw(_) => &[],
    };
    let named = |which: fn(&Slot) -> bool| {
        let ids = slots.iter().filter(|slot| which(slot)).map(|slot| slot.id);
        ids.map(|id| id.to_string()).collect::<Vec<_>>().join(", ")
    };
    let (clear, told) = (named(is_clear), named(tells));
    match (clear.is_empty(), told.is_empty()) {
        (true, true) => Finding::good(about, "none contains the key or a passphrase unencrypted"),
        (false, _) => Finding::wrong(
            about,
            format_args!(
                "slot {clear} holds the master key unencrypted in key.bin, so anyone who has a \
                copy of the data directory can read it: replace it with `pgseal key wrap \
                --replace`"
            ),
        ),
        (true, false) => Finding::wrong(
            about,
            format_args!(
                "the command of slot {told} contains its passphrase in key.bin, so anyone who \
                has a copy of the data directory can read it: replace it with `pgseal key wrap \
                --replace`, \
                 and name a file or a key service in the command"
            ),
        ),
    }
}

/// Judges where the secrets of the slots are. A file with the key in clear protects it as far as
/// its volume does, which nothing here can tell.
pub fn kinds(image: &KeyImage) -> Finding {
    let about = "kinds of slots";
    let KeyImage::File(file) = image else {
        return Finding::good(about, "one raw wrapped key, for a command");
    };
    let in_files = file.slots().iter().filter_map(|slot| match &slot.kind {
        SlotKind::File { path } => Some((slot.id, String::from_utf8_lossy(path))),
        _ => None,
    });
    let in_files: Vec<_> = in_files
        .map(|(id, path)| format!("slot {id} keeps the key unencrypted in the file {path}"))
        .collect();
    match in_files.is_empty() {
        true => {
            let kinds = file
                .slots()
                .iter()
                .map(|slot| format!("{} {}", slot.id, slot.kind.name()));
            Finding::good(about, kinds.collect::<Vec<_>>().join(", "))
        }
        false => Finding::advice(
            about,
            format_args!(
                "{}: anyone who reads that volume can read all data: encrypt it, or use a key \
                service",
                in_files.join("; ")
            ),
        ),
    }
}

fn is_clear(slot: &Slot) -> bool {
    matches!(slot.kind, SlotKind::Plain { .. })
}

fn tells(slot: &Slot) -> bool {
    match &slot.kind {
        SlotKind::Command { unwrap: line, .. }
        | SlotKind::Derived {
            source: SecretSource::Command(line),
            ..
        } => tells_secret(line),
        _ => false,
    }
}

/// Judges what the notes about slots say: each slot is to have been seen to open, and, with a limit
/// in seconds, to be no older than that at the time `now`.
pub fn proofs(slots: &[SlotNote], limit: Option<u64>, now: u64) -> Vec<Finding> {
    let named = |which: &dyn Fn(&SlotNote) -> bool| {
        let ids = slots.iter().filter(|note| which(note));
        ids.map(|note| note.slot.to_string())
            .collect::<Vec<_>>()
            .join(", ")
    };
    let unproved = named(&|note| note.proved.is_none());
    let proofs = match unproved.is_empty() {
        true => Finding::good("proofs", "each slot was seen to open"),
        false => Finding::advice(
            "proofs",
            format_args!(
                "it is not known that slot {unproved} ever opened: check it with `pgseal key check \
                --all`"
            ),
        ),
    };
    let Some(limit) = limit else {
        return vec![proofs];
    };
    let since = now.saturating_sub(limit);
    let old = named(&|note| {
        let made = note.made.as_ref();
        made.is_none_or(|made| made.time < since)
    });
    let age = match old.is_empty() {
        true => Finding::good("age of slots", "none is older than the limit"),
        false => Finding::wrong(
            "age of slots",
            format_args!(
                "slot {old} is older than the limit, or its age is not known: replace it with \
                `pgseal key rotate --slot`"
            ),
        ),
    };
    vec![proofs, age]
}

/// Judges whether a sealed server starts, and may be copied, by what `pg_control` says.
pub fn page_changes(control: &Control) -> Finding {
    let about = "page changes";
    match (control.data_checksums, control.wal_log_hints) {
        (true, _) => Finding::good(about, "data checksums are on"),
        (false, true) => Finding::advice(
            about,
            "wal_log_hints is on and data checksums are off: a changed page is noticed only with \
            checksums: `pg_checksums --enable` on the stopped cluster",
        ),
        (false, false) => Finding::wrong(
            about,
            "data checksums and wal_log_hints are off, and a sealed server runs only with one of \
            them: `pg_checksums --enable`",
        ),
    }
}

/// Judges a file that holds a passphrase or the key; none if it is no file or nothing is wrong.
/// PostgreSQL asks the same of `ssl_key_file`: its owner, the server's user `user`, may alone read
/// it, or it is root's and its group may read it too.
pub fn secret_file(path: &Path, metadata: &Metadata, user: u32) -> Option<Finding> {
    let (owner, mode) = (metadata.uid(), metadata.mode() & 0o777);
    let (excess, chmod) = match owner {
        0 => (0o027, "640"),
        _ => (0o077, "600"),
    };
    let path = path.display();
    let text = match metadata.is_file() {
        false => return None,
        true if owner != 0 && owner != user => {
            format!("{path} is owned by uid {owner}: give it to the server's user or to root")
        }
        true if mode & excess != 0 => format!(
            "{path} has mode {mode:04o}, so others can read or write a secret that opens the \
            cluster: chmod {chmod} it"
        ),
        true => return None,
    };
    Some(Finding::wrong("secret files", text))
}

/// Judges the memory of a server by /proc/PID/maps and /proc/PID/status. `memfd_secret` counts as
/// locked memory, and has one page.
pub fn memory(maps: &str, status: &str) -> Finding {
    let about = "memory";
    let line = status.lines().find_map(|line| line.strip_prefix("VmLck:"));
    let locked = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    let is_secret = maps.contains("/secretmem");
    match (is_secret, locked) {
        (_, None) => Finding::advice(
            about,
            "cannot be checked: run this as the server's user or \
            root",
        ),
        (true, Some(kilobytes)) if kilobytes > 4 => Finding::good(
            about,
            "the server's keys are locked, and its master key is secret memory",
        ),
        (false, Some(kilobytes)) if kilobytes > 0 => Finding::advice(
            about,
            "the server's keys are locked, but the kernel gave no secret memory, so root and \
             debuggers can read the master key: use Linux 6.5 or later, or start an earlier one \
             with secretmem.enable=1, and allow the service to call memfd_secret",
        ),
        (true, Some(_)) => Finding::advice(
            about,
            "the keys of the server's open files are not locked and may be written to swap: raise \
             its limit of locked memory (LimitMEMLOCK in its unit, `ulimit -l`)",
        ),
        (false, Some(_)) => Finding::advice(
            about,
            "the server's keys, its master key too, are not locked and may be written to swap: \
             raise its limit of locked memory (LimitMEMLOCK in its unit, `ulimit -l`)",
        ),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::doctor::Verdict;

    #[test]
    fn secret_files_are_as_postgresql_wants_its_own() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let user = file.as_file().metadata().expect("it exists").uid();
        let judged = |mode: u32| {
            fs::set_permissions(file.path(), Permissions::from_mode(mode)).expect("it is ours");
            let metadata = fs::metadata(file.path()).expect("it exists");
            secret_file(file.path(), &metadata, user)
        };
        for mode in [0o600, 0o400] {
            assert!(judged(mode).is_none(), "{mode:o}");
        }
        for mode in [0o644, 0o666, 0o604, 0o620] {
            let found = judged(mode).expect("others may read it");
            assert_eq!(found.verdict, Verdict::Wrong, "{mode:o}");
            assert!(
                found.text.contains(&format!("mode {mode:04o}")),
                "{}",
                found.text
            );
        }
        assert_eq!(judged(0o640).is_none(), user == 0);
        let directory = fs::metadata("/tmp").expect("it exists");
        assert!(secret_file(Path::new("/tmp"), &directory, user).is_none());
    }

    #[test]
    fn slots_that_are_old_or_were_never_proved() {
        let stamp = |time| pgseal_format::Stamp {
            time,
            uid: 0,
            user: String::new(),
        };
        let note = |slot, made: Option<u64>, proved: Option<u64>| SlotNote {
            slot,
            fingerprint: [0; 16],
            made: made.map(stamp),
            proved: proved.map(stamp),
            label: String::new(),
        };
        let notes = [
            note(1, Some(900), Some(950)),
            note(2, Some(10), None),
            note(3, None, Some(990)),
        ];
        let found = proofs(&notes, Some(100), 1000);
        assert_eq!(found[0].verdict, Verdict::Advice);
        assert!(
            found[0].text.contains("slot 2 ever opened"),
            "{}",
            found[0].text
        );
        assert_eq!(found[1].verdict, Verdict::Wrong);
        assert!(
            found[1].text.starts_with("slot 2, 3 is older"),
            "{}",
            found[1].text
        );
        let found = proofs(&notes[..1], Some(100), 1000);
        let good = |found: &Finding| found.verdict == Verdict::Good;
        assert!(found.len() == 2 && found.iter().all(good));
        assert_eq!(proofs(&notes, None, 1000).len(), 1);
    }

    #[test]
    fn keys_in_memory() {
        let locked = |kilobytes: &str| format!("Name:\tpostgres\nVmLck:\t   {kilobytes} kB\n");
        let secret = "7f00-7f01 r--s 00000000 00:0f 1  /secretmem (deleted)\n";
        for (maps, status, verdict, part) in [
            (secret, locked("68"), Verdict::Good, "locked"),
            (secret, locked("4"), Verdict::Advice, "open files are not"),
            ("", locked("68"), Verdict::Advice, "no secret memory"),
            ("", locked("0"), Verdict::Advice, "its master key too"),
            ("", String::new(), Verdict::Advice, "cannot be checked"),
        ] {
            let found = memory(maps, &status);
            assert_eq!(found.verdict, verdict, "{part}");
            assert!(found.text.contains(part), "{}", found.text);
        }
    }
}
