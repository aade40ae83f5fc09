//! `pgseal twin`: what the scripts of `bindir` call.

use std::process::ExitCode;

use crate::cli::TwinArgs;
use crate::exit::Failure;
use crate::twin;

pub fn run(args: TwinArgs) -> Result<ExitCode, Failure> {
    let name = args.name.to_string_lossy().into_owned();
    let twin = twin::Twin {
        program: args.pg.join(&name),
        name,
        argv0: args.argv0,
    };
    twin.run(args.args)
}
