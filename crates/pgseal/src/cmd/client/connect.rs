//! `pgseal client connect`: runs the exchange, and shows what the evaluator showed.

use pgseal_client::{back_end_name, evidence_key, to_hex, Revocations};

use super::print::{fields, refused_keys, time};
use super::ClientFailure;
use crate::cli::client::ConnectArgs;
use crate::output;

pub async fn run(args: &ConnectArgs) -> Result<(), ClientFailure> {
    let session = args.client.session(&args.trust, None).await?;
    let evidence = session.evidence();
    // What software says of itself is a line of text, before what it binds.
    let shown = match evidence.bytes.split(|byte| *byte == b'\n').next() {
        Some(text) if evidence.back_end == 0 => String::from_utf8_lossy(text).into_owned(),
        _ => to_hex(&evidence.bytes),
    };
    let signer = evidence_key(&evidence.bytes).filter(|_| evidence.back_end == 0);
    let signer = signer.map_or_else(|| "nobody".to_owned(), |key| key.to_string());
    let grants = session.grants().await?;
    let revocations = session.list().revocations().map(Revocations::sequence);
    let keys: Vec<&str> = session.keys().all().map(|key| key.name.as_str()).collect();
    output::print(fields(&[
        ("evaluator", back_end_name(evidence.back_end)),
        ("evidence", shown),
        ("signed by", signer),
        ("rules", to_hex(&evidence.rules)),
        ("owner", session.identity().owner().to_string()),
        ("subject", session.identity().subject().to_string()),
        ("session", to_hex(&session.id())),
        ("expires", time(session.expires())),
        (
            "data keys",
            format!("{} {}", keys.len(), keys.join(" "))
                .trim_end()
                .to_owned(),
        ),
        (
            "grants",
            grants
                .iter()
                .filter(|(_, revoked)| !revoked)
                .count()
                .to_string(),
        ),
        ("revocations", revocations.unwrap_or(0).to_string()),
        ("columns", session.list().columns().count().to_string()),
    ]))?;
    refused_keys(session.keys());
    Ok(())
}
