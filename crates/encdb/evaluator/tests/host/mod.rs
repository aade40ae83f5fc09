//! An evaluator as a process, and backends that speak to it, for tests.
#![allow(clippy::unwrap_used, clippy::unwrap_in_result, dead_code)]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pgseal_cell::grant::Grant;
use pgseal_evaluator::client::{receive_ring, Ring};
use pgseal_evaluator_proto::ring::{wake_server, Futex, Mapping};
use pgseal_evaluator_proto::{
    AttachAs, Collation, ComparisonRequest, Request, Response, SessionRequest,
};
use tempfile::TempDir;

use crate::common::{items, open_by, Party, DATABASE};

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_pgseal-evaluator");
pub const CHILD: &str = "PGSEAL_TEST_CLIENT_OF";

pub fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// A directory of the evaluator's user.
pub fn log_directory() -> Rc<TempDir> {
    let directory = tempfile::Builder::new()
        .prefix("pgseal-ev.")
        .tempdir()
        .unwrap();
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    if is_root() {
        let nobody = nix::unistd::User::from_name("nobody").unwrap().unwrap();
        std::os::unix::fs::chown(&directory, Some(nobody.uid.as_raw()), None).unwrap();
    }
    Rc::new(directory)
}

/// A running evaluator; it is killed if it was not stopped.
#[derive(Debug)]
pub struct Evaluator {
    process: Option<Child>,
    directory: Rc<TempDir>,
    socket: PathBuf,
}

impl Evaluator {
    pub fn start(arguments: &[&str]) -> Self {
        Self::start_in(&log_directory(), arguments)
    }

    pub fn start_in(directory: &Rc<TempDir>, arguments: &[&str]) -> Self {
        Self::try_start(directory, arguments).unwrap()
    }

    pub fn start_at(directory: &Rc<TempDir>, socket: &Path, arguments: &[&str]) -> Self {
        let own = nix::unistd::geteuid().to_string();
        Self::launch(directory, socket, &own, arguments).unwrap()
    }

    pub fn start_for(directory: &Rc<TempDir>, user: &str, arguments: &[&str]) -> Self {
        Self::launch(directory, &directory.path().join("socket"), user, arguments).unwrap()
    }

    pub fn try_start(directory: &Rc<TempDir>, arguments: &[&str]) -> Result<Self, String> {
        let own = nix::unistd::geteuid().to_string();
        Self::launch(directory, &directory.path().join("socket"), &own, arguments)
    }

    /// Under a limit as the shell's `ulimit` sets it.
    pub fn try_start_within(limit: &str, arguments: &[&str]) -> Result<Self, String> {
        let (directory, own) = (log_directory(), nix::unistd::geteuid().to_string());
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit {limit}; exec \"$@\""), "sh", PROGRAM]);
        let socket = directory.path().join("socket");
        Self::launch_by(command, &directory, &socket, &own, arguments)
    }

    fn launch(
        directory: &Rc<TempDir>,
        socket: &Path,
        user: &str,
        arguments: &[&str],
    ) -> Result<Self, String> {
        Self::launch_by(Command::new(PROGRAM), directory, socket, user, arguments)
    }

    /// Later arguments stand for earlier ones.
    fn launch_by(
        mut command: Command,
        directory: &Rc<TempDir>,
        socket: &Path,
        user: &str,
        arguments: &[&str],
    ) -> Result<Self, String> {
        let given = |name: &str| arguments.contains(&name);
        if !given("--socket") {
            command.arg("--socket").arg(socket);
        }
        if !given("--log") {
            command.arg("--log").arg(directory.path());
        }
        command.args(["--allow-uid", user]);
        if !is_root() {
            command.arg("--unlocked");
        } else if !given("--user") {
            command.args(["--user", "nobody"]);
        }
        command.args(arguments);
        let mut process = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(process.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        if !line.contains("listening at") {
            let mut why = String::new();
            process
                .stderr
                .take()
                .unwrap()
                .read_to_string(&mut why)
                .unwrap();
            process.wait().unwrap();
            return Err(why);
        }
        Ok(Self {
            process: Some(process),
            directory: Rc::clone(directory),
            socket: socket.to_owned(),
        })
    }

    pub fn socket(&self) -> PathBuf {
        self.socket.clone()
    }

    pub fn log_directory(&self) -> Rc<TempDir> {
        Rc::clone(&self.directory)
    }

    pub fn pid(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    /// A backend with a session of this owner, and its key.
    pub fn backend(&self, owner: &Party, grants: &[Grant]) -> Backend {
        let mut backend = Backend::attach(&self.socket, AttachAs::Client);
        backend.open(owner, grants);
        backend
    }

    /// Ends it as an operator does, and gives its newest log.
    pub fn stop(self) -> String {
        let directory = Rc::clone(&self.directory);
        let ended = self.signal_and_wait("TERM");
        assert_eq!(ended.code(), Some(0));
        fs::read_to_string(logs(&directory).last().unwrap()).unwrap()
    }

    pub fn kill(self) {
        self.signal_and_wait("KILL");
    }

    pub fn signal_and_wait(mut self, signal: &str) -> ExitStatus {
        let mut process = self.process.take().unwrap();
        let sent = Command::new("kill")
            .args([format!("-{signal}"), process.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
        process.wait().unwrap()
    }

    fn status(&self, name: &str) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .unwrap();
        line.trim().trim_end_matches(" kB").parse().unwrap()
    }

    pub fn threads(&self) -> u64 {
        self.status("Threads:")
    }

    /// The cores on which the main thread may run, and those of each connection's.
    pub fn cores(&self) -> (String, Vec<String>) {
        let tasks = format!("/proc/{}/task", self.pid());
        let of = |task: &Path| {
            let status = fs::read_to_string(task.join("status")).unwrap_or_default();
            let mut lines = status.lines();
            let list = lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
            list.unwrap_or_default().trim().to_owned()
        };
        let main = Path::new(&tasks).join(self.pid().to_string());
        let all = fs::read_dir(&tasks)
            .unwrap()
            .map(|task| task.unwrap().path());
        let others = all.filter(|task| *task != main).map(|task| of(&task));
        (of(&main), others.collect())
    }

    pub fn resident_kb(&self) -> u64 {
        self.status("VmRSS:")
    }

    pub fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.pid()))
            .unwrap()
            .count()
    }
}

