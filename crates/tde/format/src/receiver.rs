//! Receiver tokens: `v1.<expiry>.<role>.<mac>`, which a replication connection shows to get clear
//! pages and WAL.
//!
//! The MAC is made under the cluster's master key over the system identifier, the expiry in seconds
//! since 1970, and the role (`docs/format/receiver.md`). A holder of the master makes its own
//! token; others are granted one (`pgseal receiver grant`).
//!
//! Invariant: a token has one spelling. It is a bearer's right, so it has no `Debug`; a
//! [`ReceiverToken`] is well formed, nothing more: only [`ReceiverToken::verify`] says whether it
//! holds.

use pgseal_crypto::mac::ReceiverMac;
use pgseal_crypto::MasterKey;

use crate::hex;

const VERSION: &[u8] = b"v1.";

/// A token that was parsed; it is not checked yet.
pub struct ReceiverToken<'a> {
    expiry: u64,
    role: &'a [u8],
    mac: [u8; 16],
}

/// Why a token gives no right to clear pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// No token at all.
    #[error("it is no receiver token: take one from pgseal receiver grant")]
    Malformed,
    /// Made under another key, for another cluster, or altered.
    #[error("the receiver token was not made under this cluster's key: take a new one from pgseal receiver grant on this cluster")]
    Foreign,
    /// A good token of another role.
    #[error("the receiver token is another role's: connect as the role that it was granted to")]
    OtherRole,
    /// A good token whose time is over.
    #[error("the receiver token has expired: take a new one from pgseal receiver grant")]
    Expired,
}

impl<'a> ReceiverToken<'a> {
    /// The token that lets `role` have clear pages until `expiry`, in seconds since 1970.
    pub fn grant(master: &MasterKey, system_id: u64, role: &[u8], expiry: u64) -> Vec<u8> {
        let mac = ReceiverMac::new(master).tag(system_id, expiry, role);
        let mut token = [VERSION, expiry.to_string().as_bytes(), b".", role, b"."].concat();
        hex::push(&mut token, &mac);
        token
    }

    /// Reads a token. A role may hold dots.
    pub fn parse(token: &'a [u8]) -> Result<Self, TokenError> {
        Self::split(token).ok_or(TokenError::Malformed)
    }

    fn split(token: &'a [u8]) -> Option<Self> {
        let rest = token.strip_prefix(VERSION)?;
        let dot = rest.iter().position(|&byte| byte == b'.')?;
        let last = rest.iter().rposition(|&byte| byte == b'.')?;
        let role = rest.get(dot + 1..last).filter(|role| !role.is_empty())?;
        Some(Self {
            expiry: number(&rest[..dot])?,
            role,
            mac: *hex::parse(&rest[last + 1..])?,
        })
    }

    /// When the token expires, in seconds since 1970, if it is good.
    pub fn expiry(&self) -> u64 {
        self.expiry
    }

    /// The role that it is for, if it is good.
    pub fn role(&self) -> &[u8] {
        self.role
    }

    /// Checks that the token lets `role` have clear pages of the cluster `system_id` at the time
    /// `now`, in seconds since 1970.
    pub fn verify(
        &self,
        master: &MasterKey,
        system_id: u64,
        role: &[u8],
        now: u64,
    ) -> Result<(), TokenError> {
        let mac = ReceiverMac::new(master);
        if !mac.verify(system_id, self.expiry, self.role, &self.mac) {
            return Err(TokenError::Foreign);
        }
        if self.role != role {
            return Err(TokenError::OtherRole);
        }
        if now >= self.expiry {
            return Err(TokenError::Expired);
        }
        Ok(())
    }
}

/// A decimal number in its one spelling: no sign, no leading zero.
fn number(digits: &[u8]) -> Option<u64> {
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (number.to_string().as_bytes() == digits).then_some(number)
}
