//! The memory of this process, which holds keys.

use nix::sys::prctl::set_dumpable;

/// The kernel dumps no core of us from here on, whatever the limit is and wherever cores go, and
/// shows our memory to no other process of the same user. It holds for this program alone: exec
/// gives the next one, a server or a command, what is usual there.
pub fn keep() {
    set_dumpable(false).expect("Linux knows the attribute, and 0 is a value of it");
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::prctl::get_dumpable;
    use std::process::Command;

    /// Set in the child alone: other tests read files of /proc, which are not shown to a user
    /// after that.
    const ALONE: &str = "PGSEAL_TEST_ALONE";

    #[test]
    fn no_core_is_dumped() {
        if std::env::var_os(ALONE).is_some() {
            assert_eq!(get_dumpable(), Ok(true));
            keep();
            assert_eq!(get_dumpable(), Ok(false));
            return;
        }
        let mut child = Command::new(std::env::current_exe().expect("a test has a program"));
        child.args(["memory::tests::no_core_is_dumped", "--exact"]);
        let output = child.env(ALONE, "1").output().expect("a child");
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(said.contains("1 passed"), "{said}");
    }
}
