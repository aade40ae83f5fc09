//! `pgseal bindir --relative`: wrappers that a copy of their directory takes along.

mod common;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use common::programs::{assert_runs, with_library, Place};
use common::{pgseal, Transcript};

/// Makes wrappers in `into` for the programs in `pg`.
fn bindir(pg: &Path, into: &Path) -> Transcript {
    let mut make = with_library(pgseal(&["bindir", "--relative", "--pg"]));
    Transcript::of(make.arg(pg).arg("--into").arg(into))
}

/// Makes `bin`, with PostgreSQL's own programs in `bin/stock`.
fn moved_aside(place: &Place) -> std::path::PathBuf {
    let bin = place.path("bin");
    fs::create_dir(&bin).expect("a directory");
    fs::rename(place.path("pg"), bin.join("stock")).expect("moved");
    bindir(&bin.join("stock"), &bin).prints(&format!("6 wrappers in {}\n", bin.display()));
    bin
}

#[test]
fn a_copy_runs_its_own_programs() {
    let place = Place::new();
    let bin = moved_aside(&place);
    let text = fs::read_to_string(bin.join("psql")).expect("a wrapper");
    assert!(text.ends_with("-twin stock/psql\n"), "{text}");
    assert_runs(&bin.join("psql"), &bin.join("stock/psql"));
    let copy = place.path("copy/usr/bin");
    fs::create_dir_all(&copy).expect("a directory");
    let mut copying = Command::new("cp");
    let copied = copying.arg("-a").arg(bin.join(".")).arg(&copy).status();
    assert!(copied.expect("cp runs").success());
    fs::remove_dir_all(&bin).expect("removed");
    assert_runs(&copy.join("psql"), &copy.join("stock/psql"));
}

/// The path begins where the wrapper is, not where a link to it is or where it is called.
#[test]
fn a_link_leads_to_the_programs_of_its_target() {
    let place = Place::new();
    let bin = moved_aside(&place);
    let link = place.path("psql");
    symlink(bin.join("psql"), &link).expect("a link");
    assert_runs(&link, &bin.join("stock/psql"));
    let mut called = with_library(Command::new("./psql"));
    let transcript = Transcript::of(called.current_dir(&bin));
    assert_eq!(transcript.code, Some(42), "{transcript:?}");
}

#[test]
fn programs_elsewhere_have_no_such_path() {
    let place = Place::new();
    let (pg, into) = (place.path("pg"), place.path("into"));
    let sentence = format!(
        "{pg} is not below {into}, and --relative copies both as one: choose a directory for \
        --into that {pg} is below",
        pg = pg.display(),
        into = into.display()
    );
    bindir(&pg, &into).refuses(2, &sentence);
    assert!(!into.exists());
}
