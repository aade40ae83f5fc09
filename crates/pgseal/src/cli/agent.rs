//! The options of `pgseal agent`.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::unlock::UnlockOptions;

#[derive(Args)]
pub struct AgentArgs {
    /// Data directory whose key the agent holds; repeatable
    #[arg(short = 'D', long = "pgdata", value_name = "DATADIR", required = true)]
    pub pgdata: Vec<PathBuf>,
    #[command(flatten)]
    pub unlock: UnlockOptions,
    /// Socket to listen at [default: in $XDG_RUNTIME_DIR, or in a new directory below /tmp]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// Time after which the agent forgets the keys and ends, such as 8h
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub lifetime: Option<Duration>,
    /// Go on in the background, and print what a shell is to evaluate
    #[arg(long, conflicts_with = "command")]
    pub background: bool,
    /// Program to run with the agent, which ends with it
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
