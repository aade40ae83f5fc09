//! Changing the slots of a key file, so that a crash at any moment leaves a file that opens.
//!
//! The steps of one generation: (1) write the new bytes aside and make them durable; (2) read them
//! back; (3) open the slot that matters through its provider and compare the key; (4) publish. A
//! rotation is two generations: the first has the old slot and the new one, the second only the
//! new. A full file changes in one. Before (4) the old file is valid; after it the new one, whose
//! slot was just seen to open.
//!
//! What was written aside holds a wrapping that was not checked, perhaps the key in clear, so a
//! generation that fails removes it.
//!
//! The caller holds the lock on the key file.

use pgseal_crypto::{equal, MasterKey};
use pgseal_format::{
    AddError, Altered, Header, KeyFile, KeyFileError, KeyImage, Slot, SlotKind, UnverifiedKeyFile,
};
use zeroize::Zeroizing;

/// The store of a key file.
pub trait Store {
    /// The error of the store.
    type Error;
    /// Writes `bytes` beside the key file, durably.
    fn write_aside(&mut self, bytes: &[u8]) -> Result<(), Self::Error>;
    /// The bytes that `write_aside` wrote, read anew.
    fn read_aside(&mut self) -> Result<Vec<u8>, Self::Error>;
    /// Makes those bytes the key file, atomically and durably.
    fn publish(&mut self) -> Result<(), Self::Error>;
    /// Removes durably what `write_aside` wrote, if it is there.
    fn discard(&mut self) -> Result<(), Self::Error>;
}

/// Why the key file was left as it was.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError<S, O> {
    /// Storing failed.
    #[error(transparent)]
    Store(S),
    /// The new slot does not fit.
    #[error(transparent)]
    Add(#[from] AddError),
    /// The new slot does not open.
    #[error("the new slot does not open, so key.bin was left as it was: {0}")]
    Open(O),
    /// The new slot opens to something else.
    #[error("the new slot gives another key, so key.bin was left as it was: check the new wrap and unwrap commands")]
    OtherKey,
    /// The bytes that were read back are not those that were written.
    #[error("the new key.bin cannot be read back, so the old one was left: check the file system")]
    ReadBack,
}

/// Adds `new` to `file`, and then takes the slot `old` out; both in one generation if the file is
/// full. `open` opens a slot through its provider. Returns the id of the new slot.
pub fn add_slot<S: Store, O>(
    store: &mut S,
    file: &mut KeyFile,
    master: &MasterKey,
    new: SlotKind,
    old: Option<u8>,
    mut open: impl FnMut(&Header, &Slot) -> Result<MasterKey, O>,
) -> Result<u8, RewriteError<S::Error, O>> {
    let old = old.filter(|old| !(file.is_full() && file.remove(*old)));
    let id = file.add(new)?;
    publish_or_discard(store, file, master, id, &mut open)?;
    if old.is_some_and(|old| file.remove(old)) {
        publish_or_discard(store, file, master, id, &mut open)?;
    }
    Ok(id)
}

/// Takes the slot `old` out of `file`, in which `proved` was just seen to open.
pub fn remove_slot<S: Store, O>(
    store: &mut S,
    file: &mut KeyFile,
    master: &MasterKey,
    old: u8,
    proved: u8,
) -> Result<(), RewriteError<S::Error, O>> {
    let fingerprint = |slots: &[Slot]| {
        let slot = slots.iter().find(|slot| slot.id == proved);
        slot.map(Slot::fingerprint)
    };
    let expected = fingerprint(file.slots());
    if old == proved || expected.is_none() || !file.remove(old) {
        return Err(RewriteError::ReadBack);
    }
    // The slot that is read back is the very one that opened, so it need not be opened again.
    let mut open = |_: &Header, slot: &Slot| -> Result<MasterKey, O> {
        let same = Some(slot.fingerprint()) == expected;
        let mut key = Zeroizing::new(if same { *master.expose() } else { [0; 32] });
        Ok(MasterKey::from_bytes(&mut key))
    };
    publish_or_discard(store, file, master, proved, &mut open)
}

fn publish_or_discard<S: Store, O>(
    store: &mut S,
    file: &mut KeyFile,
    master: &MasterKey,
    id: u8,
    open: &mut impl FnMut(&Header, &Slot) -> Result<MasterKey, O>,
) -> Result<(), RewriteError<S::Error, O>> {
    let published = publish(store, file, master, id, open);
    if published.is_err() {
        store.discard().map_err(RewriteError::Store)?;
    }
    published
}

/// Writes one generation, in which the slot `id` must open.
fn publish<S: Store, O>(
    store: &mut S,
    file: &mut KeyFile,
    master: &MasterKey,
    id: u8,
    open: &mut impl FnMut(&Header, &Slot) -> Result<MasterKey, O>,
) -> Result<(), RewriteError<S::Error, O>> {
    store
        .write_aside(&file.write(master))
        .map_err(RewriteError::Store)?;
    let bytes = store.read_aside().map_err(RewriteError::Store)?;
    let image = read_back(&bytes).map_err(|_| RewriteError::ReadBack)?;
    let slot = image
        .slots()
        .iter()
        .find(|slot| slot.id == id)
        .ok_or(RewriteError::ReadBack)?;
    let opened = open(image.header(), slot).map_err(RewriteError::Open)?;
    if !equal(opened.expose(), master.expose()) {
        return Err(RewriteError::OtherKey);
    }
    image
        .authenticate(&opened)
        .map_err(|Altered| RewriteError::ReadBack)?;
    store.publish().map_err(RewriteError::Store)
}

fn read_back(bytes: &[u8]) -> Result<UnverifiedKeyFile, KeyFileError> {
    match KeyImage::decode(bytes)? {
        KeyImage::File(file) => Ok(file),
        KeyImage::Raw(_) => Err(KeyFileError::Empty),
    }
}
