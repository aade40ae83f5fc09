//! Grants and lists of revocations, as anybody may have written them: nothing panics, what is read
//! is written as the same bytes, and only what the owner signed holds.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pgseal_cell::grant::{verify, Grant, GrantError, Operations, Revocations, Subject};
use pgseal_crypto::sign::SigningKey;
use pgseal_crypto::Secret;

fuzz_target!(|data: &[u8]| {
    let owner = SigningKey::from_seed(&Secret::from_bytes(&mut [7; 32]));
    if let Ok(list) = Revocations::parse(data) {
        assert_eq!(list.encode(), data);
        assert!(list.verify(&owner.public()).is_err());
    }
    let Ok(grant) = Grant::parse(data) else {
        return;
    };
    assert_eq!(grant.encode(), data);
    let foreign = verify(&grant, &owner.public(), 0, None);
    assert_eq!(foreign.err(), Some(GrantError::Foreign));
    signed(&grant, &owner);
});

/// Signs the grant's terms with our key and checks the verdict on them.
fn signed(grant: &Grant, owner: &SigningKey) {
    let ours = Grant::sign(grant.terms().clone(), owner);
    let again = Grant::parse(&ours.encode()).expect("what we wrote");
    assert_eq!(again, ours);
    let terms = ours.terms();
    let verdict = verify(&ours, &owner.public(), terms.not_before, None);
    let wide =
        terms.subject == Subject::Background && !terms.operations.within(Operations::BACKGROUND);
    let expected = match (wide, terms.not_before < terms.not_after) {
        (true, _) => Some(GrantError::TooWide),
        (false, false) => Some(GrantError::Expired),
        (false, true) => None,
    };
    assert_eq!(verdict.err(), expected);
}
