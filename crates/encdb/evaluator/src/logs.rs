//! `pgseal-evaluator log verify`.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;

use pgseal_evaluator::audit::{self, hex, Broken, Head};

/// Verifies each log by itself, that each begins where the one before it ended, and that the last
/// ends with `head`, if one is given. Prints a line for each.
pub fn verify(files: &[PathBuf], head: Option<&str>) -> Result<(), String> {
    let mut last: Option<Head> = None;
    for file in files {
        let name = file.display();
        let log = File::open(file).map_err(|error| format!("{name}: {error}"))?;
        let found = match audit::verify(BufReader::new(log)) {
            Err(Broken::Empty) => {
                println!("{name}: no record: the evaluator was killed before it wrote one");
                continue;
            }
            found => found.map_err(|why| format!("{name}: {why}"))?,
        };
        if last.is_some() && found.previous != last {
            return Err(format!(
                "{name}: it does not begin where the log before it ended: one is missing"
            ));
        }
        let torn = if found.torn {
            ", and a torn line: the evaluator was killed there"
        } else {
            ""
        };
        println!(
            "{name}: {} records, head {}{torn}",
            found.records,
            hex(&found.head)
        );
        last = Some(found.head);
    }
    match (head, last) {
        (Some(head), Some(last)) if !head.eq_ignore_ascii_case(&hex(&last)) => Err(
            "the last record is another than the one with this head: records are missing".into(),
        ),
        (Some(_), None) => Err("no record is left, and not that with this head".into()),
        _ => Ok(()),
    }
}
