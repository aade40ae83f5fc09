//! The bar on a terminal: how far, how fast, how long still, within 80 columns. Elsewhere nothing
//! is written.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

const LOOK: &str = "{bar:20} {percent:>3}%  {bytes} of {total_bytes}  {bytes_per_sec}  {eta} left";

/// A bar over `total` bytes on standard error.
pub fn bar(total: u64, shown: bool) -> ProgressBar {
    let target = if shown {
        ProgressDrawTarget::stderr()
    } else {
        ProgressDrawTarget::hidden()
    };
    let style = ProgressStyle::with_template(LOOK).expect("the template is well formed");
    ProgressBar::with_draw_target(Some(total), target).with_style(style)
}
