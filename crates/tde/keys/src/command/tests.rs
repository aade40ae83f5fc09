//! Commands as they run: their input, output, limits, and end.

use super::*;

fn said(text: &str) -> Option<String> {
    let mut file = memfd::open().expect("a memfd");
    file.write_all(text.as_bytes()).expect("it has room");
    sentence(&mut file)
}

/// The provider's text may be a service's answer, which must not write to a terminal.
#[test]
fn what_a_provider_says_is_one_line() {
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(said("pgseal-kms: it fails\n"), some("it fails"));
    assert_eq!(said("note\n\x1b[31mred\x07\n\n"), some(" [31mred "));
    assert_eq!(said("\n \n"), None);
    assert_eq!(said(""), None);
    assert_eq!(said(&"x".repeat(9000)).map(|line| line.len()), Some(4096));
}

fn started(line: &str) -> Running {
    let mut command = shell(line, Path::new("/"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Running::start(command, None, Purpose::Key, 60).expect("sh")
}

#[test]
fn a_command_gets_its_payload_and_says_its_output() {
    let mut running = started("cat; pwd");
    running.feed(b"payload\n").expect("it reads");
    let output = running.output(100).expect("it is short");
    assert_eq!(output.as_slice(), b"payload\n/\n");
    assert!(check_status(Purpose::Key, running.wait().expect("it ends")).is_ok());
}

#[test]
fn a_command_that_reads_nothing_does_not_fail_by_that() {
    let mut running = started("exec <&-; echo done");
    let more_than_a_pipe_holds = vec![1; 1 << 20];
    running.feed(&more_than_a_pipe_holds).expect("no failure");
    assert_eq!(
        running.output(100).expect("it is short").as_slice(),
        b"done\n"
    );
}

#[test]
fn an_output_has_a_limit() {
    let said = |limit| started("printf 12345").output(limit);
    assert_eq!(said(5).expect("just enough").as_slice(), b"12345");
    assert!(matches!(said(4), Err(CommandError::TooMuch(Purpose::Key))));
}

#[test]
fn a_command_has_a_time_limit() {
    let limited = |line| {
        let mut running = started(line);
        running.deadline = Instant::now() + Duration::from_millis(50);
        running
    };
    let output = limited("sleep 60").output(100);
    assert!(matches!(
        output,
        Err(CommandError::TimeLimit(Purpose::Key, 60))
    ));
    let mut silent = limited("exec >&-; sleep 60");
    assert!(silent.output(100).expect("it printed nothing").is_empty());
    let waited = silent.wait();
    assert!(matches!(
        waited,
        Err(CommandError::TimeLimit(Purpose::Key, 60))
    ));
}

/// A program that it started in the background would live on with what it knows. The pipe ends when
/// no process is left that could write to it.
#[test]
fn a_dropped_command_is_killed_with_all_that_it_started() {
    let mut running = started("sleep 60 & echo started; wait");
    let mut pipe = running.child.stdout.take().expect("a pipe");
    let mut first = [0; 32];
    let len = running.read(&mut pipe, &mut first).expect("a line");
    assert_eq!(&first[..len], b"started\n");
    let dropped = Instant::now();
    drop(running);
    let rest = pipe
        .read_to_end(&mut Vec::new())
        .expect("no writer is left");
    assert_eq!(rest, 0);
    assert!(
        dropped.elapsed() < Duration::from_secs(30),
        "it was waited for"
    );
}

/// Only root runs a command with the rights of another user.
#[test]
fn a_command_of_this_user_keeps_its_group() {
    let rights = Rights {
        uid: geteuid().as_raw(),
        gid: 65534,
    };
    let mut command = Command::new("id");
    limit(command.arg("-g"), rights);
    let output = command.output().expect("it is started");
    let said = String::from_utf8(output.stdout).expect("a number");
    assert_eq!(said.trim(), nix::unistd::getegid().to_string());
}

#[test]
fn a_commands_end_says_why_it_failed() {
    let ended = |line| check_status(Purpose::Key, started(line).wait().expect("it ends"));
    assert!(ended("exit 0").is_ok());
    assert!(matches!(ended("exit 3"), Err(CommandError::Status(_, 3))));
    assert!(matches!(
        ended("no-such-program-of-pgseal 2>&-"),
        Err(CommandError::Missing(_))
    ));
    assert!(matches!(
        ended("kill -9 $$"),
        Err(CommandError::Signal(_, 9))
    ));
}

#[test]
fn a_wrap_command_writes_what_it_makes_of_the_payload() {
    let data = Path::new("/");
    let wrapped = wrap("tr a-z A-Z > \"%p\"", b"payload", data);
    assert_eq!(wrapped.expect("tr"), b"PAYLOAD");
    let nothing = wrap("cat > \"%p.other\"", b"payload", data);
    assert!(matches!(nothing, Err(CommandError::NothingWritten)));
    let much = wrap("head -c 60001 /dev/zero > \"%p\"", b"payload", data);
    assert!(matches!(much, Err(CommandError::TooMuchWritten)));
    let most = wrap("head -c 60000 /dev/zero > \"%p\"", b"payload", data);
    assert_eq!(most.expect("head").len(), 60_000);
}

#[test]
fn a_private_directory_goes_with_its_files() {
    use std::os::unix::fs::PermissionsExt;
    let dir = PrivateDirectory::new().expect("a directory");
    let path = dir.0.clone();
    fs::write(path.join("wrapped"), "key").expect("room");
    let mode = fs::metadata(&path)
        .expect("it is there")
        .permissions()
        .mode();
    assert_eq!(mode & 0o7777, 0o700);
    drop(dir);
    assert!(!path.exists());
}

#[test]
fn a_provider_that_is_not_installed_is_named() {
    let asked = (("aws-kms:x", ClusterId([1; 16])), Path::new("/"));
    let error = provider(Request::Wrap, asked.0, None, b"", asked.1);
    assert!(matches!(error, Err(CommandError::NotInstalled(path)) if path.ends_with(PROGRAM)));
}

#[test]
fn commands_of_the_environment() {
    let path = env::var("PATH").expect("tests have one");
    assert_eq!(of_environment("PATH").expect("text"), Some(path));
    let none = of_environment("PGSEAL_TEST_NO_SUCH_VARIABLE");
    assert_eq!(none.expect("nothing to misread"), None);
}

#[test]
fn commands_run_without_the_library() {
    for (list, rest) in [
        ("/usr/lib/libpgseal.so", ""),
        (
            "/a/other.so:/x/libpgseal.so /b/more.so",
            "/a/other.so:/b/more.so",
        ),
        ("/a/other.so", "/a/other.so"),
    ] {
        assert_eq!(without_library(&list.into()), rest);
    }
}
