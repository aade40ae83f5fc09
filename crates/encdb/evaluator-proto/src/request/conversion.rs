//! Conversions between plaintext and cells on the server, and new keys.

use pgseal_cell::{DataKeyId, Type};

use super::fields::ty;
use super::opcode;
use crate::wire::{put_bytes, Malformed, Out, Reader};

/// A conversion between plaintext and cells on the server, or a new key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ConversionRequest<'a> {
    /// Makes a cell of a plain value; answered by `Cell`.
    Encrypt {
        /// The data key.
        key: DataKeyId,
        /// The type of the value.
        ty: Type,
        /// The value in PostgreSQL's binary format.
        plain: &'a [u8],
    },
    /// Opens a cell; answered by `Bytes`, the value in PostgreSQL's binary format.
    Decrypt(&'a [u8]),
    /// Makes a new data key in the evaluator; answered by `Bytes`, the wrapped key.
    GenerateKey {
        /// The name of the key.
        name: &'a str,
        /// The group that grants may name.
        group: u32,
        /// Whether conversions make deterministic cells.
        deterministic: bool,
    },
}

impl<'a> ConversionRequest<'a> {
    pub(super) fn parse(opcode: u8, reader: &mut Reader<'a>) -> Result<Self, Malformed> {
        Ok(match opcode {
            opcode::ENCRYPT => {
                let (ty, key) = (ty(reader.u8()?)?, DataKeyId(reader.u32()?));
                let plain = reader.bytes()?;
                Self::Encrypt { key, ty, plain }
            }
            opcode::DECRYPT => Self::Decrypt(reader.bytes()?),
            opcode::GENERATE_KEY => {
                let (deterministic, group) = (reader.flag()?, reader.u32()?);
                let name = reader.text()?;
                Self::GenerateKey {
                    name,
                    group,
                    deterministic,
                }
            }
            _ => return Err(Malformed),
        })
    }

    pub(super) fn put(&self, into: &mut impl Out) {
        match *self {
            Self::Encrypt { key, ty, plain } => {
                into.extend_from_slice(&[opcode::ENCRYPT, ty as u8]);
                into.extend_from_slice(&key.0.to_le_bytes());
                put_bytes(into, plain);
            }
            Self::Decrypt(cell) => {
                into.push(opcode::DECRYPT);
                put_bytes(into, cell);
            }
            Self::GenerateKey {
                name,
                group,
                deterministic,
            } => {
                into.extend_from_slice(&[opcode::GENERATE_KEY, u8::from(deterministic)]);
                into.extend_from_slice(&group.to_le_bytes());
                put_bytes(into, name.as_bytes());
            }
        }
    }
}
