//! The bytes that wait for a side, which takes them in parts.

/// A queue of bytes. A large statement takes no longer for being sent in many parts: what is left
/// moves to the front only when at least as much was sent.
#[derive(Debug, Default)]
pub struct Outgoing {
    bytes: Vec<u8>,
    /// The bytes at the front that were sent.
    sent: usize,
}

impl Outgoing {
    /// Returns the buffer, for bytes to be appended at its end.
    pub fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Returns the bytes that wait.
    pub fn waiting(&self) -> &[u8] {
        self.bytes.get(self.sent..).unwrap_or_default()
    }

    /// Notes that the first `count` of them were sent.
    pub fn sent(&mut self, count: usize) {
        self.sent += count;
        if self.sent >= self.waiting().len() {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_leave_in_their_order() {
        let mut outgoing = Outgoing::default();
        let bytes: Vec<u8> = (0..=255).collect();
        let mut arrived = Vec::new();
        for part in bytes.chunks(16) {
            outgoing.buffer().extend_from_slice(part);
            let sent = outgoing.waiting().len().min(11);
            arrived.extend_from_slice(&outgoing.waiting()[..sent]);
            outgoing.sent(sent);
        }
        arrived.extend_from_slice(outgoing.waiting());
        assert_eq!(arrived, bytes);
        outgoing.sent(outgoing.waiting().len());
        assert!(outgoing.buffer().is_empty());
    }

    #[test]
    fn what_is_left_moves_no_more_often_than_its_length_halves() {
        let mut outgoing = Outgoing::default();
        outgoing.buffer().resize(1 << 20, 0);
        let mut moved = 0;
        while !outgoing.waiting().is_empty() {
            let left = outgoing.waiting().len() - 16;
            outgoing.sent(16);
            if outgoing.sent == 0 {
                moved += left;
            }
        }
        assert!(moved <= 1 << 20, "{moved}");
    }

    #[test]
    fn a_queue_that_is_never_empty_does_not_grow() {
        let mut outgoing = Outgoing::default();
        outgoing.buffer().resize(100, 0);
        for _ in 0..1000 {
            outgoing.buffer().extend_from_slice(&[0; 64]);
            outgoing.sent(64);
            assert!(outgoing.buffer().len() <= 300);
        }
        assert_eq!(outgoing.waiting().len(), 100);
    }
}
