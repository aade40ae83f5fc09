//! The command line. What an option means is in the file of its subcommand.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Transparent encryption for unmodified PostgreSQL.
#[derive(Parser)]
#[command(name = "pgseal", version, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand)]
pub enum Command {
    /// Write sealed twins of PostgreSQL's programs into a directory for PATH
    Bindir(BindirArgs),
    /// Run one program sealed
    Exec(ExecArgs),
    /// Be the sealed twin of a program (what the scripts of `bindir` call)
    #[command(hide = true)]
    Twin(TwinArgs),
    /// Hand a cluster's key to the library (which calls this)
    #[command(hide = true)]
    Unlock(UnlockArgs),
}

#[derive(Args)]
pub struct BindirArgs {
    /// The directory of PostgreSQL's programs, such as /usr/lib/postgresql/15/bin
    #[arg(long, value_name = "PGBIN")]
    pub pg: PathBuf,
    /// The directory for the twins; it is made if it does not exist
    #[arg(long, value_name = "DIR")]
    pub into: PathBuf,
}

#[derive(Args)]
pub struct ExecArgs {
    /// A data directory to unlock, beside those that the command line names; repeatable
    #[arg(short = 'D', long = "pgdata", value_name = "DATADIR")]
    pub pgdata: Vec<PathBuf>,
    /// The program and its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, required = true)]
    pub command: Vec<OsString>,
}

#[derive(Args)]
pub struct TwinArgs {
    /// The directory of PostgreSQL's programs
    #[arg(long)]
    pub pg: PathBuf,
    /// The name that the program is called by: the twin's path
    #[arg(long)]
    pub argv0: OsString,
    /// The program's name
    pub name: OsString,
    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub args: Vec<OsString>,
}

#[derive(Args)]
pub struct UnlockArgs {
    /// The descriptor of a memfd or pipe that takes the handover record
    #[arg(long)]
    pub fd: i32,
    /// The data directory
    #[arg(long)]
    pub root: PathBuf,
}
