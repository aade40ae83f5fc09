//! How far a run is: a bar on a terminal, one line a round elsewhere. Drawn between samples only,
//! so that it costs them nothing.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::model::Report;
use crate::options::Output;

const LOOK: &str = "{bar:20} {pos}/{len} runs  {eta} left  {wide_msg}";

/// On standard error, if that is a terminal.
pub fn bar() -> ProgressBar {
    let style = ProgressStyle::with_template(LOOK).expect("the template is well formed");
    ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr()).with_style(style)
}

/// So many rounds are done of so many that will probably be.
pub fn plan(bar: &ProgressBar, report: &Report, done: u32, rounds: u32) {
    let runs = report.cases.len() as u64 * report.variants.len() as u64;
    bar.set_length(runs * u64::from(rounds));
    bar.set_position(runs * u64::from(done));
}

/// Where there is no bar.
pub fn line(options: &Output, done: u32, elapsed: Duration) {
    if !options.no_progress && !io::stderr().is_terminal() {
        // A run does not end because nobody watches it.
        let _ = writeln!(
            io::stderr(),
            "round {done} done after {} s",
            elapsed.as_secs()
        );
    }
}
