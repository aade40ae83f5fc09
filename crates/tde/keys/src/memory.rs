//! The memory of this process, which holds keys.

use nix::sys::prctl::set_dumpable;

/// The kernel dumps no core of us from here on, whatever the limit is and wherever cores go, and
/// shows our memory to no other process of the same user. It holds for this program alone: exec
/// gives the next one, a server or a command, what is usual there.
pub fn keep() {
    set_dumpable(false).expect("Linux knows the attribute, and 0 is a value of it");
}
