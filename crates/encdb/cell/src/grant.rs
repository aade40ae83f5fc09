//! Grants, by which an owner lets others use its keys, and lists of the grants that are revoked.
//!
//! Each state is a type. A [`Grant`] is well formed, but anybody may have written it. A
//! [`VerifiedGrant`] is signed by that owner, and was in its period and not revoked when it was
//! verified. [`Revocations`] and [`VerifiedRevocations`] differ likewise. Only [`verify`] and
//! [`Revocations::verify`] make the verified types.
//!
//! Times are seconds since 1970. A grant holds from `not_before` on and before `not_after`.

mod operations;
mod revocations;
mod scope;
mod signed;

pub use operations::{Operation, Operations};
pub use revocations::{Revocations, VerifiedRevocations};
pub use scope::{DatabaseId, KeyScope, Serial, Subject};
pub use signed::{verify, Grant, GrantTerms, VerifiedGrant};

/// The reason why a grant, or a list of revocations, gives no right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// The bytes are not a grant, or not a list of revocations.
    #[error("it is malformed: ask the owner for a new one")]
    Malformed,
    /// A later pgseal wrote it.
    #[error("it is of a form that this pgseal does not know: install a newer pgseal")]
    Unknown,
    /// Another owner signed it, or it was altered.
    #[error("it was not signed by this owner")]
    Foreign,
    /// The grant is for background work and allows more than comparisons.
    #[error("a grant for background work may allow comparisons only")]
    TooWide,
    /// The grant does not hold yet.
    #[error("it does not hold yet")]
    Early,
    /// The grant no longer holds.
    #[error("it has expired")]
    Expired,
    /// The owner revoked the grant.
    #[error("it was revoked")]
    Revoked,
}
