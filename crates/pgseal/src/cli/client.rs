//! The command line of `pgseal client`. Connection options are psql's.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{ArgAction, Args, Subcommand};
use pgseal_client::{from_hex, type_by_name, ColumnName, PublicKey, Type};

use crate::cmd::receiver::parse_until;

#[derive(Subcommand)]
pub enum ClientCommand {
    /// Make an identity: an owner's, or an application's of an owner's data
    Init(InitArgs),
    /// Open a session, and show what the evaluator showed
    #[command(disable_help_flag = true)]
    Connect(ConnectArgs),
    /// The data keys of an owner
    #[command(subcommand)]
    Key(ClientKeyCommand),
    /// Read a value from standard input and print its cell
    #[command(disable_help_flag = true)]
    Seal(SealValueArgs),
    /// Print the value of a cell
    #[command(disable_help_flag = true)]
    Open(OpenCellArgs),
    /// What others may do with an owner's keys
    #[command(subcommand)]
    Grant(ClientGrantCommand),
    /// Which columns of a database are encrypted, whatever its server says
    #[command(subcommand)]
    Column(ClientColumnCommand),
    /// Run statements: their parameters are sealed, their rows opened
    #[command(disable_help_flag = true)]
    Sql(SqlArgs),
}

#[derive(Subcommand)]
pub enum ClientKeyCommand {
    /// List this owner's data keys
    #[command(disable_help_flag = true)]
    List(KeyListArgs),
    /// Make a data key here, and store it wrapped in the database
    #[command(disable_help_flag = true)]
    New(KeyNewArgs),
}

#[derive(Subcommand)]
pub enum ClientGrantCommand {
    /// Sign a grant, store it in the database, and show it to the evaluator
    #[command(disable_help_flag = true)]
    Add(GrantAddArgs),
    /// List this owner's grants
    #[command(disable_help_flag = true)]
    List(GrantListArgs),
    /// Take grants back, at once
    #[command(disable_help_flag = true)]
    Revoke(GrantRevokeArgs),
    /// Put the list of revoked grants back that this identity has seen and the server has lost
    #[command(disable_help_flag = true)]
    Restore(GrantRestoreArgs),
}

#[derive(Subcommand)]
pub enum ClientColumnCommand {
    /// Keep in the identity that these columns are encrypted, with the types that they have now
    #[command(disable_help_flag = true)]
    Add(ColumnAddArgs),
    /// List what the identity keeps of this database
    #[command(disable_help_flag = true)]
    List(ColumnListArgs),
    /// Keep nothing more of these columns, which were dropped or changed
    #[command(disable_help_flag = true)]
    Forget(ColumnForgetArgs),
}

/// Who, and where.
#[derive(Args)]
pub struct ClientOptions {
    /// The identity file
    #[arg(short, long, value_name = "FILE", env = "PGSEAL_IDENTITY")]
    pub identity: PathBuf,
    /// The server's host or socket directory [default: $PGHOST, or the local socket]
    #[arg(short = 'h', long, value_name = "HOSTNAME")]
    pub host: Option<String>,
    /// Its port [default: $PGPORT, or 5432]
    #[arg(short = 'p', long, value_name = "PORT")]
    pub port: Option<u16>,
    /// The role to connect as [default: $PGUSER]
    #[arg(short = 'U', long, value_name = "NAME")]
    pub username: Option<String>,
    /// The database, or a connection string [default: $PGDATABASE]
    #[arg(short = 'd', long, value_name = "DBNAME")]
    pub dbname: Option<String>,
    /// Print help
    #[arg(long, action = ArgAction::Help)]
    pub help: Option<bool>,
}

/// Whom to hand the keys to, and for how long.
#[derive(Args)]
pub struct TrustOptions {
    /// Which evaluators are trusted with the keys, by their evidence (docs/format/evidence.md)
    #[arg(
        long,
        value_name = "FILE",
        env = "PGSEAL_POLICY",
        required_unless_present = "accept",
        conflicts_with = "accept"
    )]
    pub policy: Option<PathBuf>,
    /// Instead of a policy: `software:KEY` trusts the evaluator with this key, an ordinary process
    /// that prints it when it starts; `software` trusts anybody who answers in its place, too
    #[arg(long, value_name = "KIND", env = "PGSEAL_ACCEPT")]
    pub accept: Option<Accept>,
    /// AMD's certificates for the policy, in DER, one after the other
    #[arg(long, value_name = "FILE")]
    pub amd_certificates: Option<PathBuf>,
    /// Intel's collateral for the policy, as JSON
    #[arg(long, value_name = "FILE")]
    pub intel_collateral: Option<PathBuf>,
    /// The hash of the rules that it must follow, as connect shows it [default: any]
    #[arg(long, value_name = "HEX", env = "PGSEAL_ACCEPT_RULES")]
    pub rules: Option<String>,
    /// When the session ends: 8h, or a time
    #[arg(long, value_name = "TIME", default_value = "8h", value_parser = parse_until)]
    pub until: u64,
}

