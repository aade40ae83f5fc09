//! Tests a report that cannot be shown: standard output is full or has no reader.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// Returns the exit code and standard error of a report with this standard output. A report needs
/// no library: none is beside the program.
fn report_to(stdout: Stdio) -> (Option<i32>, String) {
    let report = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/benchmarks/readonly.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_pgseal-bench"));
    let command = command.arg("report").arg(report);
    let child = command
        .stdin(Stdio::null())
        .stdout(stdout)
        .stderr(Stdio::piped())
        .spawn();
    let output = child.and_then(Child::wait_with_output).expect("it runs");
    (
        output.status.code(),
        String::from_utf8_lossy(&output.stderr).into_owned(),
    )
}

#[test]
fn a_full_disk_is_an_error_that_says_how_to_see_the_report() {
    let full = File::options()
        .write(true)
        .open("/dev/full")
        .expect("a device of Linux");
    let sentence = "pgseal: standard output cannot be written (No space left on device): \
                    `pgseal bench report` shows again what --json keeps\n";
    assert_eq!(report_to(full.into()), (Some(3), sentence.to_owned()));
}

#[test]
fn a_reader_that_has_gone_ends_it_as_it_ends_a_filter() {
    let mut reader = Command::new("true");
    let mut reader = reader.stdin(Stdio::piped()).spawn().expect("it starts");
    let pipe = reader.stdin.take().expect("a pipe");
    reader.wait().expect("it ends");
    assert_eq!(report_to(pipe.into()), (Some(141), String::new()));
}
