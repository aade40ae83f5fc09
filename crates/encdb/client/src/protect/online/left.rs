//! The statements that are left for after the exchange, which an index or a constraint has as its
//! comment.
//!
//! The table's owner can change a comment, and a later run may be another role's, such as a
//! superuser's. So the comment is signed, and a run executes only what its own identity wrote.

use pgseal_crypto::sign::{PublicKey, SigningKey};

use crate::{from_hex, to_hex};

const LABEL: &[u8] = b"pgseal/protect/1\0";

/// The object whose comment it is: an index by its schema and its name, or a constraint by its
/// table, as SQL writes it, and its name. The two have no name in common.
pub(crate) type Commented<'n> = (&'n str, &'n str);

/// Returns the items of the comment.
pub(crate) fn written(of: Commented<'_>, statements: &[String], by: &SigningKey) -> Vec<String> {
    let signature = by.sign(&message(of, statements));
    let signature = [to_hex(&signature)];
    signature.iter().chain(statements).cloned().collect()
}

/// Returns the statements of a comment; none if this signer did not write it for this object.
pub(crate) fn read<'c>(
    of: Commented<'_>,
    comment: &'c [String],
    by: &PublicKey,
) -> Option<&'c [String]> {
    let (signature, statements) = comment.split_first()?;
    let signature = from_hex(signature)?;
    let signature = signature.as_slice().try_into().ok()?;
    by.verify(&message(of, statements), signature)
        .then_some(statements)
}

/// Each part follows its length, so that no two lists give the same bytes.
fn message((place, name): Commented<'_>, statements: &[String]) -> Vec<u8> {
    let mut bytes = LABEL.to_vec();
    let statements = statements.iter().map(String::as_str);
    for part in [place, name].into_iter().chain(statements) {
        bytes.extend_from_slice(&(part.len() as u64).to_be_bytes());
        bytes.extend_from_slice(part.as_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use pgseal_crypto::Secret;

    fn key(seed: u8) -> SigningKey {
        SigningKey::from_seed(&Secret::from_bytes(&mut [seed; 32]))
    }

    #[test]
    fn only_what_the_identity_wrote_for_the_object_is_read() {
        let statements = ["CREATE INDEX a".to_owned(), "ALTER INDEX b".to_owned()];
        let comment = written(("s", "i"), &statements, &key(1));
        let mine = key(1).public();
        assert_eq!(read(("s", "i"), &comment, &mine), Some(&statements[..]));
        assert_eq!(read(("s", "j"), &comment, &mine), None);
        assert_eq!(read(("t", "i"), &comment, &mine), None);
        assert_eq!(read(("s", "i"), &comment, &key(2).public()), None);
        for at in 0..comment.len() {
            let mut changed = comment.clone();
            changed[at].push(' ');
            assert_eq!(read(("s", "i"), &changed, &mine), None, "{at}");
            changed.remove(at);
            assert_eq!(read(("s", "i"), &changed, &mine), None, "without {at}");
        }
        assert_eq!(read(("s", "i"), &[], &mine), None);
    }
}
