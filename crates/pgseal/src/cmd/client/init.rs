//! `pgseal client init`: an owner's identity, or one for an application of that owner's data.

use std::io::{self, Write};

use pgseal_client::{ClientError, Identity, IdentityFile, Kept};

use super::print::fields;
use super::ClientFailure;
use crate::cli::client::InitArgs;
use crate::output;

pub fn run(args: &InitArgs) -> Result<(), ClientFailure> {
    let (identity, kept) = match &args.application_of {
        Some(owner) => {
            let owner = IdentityFile::load(owner)?;
            (owner.identity.application(), owner.kept)
        }
        None => (Identity::generate(), Kept::default()),
    };
    let identity = identity.map_err(ClientError::from)?;
    IdentityFile::create(&args.file, &identity, &kept)?;
    let told = fields(&[
        ("identity", args.file.display().to_string()),
        ("owner", identity.owner().to_string()),
        ("subject", identity.subject().to_string()),
    ]);
    if identity.is_owner() {
        let advice = "Keep a copy of it offline: without it nobody can read what it encrypts.";
        // It is made, and standard output says where.
        let _ = writeln!(io::stderr(), "{advice}");
    }
    Ok(output::print_done(told)?)
}
