//! The process: it hardens itself, listens, and gives every backend a thread, a ring and a
//! connection of the engine.
//!
//! The main thread accepts, notices who hangs up, and ends all when a signal says so; a
//! connection's thread does that connection's work and nothing else. No thread waits for another.

mod harden;
mod identity;
mod links;
mod listener;
mod locales;
mod log;
mod place;
mod worker;

use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::signal::{SigSet, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Uid, User};
use pgseal_evaluator::audit::Event;
use pgseal_evaluator::cli::{EvidenceKind, Serve};
use pgseal_evaluator::engine::{read_zones, Config, Engine};
use pgseal_evaluator::evidence::{Evidence, SignedSoftware, Software};
use pgseal_evaluator_proto::ring::Crowd;

use harden::{HardenError, Lock};
use identity::IdentityError;
use links::Links;
use listener::Listener;
use log::Log;

/// Why the evaluator does not start, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The process cannot be made safe.
    #[error(transparent)]
    Harden(#[from] HardenError),
    /// The key of its evidence.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The socket.
    #[error("cannot listen at {0}: {1}")]
    Socket(String, io::Error),
    /// No such user.
    #[error("there is no user {0}: correct --allow-uid")]
    NoUser(String),
    /// The log.
    #[error("cannot write the audit log in {0}: {1}")]
    Log(String, io::Error),
    /// The kernel.
    #[error("the kernel refuses {0}: {1}")]
    Kernel(&'static str, Errno),
}

/// The state that every thread works with; it lives as long as the process.
pub struct Server {
    engine: Engine,
    log: Log,
    crowd: Crowd,
    links: Links,
}

const LISTENER: u64 = 0;
const SIGNALS: u64 = 1;
/// Links are numbered from here on.
const FIRST_LINK: u64 = 2;
/// How often the log reaches the disk, in milliseconds.
const TICK: u16 = 1000;
/// How long threads may take to end.
const PATIENCE: Duration = Duration::from_secs(3);

/// Serves until a signal ends it.
pub fn serve(options: &Serve) -> Result<(), ServeError> {
    let path = options.socket.as_deref().unwrap_or(Path::new(""));
    let lock = match options.unlocked {
        true => Lock::AsFar,
        false => Lock::All,
    };
    let memory = options.memory << 20;
    let within = harden::memory(options.max_connections, options.pages, memory, lock)?;
    harden::descriptors(options.max_connections)?;
    let allowed = allowed_users(&options.allow_uid)?;
    let in_socket = |error| ServeError::Socket(path.display().to_string(), error);
    let user = options.user.as_deref().map(harden::user).transpose()?;
    let owner = user.as_ref().map_or(Uid::effective(), |user| user.uid);
    let listener = Listener::bind(path, allowed, owner).map_err(in_socket)?;
    if let Some(user) = &user {
        harden::become_user(user, within)?;
    }
    harden::no_inspection()?;
    locales::open_all();
    let log = open_log(options)?;
    let evidence = evidence(options)?;
    let engine = Engine::new(Config {
        evidence,
        collation: locales::find,
        inline: false,
        cache: options.cache,
        states: options.states,
        pages: options.pages as usize,
        connections: options.max_connections as usize,
        memory: usize::try_from(memory).unwrap_or(usize::MAX),
        logs: options.log.is_some(),
    });
    let cores = std::thread::available_parallelism().map_or(1, |cores| cores.get());
    // Threads outlive this function's view of them: what they use is never freed.
    let server: &'static Server = Box::leak(Box::new(Server {
        crowd: Crowd::new(u32::try_from(cores).unwrap_or(u32::MAX)),
        links: Links::new(options.max_connections, FIRST_LINK),
        engine,
        log,
    }));
    run(server, &listener, path)
}

fn evidence(options: &Serve) -> Result<Box<dyn Evidence>, IdentityError> {
    let EvidenceKind::Software = options.evidence;
    let Some(path) = &options.identity else {
        return Ok(Box::new(Software));
    };
    let key = identity::load_or_make(path)?;
    println!("pgseal-evaluator: evidence is signed by {}", key.public());
    Ok(Box::new(SignedSoftware::new(key)))
}

