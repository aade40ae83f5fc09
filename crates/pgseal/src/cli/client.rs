//! The command line of `pgseal client`. Connection options are psql's.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgAction, Args, Subcommand};
use pgseal_client::{type_by_name, ColumnName, Type};
use pgseal_options::{ConnectionOptions, EvidenceOptions, ListOptions};

use super::until::parse_until;
use super::ProgramArgs;

#[derive(Subcommand)]
pub enum ClientCommand {
    /// Create an identity for an owner, or for an application of an owner
    Init(InitArgs),
    /// Open a session, and show the evaluator's evidence
    #[command(disable_help_flag = true)]
    Connect(ConnectArgs),
    /// List or create data keys
    #[command(subcommand)]
    Key(ClientKeyCommand),
    /// Encrypt a value from standard input and print its cell
    #[command(disable_help_flag = true)]
    Seal(SealValueArgs),
    /// Decrypt a cell and print its value
    #[command(disable_help_flag = true)]
    Open(OpenCellArgs),
    /// Manage what others may do with an owner's keys
    #[command(subcommand)]
    Grant(ClientGrantCommand),
    /// Record which columns of a database are encrypted
    #[command(subcommand)]
    Column(ClientColumnCommand),
    /// Encrypt plain columns of a table that has rows
    #[command(
        disable_help_flag = true,
        override_usage = "pgseal client protect [OPTIONS] --table <TABLE> --columns <COLUMNS>"
    )]
    Protect(ProtectArgs),
    /// Run statements: encrypt parameters, decrypt rows
    #[command(disable_help_flag = true)]
    Sql(SqlArgs),
    /// Run one program whose connections encrypt and decrypt columns
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Exec(ProgramArgs),
}

#[derive(Subcommand)]
pub enum ClientKeyCommand {
    /// List this owner's data keys
    #[command(disable_help_flag = true)]
    List(KeyListArgs),
    /// Create a data key, and store it wrapped in the database
    #[command(disable_help_flag = true)]
    New(KeyNewArgs),
}

#[derive(Subcommand)]
pub enum ClientGrantCommand {
    /// Sign a grant and store it in the database
    #[command(disable_help_flag = true)]
    Add(GrantAddArgs),
    /// List this owner's grants
    #[command(disable_help_flag = true)]
    List(GrantListArgs),
    /// Revoke grants at once
    #[command(disable_help_flag = true)]
    Revoke(GrantRevokeArgs),
    /// Restore the list of revoked grants that the server has lost
    #[command(disable_help_flag = true)]
    Restore(GrantRestoreArgs),
}

#[derive(Subcommand)]
pub enum ClientColumnCommand {
    /// Record in the identity that these columns are encrypted
    #[command(disable_help_flag = true)]
    Add(ColumnAddArgs),
    /// List the columns that the identity records for this database
    #[command(disable_help_flag = true)]
    List(ColumnListArgs),
    /// Remove columns that were dropped or changed from the identity
    #[command(disable_help_flag = true)]
    Forget(ColumnForgetArgs),
}

/// The identity and the connection.
#[derive(Args)]
pub struct ClientOptions {
    /// The identity file
    #[arg(short, long, value_name = "FILE", env = "PGSEAL_IDENTITY")]
    pub identity: PathBuf,
    #[command(flatten)]
    pub connection: ConnectionOptions,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    pub help: Option<bool>,
}

/// Which evaluators get the keys, and for how long.
#[derive(Args)]
pub struct TrustOptions {
    #[command(flatten)]
    pub evidence: EvidenceOptions,
    /// End of the session: 8h, or a time
    #[arg(long, value_name = "TIME", default_value = "8h", value_parser = parse_until)]
    pub until: u64,
}

#[derive(Args)]
pub struct InitArgs {
    /// New identity file; an existing file is never overwritten
    #[arg(value_name = "FILE", env = "PGSEAL_IDENTITY")]
    pub file: PathBuf,
    /// Create an identity for an application of this owner's data: it cannot sign grants
    #[arg(long, value_name = "FILE")]
    pub application_of: Option<PathBuf>,
}

