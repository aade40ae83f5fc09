//! Says what the table of file classes knows of each path on stdin: `path <TAB> row <TAB> class`,
//! one line each. A path that no row names has an empty second column. For tests/file-classes.

#![allow(clippy::print_stdout)]

use pgseal_storage::classify::{classify, Class};
use pgseal_storage::layout::Root;

fn main() -> std::io::Result<()> {
    for path in std::io::stdin().lines() {
        let path = path?;
        let answer = classify(path.as_bytes());
        let row = answer.row.map_or("", |row| row.pattern);
        println!("{path}\t{row}\t{}", name(&answer.class));
    }
    Ok(())
}

fn name(class: &Class) -> &'static str {
    match class {
        Class::Clear => "clear",
        Class::KeyDirectory => "key directory",
        Class::Refused(_) => "refused",
        Class::WalSegment(_) => "wal",
        Class::WalRestored => "restored wal",
        Class::Sealed(spec) if spec.root == Root::Ephemeral => "ephemeral",
        Class::Sealed(_) => "sealed",
    }
}