fn open_log(options: &Serve) -> Result<Log, ServeError> {
    match &options.log {
        None => Ok(Log::none()),
        Some(directory) => Log::open(directory)
            .map_err(|error| ServeError::Log(directory.display().to_string(), error)),
    }
}

/// The numbers of users, by name or number.
fn allowed_users(names: &[String]) -> Result<Vec<Uid>, ServeError> {
    let number = |name: &String| {
        let known = User::from_name(name).ok().flatten().map(|user| user.uid);
        known.or_else(|| name.parse().ok().map(Uid::from_raw))
    };
    names
        .iter()
        .map(|name| number(name).ok_or_else(|| ServeError::NoUser(name.clone())))
        .collect()
}

fn run(server: &'static Server, listener: &Listener, path: &Path) -> Result<(), ServeError> {
    let kernel = |what| move |errno| ServeError::Kernel(what, errno);
    let signals = ending_signals().map_err(kernel("signals as a descriptor"))?;
    let events = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC).map_err(kernel("epoll"))?;
    let readable = |token| EpollEvent::new(EpollFlags::EPOLLIN, token);
    events
        .add(listener, readable(LISTENER))
        .map_err(kernel("epoll"))?;
    events
        .add(&signals, readable(SIGNALS))
        .map_err(kernel("epoll"))?;
    read_zones();
    harden::fence()?;
    server.log.write(&[Event::Start {
        version: env!("CARGO_PKG_VERSION"),
        policy: server.engine.policy(),
        previous: server.log.previous(),
    }]);
    println!("pgseal-evaluator: listening at {}", path.display());
    listener.ready();
    serve_events(server, listener, &events).map_err(kernel("epoll"))?;
    server.links.end_all(PATIENCE);
    server.log.write(&server.engine.take_rest());
    server.log.write(&[Event::Stop]);
    server.log.sync();
    Ok(())
}

/// SIGTERM and SIGINT, as something to read; no thread is interrupted by them.
fn ending_signals() -> nix::Result<SignalFd> {
    let mut set = SigSet::empty();
    set.add(Signal::SIGTERM);
    set.add(Signal::SIGINT);
    set.thread_block()?;
    SignalFd::with_flags(&set, SfdFlags::SFD_CLOEXEC)
}

/// Serves until a signal comes.
fn serve_events(server: &'static Server, listener: &Listener, events: &Epoll) -> nix::Result<()> {
    let mut happened = [EpollEvent::empty(); 64];
    let mut ticked = Instant::now();
    loop {
        let count = match events.wait(&mut happened, EpollTimeout::from(TICK)) {
            Err(Errno::EINTR) => 0,
            count => count?,
        };
        for event in &happened[..count] {
            match event.data() {
                SIGNALS => return Ok(()),
                LISTENER => welcome(server, listener, events),
                link => server.links.hang_up(link),
            }
        }
        if ticked.elapsed() >= Duration::from_millis(TICK.into()) {
            let (seconds, coarse) = worker::now();
            server
                .log
                .write_at(coarse, &server.engine.take_due(seconds));
            server.log.sync();
            server.links.remind();
            ticked = Instant::now();
        }
    }
}

/// Takes one connection in, or turns it away.
fn welcome(server: &'static Server, listener: &Listener, events: &Epoll) {
    let Some(socket) = listener.accept() else {
        return;
    };
    // What fails here fails for this connection: it is closed, and its client sees that.
    let Some(link) = server.links.add(socket) else {
        return;
    };
    let hang_up = EpollFlags::EPOLLRDHUP | EpollFlags::EPOLLHUP | EpollFlags::EPOLLONESHOT;
    let watched = events.add(
        link.socket().as_fd(),
        EpollEvent::new(hang_up, link.number()),
    );
    if watched.is_err() || worker::start(server, &link).is_err() {
        server.links.remove(&link);
    }
}
