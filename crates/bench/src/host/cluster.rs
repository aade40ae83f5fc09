//! A contender's data directory, and its server for the time of one sample.
//!
//! A sample is: [`Cluster::warm`], [`Cluster::start`], whatever warms the server up,
//! [`Server::mark`], the load, [`Server::finish`]. Its CPU is that of the whole server from the
//! mark to the server's end. The end is exact: when the postmaster has been waited for, the kernel
//! has added up every process below it. The mark is read from /proc: the scheduler's nanoseconds
//! for living processes, clock ticks for those that had ended, which errs by less than 20 ms,
//! without favour. The shutdown checkpoint is inside on purpose: it writes the pages that the load
//! dirtied. Pages counted by the library cover the same span.

use pgseal_contract::variable;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use nix::fcntl::{posix_fadvise, PosixFadviseAdvice};
use nix::sys::signal::{kill, Signal};
use nix::unistd::Pid;

use crate::error::{files, BenchError};
use crate::host::contender::{Contender, Kind};
use crate::host::process::{self, Cpu, Program};
use crate::host::{account, serve, Host};
use crate::model::Pages;

/// Time for the warm-up's sessions to end, so that they lie before the mark.
const SETTLE: Duration = Duration::from_millis(200);
const START_LIMIT: Duration = Duration::from_secs(300);
const STOP_LIMIT: Duration = Duration::from_secs(3600);
const LOOK: Duration = Duration::from_millis(10);

/// Beside the usual one, which a cluster has while it is filled.
const FIRST_PORT: usize = 5433;

/// The settings of all clusters: no checkpoint and no vacuum begins by itself while a load runs.
const SETTINGS: &str = "listen_addresses = ''
fsync = on
autovacuum = off
checkpoint_timeout = 1h
max_wal_size = 16GB
min_wal_size = 512MB
";

/// The settings that a cluster is made with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Data checksums. A sealed cluster without them gets `wal_log_hints`: it is refused otherwise.
    pub checksums: bool,
    /// Further lines of postgresql.conf, after those of every cluster.
    pub conf: String,
}

/// A stopped cluster.
#[derive(Debug, Clone)]
pub struct Cluster {
    /// Its data directory.
    pub data: PathBuf,
    log: PathBuf,
    /// Where its library counts pages.
    pub counters: PathBuf,
}

/// The cost of a load for its server.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spent {
    /// The processor time of the whole server.
    pub cpu: Cpu,
    /// That its library decrypted and encrypted.
    pub pages: Pages,
}

/// The costs so far, when a load begins.
#[derive(Debug, Clone, Copy)]
pub struct Mark {
    cpu: Cpu,
    pages: Pages,
}

impl Cluster {
    /// initdb in `home`, which is made: a plain cluster, or a sealed one for a sealed contender.
    pub fn init(
        contender: &Contender,
        home: &Path,
        settings: &Settings,
        host: &Host,
    ) -> Result<Self, BenchError> {
        let cluster = Self::at(home)?;
        let mut initdb = host.command(&contender.bindir.join("initdb"));
        initdb.arg("-D").arg(&cluster.data).args(["-U", "postgres"]);
        initdb.args(["-A", "trust", "-N", "-E", "UTF8", "--locale=C"]);
        initdb.args(checksum_option(contender, settings.checksums));
        if let Some(bits) = contender.variant.bits {
            initdb
                .arg("--no-key-wrap")
                .arg(format!("--data-encryption={bits}"));
        }
        host.run(initdb.args(&contender.initdb))?;
        cluster.configure(&format!("{SETTINGS}{}", settings.conf))?;
        let sockets = host.work.display();
        cluster.configure(&format!("unix_socket_directories = '{sockets}'\n"))?;
        if contender.kind == Kind::Sealed && !settings.checksums {
            cluster.configure("wal_log_hints = on\n")?;
        }
        Ok(cluster)
    }

