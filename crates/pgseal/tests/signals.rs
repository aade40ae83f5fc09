//! Signals that would end us: what we started, or made, does not stay behind, whenever they come.

mod common;

use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command};

use common::programs::{answering, Place};
use common::{command, running_in_group, script, until, Cluster, CAT};
use nix::errno::Errno;
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;

/// A signal that ends pgseal ends the command too, from its first moment on: without pgseal, no
/// process would count its seconds.
#[test]
fn a_command_ends_with_us() {
    let hanging = "echo $$ > %D/pid; sleep 977";
    let cluster = Cluster::new([command(hanging, b"wrapped")]);
    let mut child = cluster.key("check", &[]).spawn().expect("it starts");
    let pid = cluster.data().join("pid");
    let group = until(|| line(&pid));
    terminate(&child);
    assert_eq!(child.wait().expect("it ends").signal(), Some(15));
    until(|| running_in_group(group.trim()).is_empty().then_some(()));
}

/// A directory that initdb made for its key command does not survive it.
#[test]
fn a_directory_goes_with_us() {
    let place = Place::new();
    let ready = place.path("ready");
    let wrap = format!("echo > {}; sleep 977; cat > %p", ready.display());
    let mut child = place
        .wrapper("initdb", &["-D", "data", "-y", "--key-wrap-command", &wrap])
        .args(["--key-unwrap-command", CAT])
        .spawn()
        .expect("it starts");
    until(|| line(&ready));
    assert!(place.path("data").exists());
    terminate(&child);
    assert_eq!(child.wait().expect("it ends").signal(), Some(15));
    assert!(!place.path("data").exists());
}

/// A signal that comes when the program has begun and its wrapper has not yet heard of it.
#[test]
fn a_program_ends_with_its_twin() {
    let place = Place::new();
    let started = place.path("started");
    let asked = r#"[ "$1" != --show ] || exit 0"#;
    let tells = format!(
        "{asked}\necho $PPID $$ > {}; exec sleep 977\n",
        started.display()
    );
    script(&place.path("pg/initdb"), &answering(&tells));
    let wrapper = place.wrapper(
        "initdb",
        &["-D", "data", "--data-encryption=256", "--no-key-wrap"],
    );
    let mut child = slow_to_start(&wrapper).spawn().expect("strace starts");
    let both = until(|| line(&started));
    let (us, program) = both.trim().split_once(' ').expect("two numbers");
    let number = |text: &str| Pid::from_raw(text.parse().expect("a process id"));
    kill(number(us), Signal::SIGTERM).expect("it runs");
    assert_eq!(child.wait().expect("it ends").code(), Some(128 + 15));
    assert_eq!(kill(number(program), None), Err(Errno::ESRCH));
}

/// Returns the wrapper as one that learns of its children two seconds after their beginning.
fn slow_to_start(wrapper: &Command) -> Command {
    let mut strace = common::alone(Path::new("strace"));
    strace.args([
        "-qq",
        "-o",
        "/dev/null",
        "-e",
        "trace=clone,clone3,vfork,fork",
    ]);
    strace.args(["-e", "inject=clone,clone3,vfork,fork:delay_exit=2000000"]);
    strace.arg(wrapper.get_program()).args(wrapper.get_args());
    strace.envs(
        wrapper
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    strace.current_dir(
        wrapper
            .get_current_dir()
            .expect("wrappers run in their place"),
    );
    strace
}

fn terminate(child: &Child) {
    let us = Pid::from_raw(i32::try_from(child.id()).expect("a process id"));
    kill(us, Signal::SIGTERM).expect("it runs");
}

/// The line that a file holds, when it is whole.
fn line(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    text.ends_with('\n').then_some(text)
}
