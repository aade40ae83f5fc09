//! A crash at every step of a rotation leaves a key file that opens.

use pgseal_crypto::{KeyLength, MasterKey, Suite};
use pgseal_format::{
    ClusterId, Header, KeyFile, KeyImage, Payload, PayloadError, Slot, SlotKind, UnverifiedKeyFile,
};
use pgseal_keys::{add_slot, open_text, remove_slot, RewriteError, Store};

/// A directory with a key file; every step counts, and the power goes at one of them.
#[derive(Clone, Default)]
struct Directory {
    published: Vec<u8>,
    aside: Vec<u8>,
    /// bytes of a write that reached the medium before the power went
    torn_at: usize,
    steps_left: usize,
}

#[derive(Debug, PartialEq, thiserror::Error)]
#[error("the power went")]
struct PowerCut;

impl Directory {
    fn step(&mut self) -> Result<(), PowerCut> {
        self.steps_left = self.steps_left.checked_sub(1).ok_or(PowerCut)?;
        Ok(())
    }
}

impl Store for Directory {
    type Error = PowerCut;

    fn write_aside(&mut self, bytes: &[u8]) -> Result<(), PowerCut> {
        self.aside = bytes[..self.torn_at.min(bytes.len())].to_vec();
        self.step()?;
        self.aside = bytes.to_vec();
        Ok(())
    }

    fn read_aside(&mut self) -> Result<Vec<u8>, PowerCut> {
        self.step()?;
        Ok(self.aside.clone())
    }

    fn publish(&mut self) -> Result<(), PowerCut> {
        self.step()?;
        self.published = std::mem::take(&mut self.aside);
        Ok(())
    }

    fn discard(&mut self) -> Result<(), PowerCut> {
        self.step()?;
        self.aside.clear();
        Ok(())
    }
}

fn master() -> MasterKey {
    MasterKey::from_bytes(&mut [5; 32])
}

fn header() -> Header {
    Header {
        suite: Suite::AesXts,
        length: KeyLength::Bits256,
        cluster: ClusterId([1; 16]),
        key_id: master().key_id(),
        created: 0,
    }
}

/// A slot whose "command" reverses the payload, and is named.
fn slot(name: &str) -> SlotKind {
    let mut wrapped = Payload::encode(&master(), &header()).to_vec();
    wrapped.reverse();
    SlotKind::Command {
        unwrap: name.into(),
        wrapped,
    }
}

fn open(header: &Header, slot: &Slot) -> Result<MasterKey, PayloadError> {
    let SlotKind::Command { wrapped, .. } = &slot.kind else {
        panic!("only commands here");
    };
    let text: Vec<u8> = wrapped.iter().rev().copied().collect();
    open_text(&text, header)
}

fn decoded(bytes: &[u8]) -> UnverifiedKeyFile {
    match KeyImage::decode(bytes).expect("a key file") {
        KeyImage::File(file) => file,
        KeyImage::Raw(_) => panic!("a key file has a magic"),
    }
}

/// The names of the slots, after each was seen to open and the file to be authentic.
fn names(bytes: &[u8]) -> Vec<String> {
    let file = decoded(bytes);
    for slot in file.slots() {
        assert!(open(file.header(), slot).is_ok(), "slot {} opens", slot.id);
    }
    let file = file.authenticate(&master()).expect("an authentic file");
    let name = |slot: &Slot| match &slot.kind {
        SlotKind::Command { unwrap, .. } => unwrap.clone(),
        other => other.name().into(),
    };
    file.slots().iter().map(name).collect()
}

fn start() -> (Directory, KeyFile) {
    let mut file = KeyFile::new(header());
    file.add(slot("old")).expect("room");
    let published = file.write(&master()).to_vec();
    (
        Directory {
            published,
            ..Directory::default()
        },
        file,
    )
}

fn rotate(
    directory: &mut Directory,
    file: &mut KeyFile,
) -> Result<u8, RewriteError<PowerCut, PayloadError>> {
    add_slot(directory, file, &master(), slot("new"), Some(1), open)
}

#[test]
fn a_rotation_ends_with_the_new_slot_alone() {
    let (mut directory, mut file) = start();
    directory.steps_left = usize::MAX;
    assert_eq!(rotate(&mut directory, &mut file).expect("no power cut"), 2);
    assert_eq!(names(&directory.published), ["new"]);
    assert_eq!(decoded(&directory.published).generation(), 3);
}

