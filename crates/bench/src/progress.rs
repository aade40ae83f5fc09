//! A bar on a terminal that shows how far a run is, from its start to its end. It is drawn between
//! samples only, so that it costs them nothing. Elsewhere nothing is written.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::model::Report;
use crate::options::Output;

const LOOK: &str = "{bar:20} {pos}/{len} runs  {eta} left  {wide_msg}";
/// The look before it is known how many runs there will be.
const EARLY_LOOK: &str = "{elapsed}  {wide_msg}";

/// Returns a bar on standard error, if that is a terminal, which shows at once that the run begins.
pub fn bar(options: &Output) -> ProgressBar {
    if options.no_progress {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
    bar.set_style(style(EARLY_LOOK));
    bar.set_message("preparing");
    bar.tick();
    bar
}

/// Shows that so many rounds are done of so many that will probably be.
pub fn plan(bar: &ProgressBar, report: &Report, done: u32, rounds: u32) {
    if done == 0 {
        bar.set_style(style(LOOK));
        bar.reset_eta();
    }
    let runs = report.cases.len() as u64 * report.variants.len() as u64;
    bar.set_length(runs * u64::from(rounds));
    bar.set_position(runs * u64::from(done));
}

fn style(look: &str) -> ProgressStyle {
    ProgressStyle::with_template(look).expect("the template is well formed")
}
