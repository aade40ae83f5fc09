//! Signals that are put off, each in a process of its own: what is raised here would end all tests.

use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Output};
use std::time::Duration;

use nix::poll::PollTimeout;
use nix::sys::signal::{raise, Signal};
use pgseal_keys::interrupt::{heed_children, PutOff};

/// Set in the child alone.
const ALONE: &str = "PGSEAL_TEST_ALONE";

/// Runs the test `name` in a process that ignores these signals, as under nohup, and no other one:
/// the tests themselves may run under nohup, or in the background of a script.
fn alone(name: &str, ignored: Option<&str>) -> Output {
    let mut command = Command::new("env");
    command.arg("--default-signal");
    command.args(ignored.map(|signals| format!("--ignore-signal={signals}")));
    command
        .arg(std::env::current_exe().expect("a test has a program"))
        .args([name, "--exact", "--nocapture", "--test-threads=1"])
        .env(ALONE, "1")
        .output()
        .expect("env")
}

fn is_alone() -> bool {
    std::env::var_os(ALONE).is_some()
}

fn said(output: &Output, text: &str) -> bool {
    String::from_utf8_lossy(&output.stdout).contains(text)
}

fn kind<T>(result: io::Result<T>) -> Option<io::ErrorKind> {
    result.err().map(|error| error.kind())
}

#[test]
fn child_that_takes_its_signal() {
    if !is_alone() {
        return;
    }
    let (outer, inner) = (
        PutOff::new().expect("handlers"),
        PutOff::new().expect("handlers"),
    );
    let (reader, writer) = io::pipe().expect("a pipe");
    let now = PollTimeout::ZERO;
    assert!(!outer.readable(reader.as_fd(), now).expect("nothing came"));
    outer.rest(Duration::from_millis(1)).expect("nothing came");
    drop(writer);
    assert!(outer
        .readable(reader.as_fd(), now)
        .expect("the end can be read"));
    raise(Signal::SIGTERM).expect("a signal");
    let interrupted = Some(io::ErrorKind::Interrupted);
    assert_eq!(kind(outer.readable(reader.as_fd(), now)), interrupted);
    assert_eq!(kind(outer.rest(Duration::from_secs(60))), interrupted);
    drop(inner);
    assert_eq!(outer.take(), Some(Signal::SIGTERM));
    assert_eq!(outer.take(), None);
    outer
        .rest(Duration::from_millis(1))
        .expect("the signal was dealt with");
    drop(outer);
    println!("it lives on");
}

#[test]
fn a_signal_that_is_taken_ends_nothing() {
    let output = alone("child_that_takes_its_signal", None);
    assert!(
        output.status.success() && said(&output, "it lives on"),
        "{output:?}"
    );
}

#[test]
fn child_that_drops_its_guards() {
    if !is_alone() {
        return;
    }
    let guards = [PutOff::new(), PutOff::new()].map(|guard| guard.expect("handlers"));
    raise(Signal::SIGINT).expect("a signal");
    let [first, last] = guards;
    drop(first);
    println!("it lives on");
    drop(last);
    println!("it does not end");
}

#[test]
fn a_signal_that_was_put_off_ends_the_process_after_all() {
    let output = alone("child_that_drops_its_guards", None);
    assert_eq!(output.status.signal(), Some(Signal::SIGINT as i32));
    assert!(said(&output, "it lives on") && !said(&output, "it does not end"));
}

#[test]
fn child_after_its_guards() {
    if !is_alone() {
        return;
    }
    drop(PutOff::new().expect("handlers"));
    raise(Signal::SIGHUP).expect("a signal");
    println!("it does not end");
}

#[test]
fn a_signal_that_comes_later_ends_the_process_at_once() {
    let output = alone("child_after_its_guards", None);
    assert_eq!(output.status.signal(), Some(Signal::SIGHUP as i32));
    assert!(!said(&output, "it does not end"));
}

#[test]
fn child_under_nohup() {
    if !is_alone() {
        return;
    }
    let guard = PutOff::new().expect("handlers");
    raise(Signal::SIGHUP).expect("a signal");
    raise(Signal::SIGTERM).expect("a signal");
    guard
        .rest(Duration::from_millis(1))
        .expect("it interrupts nothing");
    assert_eq!(guard.take(), None);
    raise(Signal::SIGQUIT).expect("a signal");
    assert_eq!(guard.take(), Some(Signal::SIGQUIT));
    println!("it lives on");
}

#[test]
fn an_ignored_signal_stays_ignored() {
    let output = alone("child_under_nohup", Some("HUP,TERM"));
    assert!(
        output.status.success() && said(&output, "it lives on"),
        "{output:?}"
    );
}

#[test]
fn child_with_children() {
    if !is_alone() {
        return;
    }
    heed_children();
    println!("it catches SIGCHLD: {}", catches_children());
    let status = Command::new("sh").args(["-c", "exit 3"]).status();
    println!("its child: {:?}", status.map(|status| status.code()).ok());
}

fn catches_children() -> bool {
    let status = fs::read_to_string("/proc/self/status").expect("it is there");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
    let mask = u64::from_str_radix(mask.expect("a mask").trim(), 16).expect("digits");
    mask & (1 << (Signal::SIGCHLD as i32 - 1)) != 0
}

/// A parent that ignores SIGCHLD starts everything with it ignored.
#[test]
fn children_are_reaped_although_the_parent_ignored_them() {
    for (ignored, caught) in [(Some("CHLD"), true), (None, false)] {
        let output = alone("child_with_children", ignored);
        let catches = format!("it catches SIGCHLD: {caught}");
        assert!(said(&output, &catches), "{output:?}");
        assert!(said(&output, "its child: Some(Some(3))"), "{output:?}");
    }
}
