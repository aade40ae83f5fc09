//! The options of `pgseal exporter`.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::Args;

#[derive(Args)]
pub struct ExporterArgs {
    /// Data directory; repeatable [default: those of Debian and of PGDG's packages on this machine]
    #[arg(short = 'D', long = "pgdata", value_name = "DATADIR")]
    pub pgdata: Vec<PathBuf>,
    /// Address and port to listen at
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9743")]
    pub listen: SocketAddr,
    /// Certificate in PEM, with those between it and its authority: speak HTTPS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// Private key of the certificate in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// Answer only clients with a certificate of these authorities
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_client_ca: Option<PathBuf>,
    /// Listen beyond this machine without TLS: anyone on the network reads paths and key ids
    #[arg(long, conflicts_with = "tls_cert")]
    pub plain_http: bool,
    /// Audit log to count and verify, beside this machine's logs of keys; repeatable
    #[arg(long, value_name = "FILE")]
    pub audit_log: Vec<PathBuf>,
    /// Directory of an evaluator's audit logs to count and verify; repeatable [default:
    /// /var/lib/pgseal-evaluator, if it exists]
    #[arg(long, value_name = "DIR")]
    pub evaluator_logs: Vec<PathBuf>,
}
