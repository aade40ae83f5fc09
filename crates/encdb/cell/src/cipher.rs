//! Sealing and opening of cells of version 1. A statement calls these functions for every value
//! that it touches, so nothing here allocates, except to grow the caller's buffer.

use pgseal_crypto::aead::{self, Aead, Sealed, LANES};
use pgseal_crypto::{Mac, Nonces, RandomError};
use pgseal_value::Type;
use zeroize::Zeroize;

use crate::cell::{check_byte, HEADER};
use crate::{CellError, CellRef, DataKey, DataKeyId, Envelope, Mode};

const LABEL: &[u8; 14] = b"pgseal/cell/1\0";
/// The length of the associated data in bytes: label, type, form, key id.
const AD: usize = LABEL.len() + 6;
const VERSION_1: u8 = 0x10;

/// The keys that are derived from a data key, ready to seal and open cells.
pub struct CellCipher {
    id: DataKeyId,
    aead: Aead,
    nonces: Mac,
}

impl CellCipher {
    /// Derives and expands the keys, once for many cells.
    pub fn new(key: &DataKey) -> Self {
        Self {
            id: key.id(),
            aead: Aead::new(&key.sealing_key()),
            nonces: Mac::new(&key.nonce_key()),
        }
    }

    /// Returns the id that the cells of this key carry.
    #[inline]
    pub fn id(&self) -> DataKeyId {
        self.id
    }

    /// Seals a value, given in PostgreSQL's binary format, and appends its cell to `into`. Fails
    /// only if the system has no randomness for the nonce.
    pub fn seal(
        &self,
        ty: Type,
        mode: Mode,
        plain: &[u8],
        nonces: &mut Nonces,
        into: &mut Vec<u8>,
    ) -> Result<(), RandomError> {
        let ad = self.ad(ty, mode);
        let nonce = match mode {
            Mode::Deterministic => self.nonce(&ad, plain),
            Mode::Randomised | Mode::Derived => nonces.take()?,
        };
        self.seal_under(nonce, &ad, plain, into);
        Ok(())
    }

    /// Opens a cell and writes its value, in PostgreSQL's binary format, to `out`. `out` must have
    /// the value's [length](CellRef::plain_len). It is all zeros if the cell is refused.
    #[inline]
    pub fn open_to(&self, cell: &CellRef<'_>, out: &mut [u8]) -> Result<(), CellError> {
        let mode = self.mode_of(cell).filter(|_| out.len() == cell.plain_len());
        let Some(mode) = mode else {
            out.zeroize();
            return Err(CellError::NotAuthentic);
        };
        let ad = self.ad(cell.ty(), mode);
        self.aead
            .open(cell.nonce(), &ad, cell.ciphertext(), cell.tag(), out)
            .map_err(|_| CellError::NotAuthentic)
    }

    /// Returns the mode of a cell that names this key.
    fn mode_of(&self, cell: &CellRef<'_>) -> Option<Mode> {
        match cell.envelope() {
            Envelope::Sealed { mode, key } if key == self.id => Some(mode),
            _ => None,
        }
    }

    /// Opens a cell and replaces the contents of `into` with its value.
    #[inline]
    pub fn open(&self, cell: &CellRef<'_>, into: &mut Vec<u8>) -> Result<(), CellError> {
        room_for(cell, into);
        self.open_to(cell, into)
    }

    /// Opens four cells side by side, each under its cipher as [`CellCipher::open`] does. Short
    /// cells take less than half the time so.
    pub fn open_four(
        ciphers: [&Self; LANES],
        cells: &[CellRef<'_>; LANES],
        into: &mut [Vec<u8>; LANES],
    ) -> [Result<(), CellError>; LANES] {
        let mut ads = [[0; AD]; LANES];
        let mut lanes = ciphers.iter().zip(cells).zip(&mut ads);
        let are_all_named = lanes.all(|((cipher, cell), ad)| {
            let mode = cipher.mode_of(cell);
            *ad = mode.map_or([0; AD], |mode| cipher.ad(cell.ty(), mode));
            mode.is_some()
        });
        let mut lanes = ciphers.iter().zip(cells).zip(into);
        if !are_all_named {
            return [(); LANES].map(|()| {
                let ((cipher, cell), into) = lanes.next().expect("as many as lanes");
                cipher.open(cell, into)
            });
        }
        let mut ads = ads.iter();
        let mut messages = [(); LANES].map(|()| {
            let ((_, cell), into) = lanes.next().expect("as many as lanes");
            room_for(cell, into);
            Sealed {
                nonce: cell.nonce(),
                ad: ads.next().expect("as many as lanes"),
                text: cell.ciphertext(),
                tag: cell.tag(),
                out: into,
            }
        });
        let opened = aead::open_four(ciphers.map(|cipher| &cipher.aead), &mut messages);
        opened.map(|opened| opened.map_err(|_| CellError::NotAuthentic))
    }

    fn ad(&self, ty: Type, mode: Mode) -> [u8; AD] {
        let mut ad = [0; AD];
        ad[..LABEL.len()].copy_from_slice(LABEL);
        ad[LABEL.len()] = ty as u8;
        ad[LABEL.len() + 1] = VERSION_1 | mode as u8;
        ad[LABEL.len() + 2..].copy_from_slice(&self.id.0.to_be_bytes());
        ad
    }

    /// Returns the synthetic nonce of deterministic cells, a keyed function of value, type, mode
    /// and key.
    fn nonce(&self, ad: &[u8], plain: &[u8]) -> [u8; 12] {
        let mut nonce = [0; 12];
        nonce.copy_from_slice(&self.nonces.tag(&[ad, plain])[..12]);
        nonce
    }

    fn seal_under(&self, nonce: [u8; 12], ad: &[u8; AD], plain: &[u8], into: &mut Vec<u8>) {
        let start = into.len();
        into.reserve(HEADER + plain.len());
        into.push(0);
        into.extend_from_slice(&ad[LABEL.len()..]);
        into.extend_from_slice(&nonce);
        into.extend_from_slice(&[0; 16]);
        into.extend_from_slice(plain);
        let cell = &mut into[start..];
        let tag = self.aead.seal(&nonce, ad, &mut cell[HEADER..]);
        cell[HEADER - 16..HEADER].copy_from_slice(&tag);
        cell[0] = check_byte(&cell[1..]);
    }
}

/// Gives a buffer the length of a cell's value. A buffer that must grow is wiped first, because
/// growing leaves its old memory behind.
#[inline]
fn room_for(cell: &CellRef<'_>, into: &mut Vec<u8>) {
    if into.capacity() < cell.plain_len() {
        into.zeroize();
    }
    into.resize(cell.plain_len(), 0);
}