impl Drop for Evaluator {
    fn drop(&mut self) {
        if let Some(mut process) = self.process.take() {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// The logs of a directory, oldest first.
pub fn logs(directory: &TempDir) -> Vec<PathBuf> {
    let entries = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut logs: Vec<_> = entries
        .filter(|path| path.extension().is_some_and(|end| end == "log"))
        .collect();
    logs.sort();
    logs
}

pub fn verify(logs: &[PathBuf]) -> (i32, String, String) {
    verify_with(logs, None)
}

pub fn verify_with(logs: &[PathBuf], head: Option<&str>) -> (i32, String, String) {
    let mut command = Command::new(PROGRAM);
    command.args(["log", "verify"]).args(logs);
    if let Some(head) = head {
        command.args(["--head", head]);
    }
    let done = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (
        done.status.code().unwrap(),
        text(done.stdout),
        text(done.stderr),
    )
}

/// A backend of the server: a ring, and what it sends.
pub struct Backend(Ring);

/// Kills a process after a while.
pub struct Killer(std::thread::JoinHandle<()>);

impl Killer {
    pub fn after(pid: u32, wait: Duration) -> Self {
        Self(std::thread::spawn(move || {
            std::thread::sleep(wait);
            let mut kill = Command::new("kill");
            kill.args(["-KILL", &pid.to_string()]);
            assert!(kill.status().unwrap().success());
        }))
    }

    pub fn is_done(&self) -> bool {
        self.0.is_finished()
    }

    pub fn finish(self) {
        self.0.join().unwrap();
    }
}

impl Backend {
    pub fn over(ring: Ring) -> Self {
        Self(ring)
    }

    /// Attaches and opens a session, unless the evaluator dies.
    pub fn try_open(&mut self, owner: &Party) -> Result<(), u16> {
        let attach = Request::Session(SessionRequest::Attach {
            kind: AttachAs::Client,
            database: DATABASE,
            role: 10,
        });
        self.call(&attach)?;
        open_by(|message| self.relay(message), owner, owner, &[], &[])?;
        let key = owner.key(11, false);
        self.call(&Request::Session(SessionRequest::LoadKeys(items(&[
            &key.row
        ]))))
        .map(drop)
    }

    pub fn attach(socket: &Path, kind: AttachAs) -> Self {
        Self::attach_for(socket, kind, 10).unwrap()
    }

    /// One that serves this role; the code of the refusal.
    pub fn attach_for(socket: &Path, kind: AttachAs, role: u32) -> Result<Self, u16> {
        let mut backend = Self(Ring::connect(socket).unwrap());
        let attach = Request::Session(SessionRequest::Attach {
            kind,
            database: DATABASE,
            role,
        });
        backend.call(&attach)?;
        Ok(backend)
    }

    /// Opens a session of the owner itself, and loads its key 11.
    pub fn open(&mut self, owner: &Party, grants: &[Grant]) {
        open_by(|message| self.relay(message), owner, owner, grants, &[]).unwrap();
        let key = owner.key(11, false);
        let loaded = self
            .call(&Request::Session(SessionRequest::LoadKeys(items(&[
                &key.row
            ]))))
            .unwrap();
        assert_eq!(Response::parse(&loaded), Ok(Response::Number(1)));
    }

    fn relay(&mut self, message: &[u8]) -> Result<Vec<u8>, u16> {
        let answer = self.call(&Request::Session(SessionRequest::Message(message)))?;
        match Response::parse(&answer).unwrap() {
            Response::Bytes(bytes) => Ok(bytes.to_vec()),
            other => panic!("{other:?}"),
        }
    }

    /// As an extension calls: buffers are kept.
    pub fn send_into(&mut self, request: &[u8], response: &mut Vec<u8>) {
        self.0.call(request, response, || true).unwrap();
    }

    /// The bytes that answer these bytes.
    pub fn send(&mut self, request: &[u8]) -> Result<Vec<u8>, u16> {
        let mut response = Vec::new();
        let called = self.0.call(request, &mut response, || true);
        called.map(|()| response).map_err(|refusal| refusal.code())
    }

    /// The bytes of an answer that is none of a refusal.
    pub fn call(&mut self, request: &Request<'_>) -> Result<Vec<u8>, u16> {
        let mut bytes = Vec::new();
        request.encode(&mut bytes);
        let answer = self.send(&bytes)?;
        match Response::parse(&answer).unwrap() {
            Response::Refused(report) => Err(report.code),
            _ => Ok(answer),
        }
    }

    pub fn call_cell(&mut self, request: &Request<'_>) -> Result<Vec<u8>, u16> {
        let answer = self.call(request)?;
        match Response::parse(&answer).unwrap() {
            Response::Cell(cell) => Ok(cell.to_vec()),
            other => panic!("{other:?}"),
        }
    }

    /// The order of two cells: 255, 0 or 1.
    pub fn compare(&mut self, left: &[u8], right: &[u8]) -> Result<u8, u16> {
        let collation = Collation::C;
        let answer = self.call(&Request::Comparison(ComparisonRequest::Compare {
            collation,
            left,
            right,
        }))?;
        Ok(answer[1])
    }
}

/// An owner by the clock of the machine, which the evaluator's is.
pub fn party(seed: u8) -> Party {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let mut party = Party::new(seed);
    party.now = since.unwrap().as_secs();
    party
}

/// Takes a ring and writes what it likes into it.
pub fn scribble(socket: &Path, random: &mut Random) {
    let stream = UnixStream::connect(socket).unwrap();
    let memory = receive_ring(&stream, || true).unwrap();
    let mapping = Mapping::open(memory.as_fd()).unwrap();
    let words: &[AtomicU64] = mapping.as_ref();
    for _ in 0..100 {
        let at = match random.below(2) {
            // The words that are not the messages' own.
            0 => random.below(70),
            _ => random.below(words.len()),
        };
        let word = random.next() << random.below(64);
        words[at].store(word, Ordering::SeqCst);
        wake_server(words, &Futex);
    }
}

/// A child of this test program that works until it is killed.
pub fn child(socket: &Path) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args([
            "a_client_until_it_is_killed",
            "--exact",
            "--ignored",
            "--nocapture",
        ])
        .env(CHILD, socket)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().contains("works")));
    child
}

/// Whether a command succeeds as `nobody`, and what it says.
pub fn as_nobody(program: &str, arguments: &[&str]) -> (bool, String) {
    let mut command = match is_root() {
        true => {
            let mut command = Command::new("setpriv");
            command.args([
                "--reuid=nobody",
                "--regid=nogroup",
                "--clear-groups",
                "--",
                program,
            ]);
            command
        }
        false => Command::new(program),
    };
    let done = command.args(arguments).output().unwrap();
    (
        done.status.success(),
        String::from_utf8_lossy(&done.stderr).into_owned(),
    )
}

pub fn soon(mut holds: impl FnMut() -> bool) -> bool {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(60) {
        if holds() {
            return true;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    holds()
}

/// Numbers that are the same in every run.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    pub fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next()).unwrap() % bound.max(1)
    }

    pub fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[1]
    }
}
