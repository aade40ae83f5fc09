//! The options of `pgseal receiver …`.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, Subcommand};
use pgseal_format::TokenId;

use super::unlock::ClusterOptions;
use super::until::parse_until;

#[derive(Subcommand)]
pub enum ReceiverCommand {
    /// Print a token for a client that does not hold the cluster's key
    #[command(override_usage = "pgseal receiver grant [OPTIONS] --role <ROLE> --until <TIME>")]
    Grant(GrantArgs),
    /// List the tokens that were granted, and which are revoked
    List(ReceiverListArgs),
    /// Revoke tokens, from the next connection on
    #[command(
        override_usage = "pgseal receiver revoke [OPTIONS] <--id ID|--role ROLE|--token-file FILE>"
    )]
    Revoke(RevokeArgs),
}

#[derive(Args)]
pub struct GrantArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Role that the client connects as
    #[arg(long, value_name = "ROLE", value_parser = NonEmptyStringValueParser::new())]
    pub role: String,
    /// Lifetime of the token: 12h, 30days, or a time such as 2027-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_until)]
    pub until: u64,
}

#[derive(Args)]
pub struct ReceiverListArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

#[derive(Args)]
#[group(id = "revoked", required = true, multiple = false, args = ["id", "role", "token_file"])]
pub struct RevokeArgs {
    #[command(flatten)]
    pub cluster: ClusterOptions,
    /// Token to revoke, as `pgseal receiver list` names it; repeatable
    #[arg(long, value_name = "ID", value_parser = parse_token_id)]
    pub id: Vec<TokenId>,
    /// Role of which all listed tokens are revoked
    #[arg(long, value_name = "ROLE")]
    pub role: Option<String>,
    /// File that contains a token to revoke, which need not be listed
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

/// The name of a token: 16 hexadecimal digits.
fn parse_token_id(text: &str) -> Result<TokenId, String> {
    let number = u64::from_str_radix(text, 16).ok();
    let number = number.filter(|_| text.len() == 16 && !text.starts_with('+'));
    let id = number.map(|number| TokenId(number.to_be_bytes()));
    id.ok_or_else(|| "give 16 hexadecimal digits, as `pgseal receiver list` does".to_owned())
}
