//! Progress of a batch on a terminal.

use std::sync::Mutex;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::engine::Progress;

/// A bar on standard error; nothing where that is no terminal.
pub struct Bar {
    bar: Mutex<ProgressBar>,
    terminal: bool,
}

impl Bar {
    /// Draws only if `terminal`.
    pub fn new(terminal: bool) -> Self {
        Self { bar: Mutex::new(ProgressBar::hidden()), terminal }
    }
}

impl Progress for Bar {
    fn begin(&self, phase: &str, total: u64) {
        let Ok(mut bar) = self.bar.lock() else { return };
        bar.finish_and_clear();
        if !self.terminal {
            return;
        }
        let fresh = match total {
            0 => ProgressBar::no_length(),
            total => ProgressBar::new(total),
        };
        fresh.set_draw_target(ProgressDrawTarget::stderr());
        let template =
            if total == 0 { "{spinner} {msg} {human_pos}" } else { "{msg} {wide_bar} {human_pos}/{human_len}" };
        if let Ok(style) = ProgressStyle::with_template(template) {
            fresh.set_style(style);
        }
        fresh.set_message(phase.to_owned());
        *bar = fresh;
    }

    fn advance(&self, by: u64) {
        if let Ok(bar) = self.bar.lock() {
            bar.inc(by);
        }
    }

    fn end(&self) {
        if let Ok(bar) = self.bar.lock() {
            bar.finish_and_clear();
        }
    }
}