    /// A copy of a stopped plain cluster in `home`, sealed there if the contender is: the same rows
    /// on the same pages.
    pub fn copy(
        from: &Self,
        contender: &Contender,
        home: &Path,
        settings: &Settings,
        host: &Host,
    ) -> Result<Self, BenchError> {
        let cluster = Self::at(home)?;
        copy_directory(&from.data, &cluster.data).map_err(files(home))?;
        if let Some(bits) = contender.variant.bits {
            if !settings.checksums {
                // pgseal asks pg_control, which a server writes.
                cluster.configure("wal_log_hints = on\n")?;
                cluster.start(host.stock(), host)?.stop()?;
            }
            let mut seal = host.command(&host.tools.pgseal);
            seal.arg("seal").arg("-D").arg(&cluster.data);
            seal.args(["--no-key-wrap", "--no-progress"]);
            host.run(seal.arg(format!("--data-encryption={bits}")))?;
        }
        Ok(cluster)
    }

    fn at(home: &Path) -> Result<Self, BenchError> {
        fs::create_dir_all(home).map_err(files(home))?;
        Ok(Self {
            data: home.join("data"),
            log: home.join("log"),
            counters: home.join("counters"),
        })
    }

    /// Adds lines to postgresql.conf.
    pub fn configure(&self, lines: &str) -> Result<(), BenchError> {
        let path = self.data.join("postgresql.conf");
        let open = OpenOptions::new().append(true).open(&path);
        open.and_then(|mut file| file.write_all(lines.as_bytes()))
            .map_err(files(path))
    }

    /// Gives its server a port of its own: all that run at once have their sockets in one place.
    pub fn number(&self, number: usize) -> Result<(), BenchError> {
        self.configure(&format!("port = {}\n", FIRST_PORT + number))
    }

    /// Brings the files into the kernel's cache anew, where every sample finds them then; nothing
    /// if they are larger than half of memory. Anew, because the kernel caches a file in folios as
    /// large as the writes that it came from: where a file was copied or sealed in place, a
    /// server's writes of single pages take much more system time than where PostgreSQL wrote it.
    pub fn warm(&self, host: &Host) -> Result<(), BenchError> {
        let unreadable = || files(&self.data);
        let size = size_of(&self.data).map_err(unreadable())?;
        if size < super::machine::memory("MemTotal:") / 2 && !host.stop.is_set() {
            read_all(&self.data).map_err(unreadable())?;
        }
        Ok(())
    }

    /// Starts the contender's server and waits until it takes connections.
    pub fn start<'a>(
        &'a self,
        contender: &Contender,
        host: &'a Host,
    ) -> Result<Server<'a>, BenchError> {
        let log = OpenOptions::new().create(true).append(true).open(&self.log);
        let log = log.map_err(files(&self.log))?;
        let program = contender.bindir.join("postgres");
        let loaded = contender.kind == Kind::Loaded;
        let mut command = serve::command(&program, loaded.then_some(&host.tools.library), host);
        command
            .arg("-D")
            .arg(&self.data)
            .env(variable::COUNTERS.as_str(), &self.counters);
        let errors = log.try_clone().map_err(files(&self.log))?;
        command.stdin(Stdio::null()).stdout(log).stderr(errors);
        let child = process::spawn(&mut command).map_err(|e| BenchError::Start(program, e))?;
        let mut server = Server {
            child: Some(child),
            contender: contender.name().to_owned(),
            companions: Vec::new(),
            paused: Vec::new(),
            cluster: self,
            host,
        };
        server.wait_until_ready()?;
        Ok(server)
    }

    /// The library's counts so far, over all slots; zeros where no library counts.
    pub fn pages(&self) -> Pages {
        const SLOT: usize = 64;
        let slots = fs::read(&self.counters).unwrap_or_default();
        let sum = |place: usize| {
            let count = |slot: &[u8]| {
                let bytes = slot[place * 8..][..8].try_into().expect("eight bytes");
                u64::from_le_bytes(bytes)
            };
            slots.chunks_exact(SLOT).map(count).sum()
        };
        Pages {
            opened: sum(0),
            sealed: sum(1),
        }
    }
}

