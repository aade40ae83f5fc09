//! The program that wrappers run is nothing to call by hand.

use std::process::Command;

#[test]
fn nobody_else_calls_it() {
    let sentence =
        "pgseal: pgseal-twin is started only by wrappers: create them with `pgseal bindir`, and run those\n";
    for args in [&[][..], &["psql"]] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_pgseal-twin"));
        let output = command.args(args).output().expect("it starts");
        assert_eq!(output.status.code(), Some(2));
        assert_eq!(output.stdout, b"");
        assert_eq!(String::from_utf8_lossy(&output.stderr), sentence);
    }
}
