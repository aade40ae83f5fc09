//! Digests of transcripts and reports.

use aws_lc_rs::digest::{Context, SHA256, SHA512};

/// SHA-256 of the parts, one after the other.
pub fn sha256(parts: &[&[u8]]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}

/// SHA-512 of the parts, one after the other.
pub fn sha512(parts: &[&[u8]]) -> [u8; 64] {
    let mut context = Context::new(&SHA512);
    parts.iter().for_each(|part| context.update(part));
    let mut digest = [0; 64];
    digest.copy_from_slice(context.finish().as_ref());
    digest
}