/// A running server. Dropped before it is finished, as on an error, it is shut down at once.
#[derive(Debug)]
pub struct Server<'a> {
    /// None when it has been waited for.
    child: Option<Child>,
    contender: String,
    /// Processes that work for it alone.
    companions: Vec<Pid>,
    /// Its stopped processes.
    paused: Vec<Pid>,
    cluster: &'a Cluster,
    host: &'a Host,
}

impl Server<'_> {
    /// The postmaster's process id.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Runs statements by stock psql, in one session, each in its own transaction; their rows,
    /// unaligned.
    pub fn sql(&mut self, statements: &[&str]) -> Result<String, BenchError> {
        let mut psql = self.host.client("psql");
        psql.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
        for statement in statements {
            psql.args(["-c", statement]);
        }
        self.run(&mut psql)
    }

    /// Runs a client to its good end and returns what it printed. If the server has gone, that is
    /// the error.
    pub fn run(&mut self, command: &mut std::process::Command) -> Result<String, BenchError> {
        match self.host.run(command.env("PGPORT", self.port())) {
            Ok(done) => Ok(done.stdout),
            Err(BenchError::Interrupted) => Err(BenchError::Interrupted),
            Err(error) => Err(self.explain(error)),
        }
    }

    /// Adds a process that works for this server alone, so that it is stopped with the server.
    pub fn accompanied_by(&mut self, program: &Program) {
        self.companions.extend(process::pid(program.pid()));
    }

    /// Stops its processes where they are; the postmaster first, so that no new ones come.
    pub fn pause(&mut self) {
        let Some(child) = &self.child else { return };
        let _ = kill(process::pid_of(child), Signal::SIGSTOP);
        let below = account::descendants(child.id()).unwrap_or_default();
        self.paused = below.into_iter().filter_map(process::pid).collect();
        self.paused.extend(&self.companions);
        for pid in &self.paused {
            let _ = kill(*pid, Signal::SIGSTOP);
        }
    }

    /// Lets them go on.
    pub fn resume(&mut self) {
        for pid in self.paused.drain(..).rev() {
            let _ = kill(pid, Signal::SIGCONT);
        }
    }

    /// Waits until the sessions that came before have ended.
    pub fn settle(&self) {
        thread::sleep(SETTLE);
    }

    /// The costs so far. Sessions that came before have ended.
    pub fn mark(&mut self) -> Result<Mark, BenchError> {
        self.settle();
        let cpu = account::of_server(self.pid()).map_err(files("/proc"));
        Ok(Mark {
            cpu: cpu.map_err(|error| self.explain(error))?,
            pages: self.cluster.pages(),
        })
    }

    /// Shuts down, with the checkpoint, and returns what was spent since the mark.
    pub fn finish(mut self, mark: Mark) -> Result<Spent, BenchError> {
        let cpu = self.shut_down()?;
        let pages = self.cluster.pages();
        Ok(Spent {
            cpu: cpu.since(mark.cpu),
            pages: Pages {
                opened: pages.opened - mark.pages.opened,
                sealed: pages.sealed - mark.pages.sealed,
            },
        })
    }

    /// Shuts down, where no load was measured.
    pub fn stop(mut self) -> Result<(), BenchError> {
        self.shut_down().map(|_| ())
    }

    /// A fast shutdown: what the server cost from its start to its end.
    fn shut_down(&mut self) -> Result<Cpu, BenchError> {
        self.resume();
        let child = self.child.as_mut().expect("it is waited for once only");
        // It has its number until we have waited for it.
        let _ = kill(process::pid_of(child), Signal::SIGINT);
        if !process::wait_until_ended(child, Some(STOP_LIMIT), &self.host.stop) {
            return Err(BenchError::Interrupted);
        }
        let (status, cpu) = process::reap(child).map_err(files(&self.cluster.log))?;
        self.child = None;
        if status.success() {
            return Ok(cpu);
        }
        Err(self.died(status.to_string()))
    }

    fn wait_until_ready(&mut self) -> Result<(), BenchError> {
        let start = Instant::now();
        while !self.is_ready() {
            if let Some(error) = self.has_died() {
                return Err(error);
            }
            if self.host.stop.is_set() {
                return Err(BenchError::Interrupted);
            }
            if start.elapsed() > START_LIMIT {
                let limit = START_LIMIT.as_secs();
                return Err(self.died(format!("not ready after {limit} s")));
            }
            thread::sleep(LOOK);
        }
        Ok(())
    }

    /// Does postmaster.pid, written by this very server, say so?
    fn is_ready(&self) -> bool {
        self.pid_file(0) == self.pid().to_string() && self.pid_file(7) == "ready"
    }

    /// Returns the port, which names the server's socket.
    pub fn port(&self) -> String {
        self.pid_file(3)
    }

    /// A line of postmaster.pid, from 0; empty if there is none.
    fn pid_file(&self, line: usize) -> String {
        let text = fs::read_to_string(self.cluster.data.join("postmaster.pid"));
        let text = text.unwrap_or_default();
        text.lines().nth(line).unwrap_or_default().trim().to_owned()
    }

    /// A client's failure: the server's own end, if that is why, or else with the end of its log.
    pub fn explain(&mut self, error: BenchError) -> BenchError {
        thread::sleep(SETTLE);
        if let Some(died) = self.has_died() {
            return died;
        }
        match (error, process::last_lines_of(&self.cluster.log)) {
            (
                BenchError::Program {
                    program,
                    status,
                    output,
                },
                Ok(log),
            ) => BenchError::Program {
                program,
                status,
                output: format!("{output}\nthe server's log ends with:\n{log}"),
            },
            (error, _) => error,
        }
    }

    fn has_died(&mut self) -> Option<BenchError> {
        let status = self.child.as_mut()?.try_wait().ok().flatten()?;
        self.child = None;
        Some(self.died(status.to_string()))
    }

    fn died(&self, status: String) -> BenchError {
        BenchError::ServerDied {
            contender: self.contender.clone(),
            status,
            log: process::last_lines_of(&self.cluster.log).unwrap_or_default(),
        }
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        self.resume();
        if let Some(child) = self.child.as_mut() {
            process::end(child, Signal::SIGQUIT);
        }
    }
}

