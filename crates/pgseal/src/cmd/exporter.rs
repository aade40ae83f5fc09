//! `pgseal exporter`: metrics for Prometheus, until a signal ends it. Opens no key.
//!
//! Exit codes: 2 the options, or a certificate, are of no use; 3 the address cannot be listened at.

use std::process::ExitCode;

use pgseal_exporter::{Settings, Sources, TlsFiles};
use pgseal_keys::approved::{self, NotApproved};
use pgseal_keys::exit::Failure;

use crate::cli::ExporterArgs;
use crate::VERSION;

pub fn run(args: ExporterArgs) -> Result<ExitCode, Failure> {
    if args.tls_cert.is_some() {
        approved::refuse(NotApproved::Command("--tls-cert"))?;
    }
    let client_ca = args.tls_client_ca;
    let files = args.tls_cert.zip(args.tls_key);
    let tls = files.map(|(certificate, key)| TlsFiles {
        certificate,
        key,
        client_ca,
    });
    let never = pgseal_exporter::run(Settings {
        listen: args.listen,
        tls,
        plain_http: args.plain_http,
        sources: Sources {
            command: VERSION,
            directories: args.pgdata,
            audit_logs: args.audit_log,
            evaluator_logs: args.evaluator_logs,
        },
    })?;
    match never {}
}