#[test]
fn a_power_cut_at_every_step() {
    let mut seen = Vec::new();
    for steps_left in 0..6 {
        for torn_at in [0, 11, 150, usize::MAX] {
            let (mut directory, mut file) = start();
            directory.steps_left = steps_left;
            directory.torn_at = torn_at;
            let cut = rotate(&mut directory, &mut file);
            assert!(matches!(cut, Err(RewriteError::Store(PowerCut))));
            let names = names(&directory.published);
            if seen.last() != Some(&names) {
                seen.push(names);
            }
        }
    }
    assert_eq!(seen, [vec!["old"], vec!["old", "new"]]);
}

#[test]
fn a_slot_that_does_not_open_is_never_published() {
    let (mut directory, mut file) = start();
    directory.steps_left = usize::MAX;
    let before = directory.published.clone();
    let bad = SlotKind::Command {
        unwrap: "bad".into(),
        wrapped: b"rubbish".to_vec(),
    };
    let refusal = add_slot(&mut directory, &mut file, &master(), bad, Some(1), open);
    assert!(matches!(
        refusal,
        Err(RewriteError::Open(PayloadError::NotAKey))
    ));
    assert_eq!(directory.published, before);
    assert_eq!(directory.aside, b"", "it may be the key in clear");
}

/// No slot goes on its own proof, or on that of a slot that is not there: nothing is written.
#[test]
fn a_slot_goes_only_if_another_one_is_proved() {
    let (mut directory, mut file) = start();
    directory.steps_left = usize::MAX;
    let added = add_slot(
        &mut directory,
        &mut file,
        &master(),
        slot("new"),
        None,
        open,
    );
    assert_eq!(added.expect("room"), 2);
    directory.steps_left = 0;
    for (old, proved) in [(2, 2), (1, 3), (3, 2)] {
        let removed =
            remove_slot::<_, PayloadError>(&mut directory, &mut file, &master(), old, proved);
        assert!(
            matches!(removed, Err(RewriteError::ReadBack)),
            "{old} {proved}"
        );
        assert_eq!(file.slots().len(), 2);
    }
    directory.steps_left = usize::MAX;
    let removed = remove_slot::<_, PayloadError>(&mut directory, &mut file, &master(), 1, 2);
    assert!(removed.is_ok());
    assert_eq!(names(&directory.published), ["new"]);
}

#[test]
fn bytes_that_change_on_the_medium_are_never_published() {
    struct Flipping(Directory);
    impl Store for Flipping {
        type Error = PowerCut;
        fn write_aside(&mut self, bytes: &[u8]) -> Result<(), PowerCut> {
            self.0.write_aside(bytes)
        }
        fn read_aside(&mut self) -> Result<Vec<u8>, PowerCut> {
            let mut bytes = self.0.read_aside()?;
            *bytes.last_mut().expect("a key file has bytes") ^= 1;
            Ok(bytes)
        }
        fn publish(&mut self) -> Result<(), PowerCut> {
            self.0.publish()
        }
        fn discard(&mut self) -> Result<(), PowerCut> {
            self.0.discard()
        }
    }
    let (directory, mut file) = start();
    let before = directory.published.clone();
    let mut store = Flipping(Directory {
        steps_left: usize::MAX,
        ..directory
    });
    let refusal = add_slot(&mut store, &mut file, &master(), slot("new"), None, open);
    assert!(matches!(refusal, Err(RewriteError::ReadBack)));
    assert_eq!((store.0.published, store.0.aside), (before, Vec::new()));
}

#[test]
fn sixteen_slots_are_the_most() {
    let (mut directory, mut file) = start();
    directory.steps_left = usize::MAX;
    for id in 2..=16 {
        let added = add_slot(
            &mut directory,
            &mut file,
            &master(),
            slot("more"),
            None,
            open,
        );
        assert_eq!(added.expect("room"), id);
    }
    let refusal = add_slot(
        &mut directory,
        &mut file,
        &master(),
        slot("more"),
        None,
        open,
    );
    assert_eq!(
        refusal.err().map(|error| error.to_string()).as_deref(),
        Some("key.bin has 16 slots already: replace one")
    );
    for old in [16, 3] {
        let replaced = add_slot(
            &mut directory,
            &mut file,
            &master(),
            slot("other"),
            Some(old),
            open,
        );
        assert_eq!(replaced.expect("in its place"), old);
        assert_eq!(file.slots().len(), 16);
    }
}