/// Ordinary processes: any, or that with a key.
#[derive(Clone, Copy)]
pub struct Accept(pub Option<PublicKey>);

impl FromStr for Accept {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let refused = "give software, or software: and the 64 digits that the evaluator prints";
        let key = text.strip_prefix("software").ok_or(refused)?;
        let Some(key) = key.strip_prefix(':') else {
            return key.is_empty().then_some(Self(None)).ok_or(refused);
        };
        let key = from_hex(key).and_then(|key| key.as_slice().try_into().ok());
        Ok(Self(Some(PublicKey(key.ok_or(refused)?))))
    }
}

#[derive(Args)]
pub struct InitArgs {
    /// The new identity file; it is never written over
    #[arg(value_name = "FILE", env = "PGSEAL_IDENTITY")]
    pub file: PathBuf,
    /// Make an application's identity, of the data of this owner: it can make no grants
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
    /// Its name [default: the one named after role and database]
    #[arg(value_name = "KEYNAME")]
    pub name: Option<String>,
    /// What grants may name
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub group: u32,
    /// Equal values give equal cells, as det_type needs; whoever sees them sees which are equal
    #[arg(long)]
    pub deterministic: bool,
}

#[derive(Args)]
pub struct SealValueArgs {
    #[command(flatten)]
    pub client: ClientOptions,
    /// The type: integer, int8, numeric, text, enc_text …
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    pub ty: String,
    /// The data key [default: the one named after role and database]
    #[arg(short, long, value_name = "KEYNAME")]
    pub key: Option<String>,
}

#[derive(Args)]
pub struct OpenCellArgs {
    #[command(flatten)]
    pub client: ClientOptions,
    /// The type that it must be of [default: any]
    #[arg(short = 't', long = "type", value_name = "TYPE")]
    pub ty: Option<String>,
    /// The cell, as psql shows it [default: from standard input]
    #[arg(value_name = "\\x…")]
    pub cell: Option<String>,
}

#[derive(Args)]
pub struct GrantAddArgs {
    #[command(flatten)]
    pub client: ClientOptions,
    #[command(flatten)]
    pub trust: TrustOptions,
    /// To whom: owner, background, or the subject that `pgseal client init` printed
    #[arg(long, value_name = "SUBJECT", default_value = "owner")]
    pub to: String,
    /// Operations: all, or names such as arithmetic,aggregate,convert-in
    #[arg(long, value_name = "OPERATION", value_delimiter = ',', required = true)]
    pub allow: Vec<String>,
    /// From when on: a time to come [default: now]
    #[arg(long, value_name = "TIME", value_parser = parse_until)]
    pub valid_from: Option<u64>,
    /// Until when: 30days, or a time
    #[arg(long, value_name = "TIME", default_value = "365days", value_parser = parse_until)]
    pub valid_until: u64,
    /// Only with keys of this group; repeatable
    #[arg(long, value_name = "N", conflicts_with = "key")]
    pub group: Vec<u32>,
    /// Only with this data key; repeatable
    #[arg(long, value_name = "KEYNAME")]
    pub key: Vec<String>,
    /// Only in this database
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
    /// Their serials, as `grant list` shows them
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
    /// The data key that seals for them [default: the one named after role and database]
    #[arg(short, long, value_name = "KEYNAME")]
    pub key: Option<String>,
    /// All encrypted columns that the server shows, and the identity does not keep yet
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
    #[arg(value_name = "COLUMN", required = true)]
    pub names: Vec<ColumnName>,
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
    /// The data key for parameters [default: the one named after role and database]
    #[arg(short, long, value_name = "KEYNAME")]
    pub key: Option<String>,
    /// $N is no secret and goes to the server in clear; all others are sealed, or refused
    #[arg(long, value_name = "N", value_delimiter = ',')]
    pub plain: Vec<usize>,
    /// The type of the value for $N, where the server's is det_type or rnd_type
    #[arg(long = "type", value_name = "N=TYPE", value_delimiter = ',')]
    pub types: Vec<NamedType>,
    /// Send a statement with literals that names encrypted tables or columns: none is a secret
    #[arg(long)]
    pub literals: bool,
    /// Refuse a statement that gives a column that the server calls plain
    #[arg(long)]
    pub sealed_only: bool,
    /// Run it once for each line of standard input: $1, $2 … are its fields, between tabs
    #[arg(long, conflicts_with = "values", requires = "statement")]
    pub each_line: bool,
    /// Print rows only
    #[arg(short = 't', long)]
    pub tuples_only: bool,
    /// Print values with | between them, unaligned
    #[arg(short = 'A', long)]
    pub no_align: bool,
    /// The statement, with parameters $1, $2 … [default: the statements of standard input, each to
    /// its semicolon, in one session; parameters as \bind VALUE …, \plain N …, \type N=TYPE …]
    #[arg(value_name = "STATEMENT")]
    pub statement: Option<String>,
    /// $1, $2 …; \N is NULL. Other users of the machine see them: --each-line hides them
    #[arg(value_name = "VALUE", allow_hyphen_values = true)]
    pub values: Vec<String>,
}
