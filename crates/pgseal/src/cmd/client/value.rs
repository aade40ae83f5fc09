//! `pgseal client seal` and `open`: one value. No evaluator is needed.

use pgseal_client::{from_hex, to_hex, type_by_name, ClientError, KeyStore, Type, Value};

use super::{input, not, ClientFailure};
use crate::cli::client::{OpenCellArgs, SealValueArgs};
use crate::output;

pub async fn seal(args: &SealValueArgs) -> Result<(), ClientFailure> {
    let ty = type_of(&args.ty)?;
    let identity = args.client.identity()?;
    let store = KeyStore::fetch(&args.client.connect().await?, &identity).await?;
    let value = Value::parse(ty, &input()?).map_err(ClientError::from)?;
    let mut cell = Vec::new();
    let name = args.client.keyname(args.key.as_ref())?;
    store.keys.seal(&name, &value, &mut cell)?;
    Ok(output::print(format_args!("\\x{}\n", to_hex(&cell)))?)
}

pub async fn open(args: &OpenCellArgs) -> Result<(), ClientFailure> {
    let ty = args.ty.as_deref().map(type_of).transpose()?;
    let text = match &args.cell {
        Some(cell) => cell.clone(),
        None => input()?.to_string(),
    };
    let digits = text.trim().strip_prefix("\\x").and_then(from_hex);
    let cell = digits.ok_or_else(|| not(&text, "a cell as psql shows it: \\x and digits"))?;
    let identity = args.client.identity()?;
    let store = KeyStore::fetch(&args.client.connect().await?, &identity).await?;
    let value = match ty {
        Some(ty) => store.keys.open_as(ty, &cell)?,
        None => store.keys.open(&cell)?,
    };
    Ok(output::print(format_args!("{}\n", value.to_text()))?)
}

fn type_of(name: &str) -> Result<Type, ClientFailure> {
    type_by_name(name).ok_or_else(|| {
        not(
            name,
            "a type that can be encrypted, such as integer or text",
        )
    })
}
