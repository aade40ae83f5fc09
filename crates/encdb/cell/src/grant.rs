//! What an owner lets others do with its keys: grants, and lists of those that no longer hold.
//!
//! States, each a type: [`Grant`] (well formed; anybody may have written it), then
//! [`VerifiedGrant`] (signed by that owner, begun, not over, not revoked at the time of asking).
//! [`Revocations`] and [`VerifiedRevocations`] likewise. Nobody but [`verify`] and
//! [`Revocations::verify`] makes the second kind.
//!
//! Times are seconds since 1970; a grant holds from `not_before` on and before `not_after`.

mod operations;
mod revocations;
mod scope;
mod signed;

pub use operations::{Operation, Operations};
pub use revocations::{Revocations, VerifiedRevocations};
pub use scope::{DatabaseId, KeyScope, Serial, Subject};
pub use signed::{verify, Grant, GrantTerms, VerifiedGrant};

/// Why a grant, or a list of revocations, gives no right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GrantError {
    /// Not a grant, or not a list of revocations.
    #[error("it is malformed: ask the owner for a new one")]
    Malformed,
    /// Written by a later pgseal.
    #[error("it is of a form that this pgseal does not know: install a newer pgseal")]
    Unknown,
    /// Another owner's, or altered.
    #[error("it was not signed by this owner")]
    Foreign,
    /// For background work, but with more than comparisons.
    #[error("a grant for background work may allow comparisons only")]
    TooWide,
    /// Its time has not come.
    #[error("it does not hold yet")]
    Early,
    /// Its time is over.
    #[error("it has expired")]
    Expired,
    /// The owner took it back.
    #[error("it was revoked")]
    Revoked,
}