#[derive(Args)]
pub struct ConnectArgs {
    #[command(flatten)]
    pub client: ClientOptions,
    #[command(flatten)]
    pub trust: TrustOptions,
}

#[derive(Args)]
pub struct KeyListArgs {
    #[command(flatten)]
    pub client: ClientOptions,
}

#[derive(Args)]
pub struct KeyNewArgs {
    #[command(flatten)]
    pub client: ClientOptions,
    /// Name of the key [default: the one named after role and database]
    #[arg(value_name = "KEYNAME")]
    pub name: Option<String>,
    /// Group of the key, which grants can name
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub group: u32,
    /// Encrypt equal values to equal cells, as det_type needs; anyone who sees the cells sees which
    /// are equal
    #[arg(long)]
    pub deterministic: bool,
}

#[derive(Args)]
pub struct SealValueArgs {
    #[command(flatten)]
    pub client: ClientOptions,
    /// Type: integer, int8, numeric, text, enc_text …
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    pub ty: String,
    /// Data key [default: the one named after role and database]
    #[arg(short, long, value_name = "KEYNAME")]
    pub key: Option<String>,
}

#[derive(Args)]
pub struct OpenCellArgs {
    #[command(flatten)]
    pub client: ClientOptions,
    /// Type that the cell must have [default: any]
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    pub ty: Option<String>,
    /// Cell, as psql shows it [default: read from standard input]
    #[arg(value_name = "\\x…")]
    pub cell: Option<String>,
}

#[derive(Args)]
pub struct GrantAddArgs {
    #[command(flatten)]
    pub client: ClientOptions,
    #[command(flatten)]
    pub trust: TrustOptions,
    /// Subject: owner, background, or the one that `pgseal client init` printed
    #[arg(long, value_name = "SUBJECT", default_value = "owner")]
    pub to: String,
    /// Operations: all, or names such as arithmetic,aggregate,convert-in
    #[arg(long, value_name = "OPERATION", value_delimiter = ',', required = true)]
    pub allow: Vec<String>,
    /// Start: a time in the future [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_until)]
    pub valid_from: Option<u64>,
    /// End: 30days, or a time
    #[arg(long, value_name = "TIME", default_value = "365days", value_parser = parse_until)]
    pub valid_until: u64,
    /// Limit to the keys of this group; repeatable
    #[arg(long, value_name = "N", conflicts_with = "key")]
    pub group: Vec<u32>,
    /// Limit to this data key; repeatable
    #[arg(long, value_name = "KEYNAME")]
    pub key: Vec<String>,
    /// Limit to this database
    #[arg(long)]
    pub this_database: bool,
}

#[derive(Args)]
pub struct GrantListArgs {
    #[command(flatten)]
    pub client: ClientOptions,
}

#[derive(Args)]
pub struct GrantRevokeArgs {
    #[command(flatten)]
    pub client: ClientOptions,
    #[command(flatten)]
    pub trust: TrustOptions,
    /// Serials of the grants, as `grant list` shows them
    #[arg(value_name = "SERIAL", required = true)]
    pub serials: Vec<String>,
}

#[derive(Args)]
pub struct GrantRestoreArgs {
    #[command(flatten)]
    pub client: ClientOptions,
    #[command(flatten)]
    pub trust: TrustOptions,
}

#[derive(Args)]
pub struct ColumnAddArgs {
    #[command(flatten)]
    pub client: ClientOptions,
    /// Data key of the columns [default: the one named after role and database]
    #[arg(short, long, value_name = "KEYNAME")]
    pub key: Option<String>,
    /// All encrypted columns that the server shows and the identity does not record yet
    #[arg(long, conflicts_with = "names", required_unless_present = "names")]
    pub all: bool,
    /// Columns, as schema.table.column
    #[arg(value_name = "COLUMN")]
    pub names: Vec<ColumnName>,
}

#[derive(Args)]
pub struct ColumnListArgs {
    #[command(flatten)]
    pub client: ClientOptions,
}

