//! Tickets, by which connections for parallel workers come into the session of their leader.
//!
//! The evaluator and the process that leads the session have one secret of it. Each ticket is
//! derived from it and is good once: the secret moves on when a ticket is taken, on both sides. So
//! a ticket says nothing about the next one, and none is of use to who saw it.

use pgseal_crypto::Secret;

/// Proves to an evaluator that a parallel worker belongs to a session.
pub type Ticket = [u8; 16];

/// The tickets of a session, from one on.
pub struct Tickets(Secret);

impl Tickets {
    /// Those that follow from this secret.
    pub fn new(secret: Secret) -> Self {
        Self(secret)
    }

    /// Returns the secret that the tickets follow from, for the other side.
    pub fn secret(&self) -> &[u8; 32] {
        self.0.expose()
    }

    /// The ticket that is good now.
    pub fn ticket(&self) -> Ticket {
        self.0.derive_public(b"pgseal/ticket/1 ticket\0")
    }

    /// The ticket was taken: the next one is good from now on.
    pub fn advance(&mut self) {
        self.0 = self.0.derive(b"pgseal/ticket/1 next\0");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_have_the_same_tickets_and_none_comes_twice() {
        let sides = || Tickets::new(Secret::from_bytes(&mut [7; 32]));
        let (mut here, mut there) = (sides(), sides());
        let mut seen = Vec::new();
        for _ in 0..100 {
            assert_eq!(here.ticket(), there.ticket());
            assert!(!seen.contains(&here.ticket()));
            seen.push(here.ticket());
            here.advance();
            assert_ne!(here.ticket(), there.ticket());
            there.advance();
        }
    }
}
