//! Exit codes: a documented interface, decided here and nowhere else.
//!
//! 0 ok · 1 the check found something, or PostgreSQL would end with it · 2 usage · 3 I/O error · 4
//! not a sealed cluster · 5 key file damaged, incomplete or newer · 6 a provider or its command
//! failed · 7 wrong key · 8 sealed execution cannot be guaranteed · 9 busy · 10 a server or
//! evaluator refused · 141 nobody reads standard output. `exec` and the twins pass on their
//! program's own code. `wal-get` adds 200 to what is not 0 or "not in the archive".

use std::io::{self, ErrorKind, IsTerminal, Write};
use std::process::ExitCode;

use pgseal_bench::error::BenchError;
use pgseal_client::{ClientError, IdentityFileError, ListError};
use pgseal_keyring::{DerivedError, RewriteError};
use pgseal_storage::control::ControlError;
use pgseal_storage::version::Unsupported;

use crate::archive::ArchiveError;
use crate::ask::AskError;
use crate::audit::CanaryError;
use crate::cluster::ClusterError;
use crate::cmd::bindir::BindirError;
use crate::cmd::client::ClientFailure;
use crate::cmd::clone::{CloneError, RoomError};
use crate::cmd::key::{ChangeError, NoCopy, OnTerminal, SlotsDoNotOpen};
use crate::cmd::verify::ServerRuns;
use crate::command::CommandError;
use crate::control_file::ControlReadError;
use crate::convert::{ConvertError, Converting, LockError};
use crate::handover::HandoverFdError;
use crate::keybin::KeyBinError;
use crate::launch::LaunchError;
use crate::machine::MachineError;
use crate::new_slot::NewSlotError;
use crate::output::{self, OutputError};
use crate::scan::walk::WalkError;
use crate::server::PidFileError;
use crate::twin::basebackup::BackupError;
use crate::twin::initdb::InitdbError;
use crate::twin::initdb_key::NewKeyError;
use crate::twin::options::OptionError;
use crate::twin::pin::PinError;
use crate::twin::receivewal::Compressed;
use crate::twin::running::RunningError;
use crate::twin::source::SourceError;
use crate::twin::start::StartError;
use crate::twin::NotATwin;
use crate::unlock::{OutrankingError, SlotError, UnlockError};

/// What `verify`, `audit` and `key check` end with when they found something.
pub const FOUND: u8 = 1;
/// What PostgreSQL's programs end with when they refuse what a wrapper refuses for them.
const AS_POSTGRESQL: u8 = 1;
const USAGE: u8 = 2;
const IO: u8 = 3;
const NOT_SEALED: u8 = 4;
const KEY_FILE: u8 = 5;
const PROVIDER: u8 = 6;
const WRONG_KEY: u8 = 7;
const NOT_GUARANTEED: u8 = 8;
const BUSY: u8 = 9;
const REFUSED: u8 = 10;
/// As a shell tells of a program that Ctrl-C ended.
const INTERRUPTED: u8 = 130;
/// And of one that wrote to a pipe which nobody reads.
const NO_READER: u8 = 141;
/// What `wal-get` adds to every code: from 126 on PostgreSQL stops instead of taking a failure of
/// restore_command for the end of the archive. No signal has these numbers, less 128.
const STOPS_RECOVERY: u8 = 200;