#[derive(Args)]
pub struct ColumnForgetArgs {
    #[command(flatten)]
    pub client: ClientOptions,
    /// Columns, as schema.table.column
    #[arg(value_name = "COLUMN", required_unless_present = "objects")]
    pub names: Vec<ColumnName>,
    /// A type, a function or a column of a composite, as pgseal client column list shows it
    #[arg(long = "object", value_name = "OBJECT")]
    pub objects: Vec<String>,
}

#[derive(Args)]
pub struct ProtectArgs {
    #[command(flatten)]
    pub client: ClientOptions,
    #[command(flatten)]
    pub trust: TrustOptions,
    /// Table, or schema.table; in double quotes what SQL would have so
    #[arg(long, value_name = "TABLE")]
    pub table: String,
    /// Columns, with commas between them
    #[arg(long, value_name = "COLUMNS")]
    pub columns: String,
    /// Data key of the columns [default: the one named after role and database]
    #[arg(short, long, value_name = "KEYNAME")]
    pub key: Option<String>,
    /// Say what would be done and what blocks it; change nothing
    #[arg(long)]
    pub check: bool,
    /// Encrypt varchar(n), char(n), numeric(p,s) and smallint without limits
    #[arg(long)]
    pub drop_limits: bool,
    /// Encrypt while applications write the table, under a short lock at the end
    #[arg(long)]
    pub online: bool,
    /// Take an unfinished online run back: the table is plain as before
    #[arg(long, conflicts_with_all = ["check", "online", "disconnect"])]
    pub abort: bool,
    /// End all other connections to the database, before and after
    #[arg(long, conflicts_with = "check")]
    pub disconnect: bool,
    /// Rows that are read and encrypted at a time
    #[arg(long, value_name = "N", default_value_t = 5000,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub batch_rows: u32,
    /// Print the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// `N=TYPE`: what a parameter's value is of.
#[derive(Clone, Copy)]
pub struct NamedType {
    pub place: usize,
    pub ty: Type,
}

impl FromStr for NamedType {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (place, ty) = text.split_once('=').unwrap_or_default();
        match (place.parse(), type_by_name(ty)) {
            (Ok(place), Some(ty)) => Ok(Self { place, ty }),
            _ => {
                Err("give a parameter's number and a type that can be encrypted, such as 1=integer")
            }
        }
    }
}

#[derive(Args)]
pub struct SqlArgs {
    #[command(flatten)]
    pub client: ClientOptions,
    #[command(flatten)]
    pub trust: TrustOptions,
    #[command(flatten)]
    pub list: ListOptions,
    /// Data key for parameters [default: the one named after role and database]
    #[arg(short, long, value_name = "KEYNAME")]
    pub key: Option<String>,
    /// Send $N to the server unencrypted; all others are encrypted, or refused
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub plain: Vec<usize>,
    /// Type of the value for $N, if the server's type is det_type or rnd_type
    #[arg(long = "type", value_name = "N=TYPE", value_delimiter = ',')]
    pub types: Vec<NamedType>,
    /// Send literals in statements that name encrypted tables or columns: none is a secret
    #[arg(long)]
    pub literals: bool,
    /// Refuse statements that return a column that the server calls plain
    #[arg(long)]
    pub sealed_only: bool,
    /// Run the statement for each line of standard input: $1, $2 … are its tab-separated fields
    #[arg(long, conflicts_with = "values", requires = "statement")]
    pub each_line: bool,
    /// Print rows only
    #[arg(short = 't', long)]
    pub tuples_only: bool,
    /// Print values with | between them, unaligned
    #[arg(short = 'A', long)]
    pub no_align: bool,
    /// Statement, with parameters $1, $2 … [default: the statements of standard input, each to its
    /// semicolon, in one session; parameters as \bind VALUE …, \plain N …, \type N=TYPE …]
    #[arg(value_name = "STATEMENT")]
    pub statement: Option<String>,
    /// $1, $2 …; \N is NULL. Other users of the machine can see them: --each-line hides them
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    pub values: Vec<String>,
}
