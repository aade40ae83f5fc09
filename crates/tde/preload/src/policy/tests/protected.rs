//! Which verdicts need the library behind the open descriptor.

use super::*;

#[test]
fn what_is_not_as_the_kernel_has_it_is_protected() {
    let protection = Protection {
        may_come_from_sql: false,
        hidden_from_import: false,
    };
    for protected in [
        Verdict::Protected(protection),
        Verdict::Pages,
        Verdict::ReceivedWal(0),
    ] {
        assert!(protected.protects(), "{protected:?}");
    }
    for other in [
        Verdict::Untouched,
        Verdict::Clear(0),
        Verdict::ClearUnlessLinked(0),
        Verdict::AsStored(Check::None),
        Verdict::CarriedControl,
        Verdict::Refused(libc::EACCES, Reason::Denied),
    ] {
        assert!(!other.protects(), "{other:?}");
    }
}