/// Why a subcommand ended: one sentence for the operator, and a code.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub enum Failure {
    Archive(#[from] ArchiveError),
    Ask(#[from] AskError),
    Backup(#[from] BackupError),
    Bench(#[from] BenchError),
    Canary(#[from] CanaryError),
    Bindir(#[from] BindirError),
    Change(#[from] ChangeError),
    Client(#[from] ClientFailure),
    Clone(#[from] CloneError),
    Cluster(#[from] ClusterError),
    Compressed(#[from] Compressed),
    Control(#[from] ControlError),
    ControlRead(#[from] ControlReadError),
    Convert(#[from] ConvertError),
    Converting(#[from] Converting),
    HandoverFd(#[from] HandoverFdError),
    Initdb(#[from] InitdbError),
    KeyBin(#[from] KeyBinError),
    Launch(#[from] LaunchError),
    Lock(#[from] LockError),
    Machine(#[from] MachineError),
    NewKey(#[from] NewKeyError),
    NoCopy(#[from] NoCopy),
    NotATwin(#[from] NotATwin),
    OnTerminal(#[from] OnTerminal),
    Option(#[from] OptionError),
    Output(#[from] OutputError),
    PidFile(#[from] PidFileError),
    Pin(#[from] PinError),
    Running(#[from] RunningError),
    ServerRuns(#[from] ServerRuns),
    SlotsDoNotOpen(#[from] SlotsDoNotOpen),
    Source(#[from] SourceError),
    Start(#[from] StartError),
    Unlock(#[from] UnlockError),
    Unsupported(#[from] Unsupported),
    Walk(#[from] WalkError),
}

impl Failure {
    /// Says it on standard error, but for what no filter tells.
    pub fn report(&self) -> ExitCode {
        if self.code() != NO_READER {
            // The exit code is left, if nobody reads that either.
            let _ = writeln!(io::stderr(), "pgseal: {}", output::sentence(self));
        }
        ExitCode::from(self.code())
    }

    /// The same to a server that recovers, for which small numbers have another meaning.
    pub fn report_to_recovery(&self) -> ExitCode {
        self.report();
        ExitCode::from(STOPS_RECOVERY + self.code())
    }

    fn code(&self) -> u8 {
        match self {
            Self::Archive(error) => archive(error),
            Self::Ask(AskError::Io(..)) => IO,
            Self::Ask(_) => NOT_GUARANTEED,
            Self::Backup(error) => backup(error),
            Self::Bench(error) => bench(error),
            Self::Canary(error) => canary(error),
            Self::Bindir(error) => bindir(error),
            Self::Change(error) => change(error),
            Self::Client(error) => client(error),
            Self::Clone(CloneError::Target(..)) => IO,
            Self::Clone(CloneError::Room(RoomError::Unusable(..) | RoomError::Space(..))) => IO,
            Self::Clone(CloneError::PlainServer) => NOT_SEALED,
            Self::Clone(_) => USAGE,
            Self::Cluster(error) => cluster(error),
            Self::HandoverFd(_) | Self::PidFile(_) | Self::Running(RunningError::PidFile(_)) => IO,
            Self::Convert(error) => convert(error),
            Self::Converting(error) => converting(error),
            Self::Lock(error) => lock(error),
            Self::Control(ControlError::Blocks(..) | ControlError::Version(_)) => NOT_GUARANTEED,
            Self::Control(_) | Self::ControlRead(_) | Self::Walk(_) => IO,
            Self::Running(RunningError::Another(..)) => AS_POSTGRESQL,
            Self::ServerRuns(_) => BUSY,
            Self::Initdb(InitdbError::NotSealed(_)) => NOT_GUARANTEED,
            Self::Initdb(InitdbError::Exists(_)) => USAGE,
            Self::Initdb(_) => IO,
            Self::KeyBin(error) => key_bin(error),
            Self::Launch(error) => launch(error),
            Self::Machine(_) => PROVIDER,
            Self::NewKey(error) => new_key(error),
            Self::Compressed(_)
            | Self::NotATwin(_)
            | Self::OnTerminal(_)
            | Self::Option(_)
            | Self::Pin(PinError::NotAKeyId(_)) => USAGE,
            Self::Output(error) => output(error),
            Self::Pin(_) => WRONG_KEY,
            Self::NoCopy(_) | Self::SlotsDoNotOpen(_) => FOUND,
            Self::Start(StartError::WrongKey(..)) => WRONG_KEY,
            Self::Start(StartError::InClear(_)) => NOT_GUARANTEED,
            Self::Source(_) => IO,
            Self::Unlock(error) => unlock(error),
            Self::Unsupported(_) => NOT_GUARANTEED,
        }
    }
}

/// Prints what is wrong with the command line, or the help that it asks for.
pub fn usage(error: &clap::Error) -> ExitCode {
    let restores = std::env::args_os()
        .nth(1)
        .is_some_and(|arg| arg == "wal-get");
    // Nobody is left to hear that the message cannot be printed.
    let _ = print_usage(error);
    match error.exit_code() {
        0 => ExitCode::SUCCESS,
        _ if restores => ExitCode::from(STOPS_RECOVERY + USAGE),
        _ => ExitCode::from(USAGE),
    }
}

/// The parser calls its errors `error:`; ours name the program, as all of its messages do.
fn print_usage(error: &clap::Error) -> io::Result<()> {
    if !error.use_stderr() {
        return error.print();
    }
    let mut stderr = io::stderr();
    let text = match stderr.is_terminal() {
        true => error.render().ansi().to_string(),
        false => error.render().to_string(),
    };
    stderr.write_all(text.replacen("error:", "pgseal:", 1).as_bytes())
}

fn archive(error: &ArchiveError) -> u8 {
    match error {
        ArchiveError::Read(..) | ArchiveError::Copy(..) | ArchiveError::Exists(_) => IO,
        ArchiveError::Name(_) => USAGE,
        ArchiveError::NotSealed(_) | ArchiveError::Clear(_) => NOT_SEALED,
        ArchiveError::NoKey(_) | ArchiveError::Foreign(..) | ArchiveError::ClearRefused(_) => {
            WRONG_KEY
        }
    }
}

fn cluster(error: &ClusterError) -> u8 {
    match error {
        ClusterError::NotSealed(_) => NOT_SEALED,
        ClusterError::NotACluster(_) => USAGE,
        ClusterError::NoKeyDirectory(_) => KEY_FILE,
        ClusterError::Missing(_)
        | ClusterError::Unreadable(..)
        | ClusterError::WorkingDirectory(_) => IO,
    }
}

fn output(error: &OutputError) -> u8 {
    match error {
        OutputError::Closed => NO_READER,
        OutputError::Write(_) | OutputError::Done(_) => IO,
    }
}

fn canary(error: &CanaryError) -> u8 {
    match error {
        CanaryError::File(..) => IO,
        CanaryError::Hex(_) | CanaryError::Short(_) | CanaryError::Many(_) => USAGE,
    }
}

fn backup(error: &BackupError) -> u8 {
    match error {
        BackupError::NotSealed(_) | BackupError::NoHints => NOT_GUARANTEED,
        BackupError::ReadBack(..) => IO,
        BackupError::Commit(error) => key_bin(error),
        BackupError::WalKey(error) => unlock(error),
        BackupError::Exists(_)
        | BackupError::LastInput(_)
        | BackupError::PlainInput(_)
        | BackupError::Sharing(..)
        | BackupError::RawKey(_)
        | BackupError::RawIncremental => USAGE,
    }
}

fn bench(error: &BenchError) -> u8 {
    match error {
        BenchError::Usage(_)
        | BenchError::Root
        | BenchError::Needs(_)
        | BenchError::Incomparable(_)
        | BenchError::NotAReport(..) => USAGE,
        BenchError::Busy => BUSY,
        BenchError::Interrupted => INTERRUPTED,
        BenchError::Output(error) if error.kind() == ErrorKind::BrokenPipe => NO_READER,
        BenchError::Files(..)
        | BenchError::Start(..)
        | BenchError::Program { .. }
        | BenchError::ServerDied { .. }
        | BenchError::Output(_)
        | BenchError::Report(..) => IO,
    }
}

fn bindir(error: &BindirError) -> u8 {
    match error {
        BindirError::Read(..) | BindirError::Write(..) => IO,
        BindirError::NoPrograms(_) | BindirError::Other(_) | BindirError::Twins(_) => USAGE,
        BindirError::Alike(..)
        | BindirError::Moved(..)
        | BindirError::NotFound(..)
        | BindirError::Silent(_)
        | BindirError::NoTwin(_)
        | BindirError::Name(_) => NOT_GUARANTEED,
    }
}

fn change(error: &ChangeError) -> u8 {
    match error {
        ChangeError::NoWay | ChangeError::NoUnwrap | ChangeError::NoSlot(_) => USAGE,
        ChangeError::New(error) => new_slot(error),
        ChangeError::Rewrite(error) => match &**error {
            RewriteError::Store(error) => key_bin(error),
            RewriteError::Add(_) => USAGE,
            RewriteError::Open(error) => slot(error),
            RewriteError::OtherKey => WRONG_KEY,
            RewriteError::ReadBack => IO,
        },
    }
}

fn key_bin(error: &KeyBinError) -> u8 {
    match error {
        KeyBinError::Read(..) | KeyBinError::Write(..) | KeyBinError::Leftover(..) => IO,
        KeyBinError::Missing(_) | KeyBinError::Format(..) | KeyBinError::NoHeader(..) => KEY_FILE,
        KeyBinError::Busy(_) => BUSY,
    }
}

fn client(error: &ClientFailure) -> u8 {
    match error {
        ClientFailure::Client(error) => of_session(error),
        ClientFailure::Identity(error) => match error {
            IdentityFileError::Read(_, error) if error.kind() == ErrorKind::NotFound => KEY_FILE,
            IdentityFileError::Read(..) | IdentityFileError::Write(..) => IO,
            IdentityFileError::Exists(_) | IdentityFileError::TooLong(_) => USAGE,
            IdentityFileError::Open(_) | IdentityFileError::Text(..) => KEY_FILE,
        },
        ClientFailure::Output(error) => output(error),
        ClientFailure::Io(_) => IO,
        ClientFailure::Not(..) | ClientFailure::Policy(_) | ClientFailure::Script(_) => USAGE,
    }
}

fn of_session(error: &ClientError) -> u8 {
    match error {
        ClientError::Server(error) if error.code().is_none() => IO,
        ClientError::Random(_) | ClientError::Tls(_) => IO,
        ClientError::Server(_)
        | ClientError::NotAllowed(_)
        | ClientError::KeyExists(_)
        | ClientError::RevocationNotKept
        | ClientError::Message(_)
        | ClientError::Refused { .. } => REFUSED,
        ClientError::Line(_, error) => of_session(error),
        ClientError::NotInstalled => NOT_SEALED,
        ClientError::Evidence(_) => NOT_GUARANTEED,
        ClientError::List(error) => match error {
            ListError::Name
            | ListError::Plain(..)
            | ListError::NotPlain(_)
            | ListError::Literal(_)
            | ListError::Code(_) => USAGE,
            _ => NOT_GUARANTEED,
        },
        ClientError::NoKey(_)
        | ClientError::KeyRefused(..)
        | ClientError::OpensOnly(_)
        | ClientError::NoKeyOfCell(_)
        | ClientError::NoLegacyKey
        | ClientError::Cell(_) => WRONG_KEY,
        ClientError::Connection(_)
        | ClientError::Value(_)
        | ClientError::Arguments { .. }
        | ClientError::NotEncrypted(_)
        | ClientError::NotPlain(_)
        | ClientError::ParameterMixed(_)
        | ClientError::WhichType(_)
        | ClientError::Array
        | ClientError::Copy
        | ClientError::CopyEscape
        | ClientError::CopyFields { .. }
        | ClientError::ColumnArray(_)
        | ClientError::ColumnMixed { .. }
        | ClientError::PlainColumn(_)
        | ClientError::ParameterType { .. }
        | ClientError::ColumnType { .. }
        | ClientError::NotTheOwner
        | ClientError::Grant(_) => USAGE,
    }
}

fn launch(error: &LaunchError) -> u8 {
    match error {
        LaunchError::Exec(..) => IO,
        LaunchError::View(_) => USAGE,
        _ => NOT_GUARANTEED,
    }
}

fn convert(error: &ConvertError) -> u8 {
    match error {
        ConvertError::AlreadySealed(_) => USAGE,
        ConvertError::Control(..) | ConvertError::Obstacles(..) => FOUND,
        ConvertError::OtherKey(..) => WRONG_KEY,
        ConvertError::OtherCopy(_) => KEY_FILE,
        ConvertError::ReadControl(..)
        | ConvertError::Begin(..)
        | ConvertError::Step(..)
        | ConvertError::Survey(_)
        | ConvertError::Walk(_) => IO,
    }
}

fn converting(error: &Converting) -> u8 {
    match error {
        Converting::Begun(..) => BUSY,
        Converting::Journal(..) => KEY_FILE,
        Converting::Read(..) => IO,
    }
}

fn lock(error: &LockError) -> u8 {
    match error {
        LockError::NoCluster(_) | LockError::Owner(_) => USAGE,
        LockError::Server(..) | LockError::Other(_) => BUSY,
        LockError::Io(..) | LockError::PidFile(_) => IO,
    }
}

fn new_key(error: &NewKeyError) -> u8 {
    match error {
        NewKeyError::Random(_) => IO,
        NewKeyError::NewSlot(error) => new_slot(error),
        NewKeyError::Check(error) => slot(error),
        NewKeyError::Unlock(error) => unlock(error),
        NewKeyError::Length(_)
        | NewKeyError::LengthText(_)
        | NewKeyError::LengthDiffers { .. }
        | NewKeyError::NoWay
        | NewKeyError::HalfAPair
        | NewKeyError::PlainAndMore
        | NewKeyError::CopyAndMore
        | NewKeyError::Add(_) => USAGE,
    }
}

fn new_slot(error: &NewSlotError) -> u8 {
    match error {
        NewSlotError::Command(error) => command(error),
        NewSlotError::Derived(error) => derived(error),
        NewSlotError::Passphrase(_) | NewSlotError::NotAnAesKey(_) => PROVIDER,
        NewSlotError::KeyFile(..) => IO,
        NewSlotError::KeyFileInside(_) => USAGE,
    }
}

fn unlock(error: &UnlockError) -> u8 {
    match error {
        UnlockError::Converting(error) => converting(error),
        UnlockError::KeyBin(error) => key_bin(error),
        UnlockError::Altered(_) | UnlockError::RawReceived(_) => KEY_FILE,
        UnlockError::Machine(_) => PROVIDER,
        UnlockError::Variable(error) => command(error),
        UnlockError::Slot(_, error) => slot(error),
        UnlockError::Slots(_, errors) => errors.first().map_or(PROVIDER, |(_, error)| slot(error)),
    }
}

fn slot(error: &SlotError) -> u8 {
    match error {
        SlotError::Command(error) | SlotError::Outranking(OutrankingError { error, .. }) => {
            command(error)
        }
        SlotError::Derived(error) => derived(error),
        SlotError::Payload(_) => WRONG_KEY,
        SlotError::Source(_)
        | SlotError::Writer(_)
        | SlotError::Passphrase(_)
        | SlotError::NotAnAesKey(_)
        | SlotError::KeyFile(_) => PROVIDER,
    }
}

fn command(error: &CommandError) -> u8 {
    match error {
        CommandError::BadTimeLimit | CommandError::NotText(_) => USAGE,
        _ => PROVIDER,
    }
}

fn derived(error: &DerivedError) -> u8 {
    match error {
        DerivedError::Wrong(_) | DerivedError::Payload(_) => WRONG_KEY,
        DerivedError::Derive(_) => PROVIDER,
        DerivedError::Random(_) => IO,
    }
}