/// initdb's option. Since 18 checksums are the default, before that "off" has no name.
fn checksum_option(contender: &Contender, checksums: bool) -> Option<&'static str> {
    match checksums {
        true => Some("--data-checksums"),
        false if contender.major() >= 18 => Some("--no-data-checksums"),
        false => None,
    }
}

/// Bytes of the files below a directory.
pub fn size_of(directory: &Path) -> io::Result<u64> {
    let mut size = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        size += if metadata.is_dir() {
            size_of(&entry.path())?
        } else {
            metadata.len()
        };
    }
    Ok(size)
}

fn read_all(directory: &Path) -> io::Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            read_all(&path)?;
        } else {
            read_anew(&File::open(&path)?)?;
        }
    }
    Ok(())
}

/// Out of the cache, which only leaves what is on disk, and into it again.
fn read_anew(mut file: &File) -> io::Result<()> {
    const AT_ONCE: usize = 1 << 20;
    file.sync_all()?;
    posix_fadvise(file, 0, 0, PosixFadviseAdvice::POSIX_FADV_DONTNEED)?;
    let mut buffer = vec![0; AT_ONCE];
    while file.read(&mut buffer)? > 0 {}
    Ok(())
}

fn copy_directory(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir(to)?;
    fs::set_permissions(to, fs::Permissions::from_mode(0o700))?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_directory(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
