//! Writes the man pages and the shell completions of `pgseal` into a directory, from the same
//! source as its `--help`: `cargo run --example pages -- DIRECTORY`. Packages install them.
//!
//! It is an example and no command because the generators are of no use to anybody who runs pgseal.

use std::env;
use std::error::Error;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap_complete::Shell;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = env::args_os().nth(1).map(PathBuf::from);
    let directory = directory.ok_or("usage: pages DIRECTORY")?;
    man_pages(&directory.join("man1"))?;
    completions(&directory.join("completions"))?;
    Ok(())
}

/// One page for each command and subcommand, `pgseal-key-rotate.1`.
fn man_pages(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    clap_mangen::generate_to(pgseal_command::parser(), directory)
}

fn completions(directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
        clap_complete::generate_to(shell, &mut pgseal_command::parser(), "pgseal", directory)?;
    }
    Ok(())
}
