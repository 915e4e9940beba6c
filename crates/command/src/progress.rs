//! The progress bar on a terminal's stderr. A separate thread draws it from relaxed counters, and
//! hides it while other text is printed.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use flowloom::engine::Control;
use flowloom::traffic::capture::SetProgress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::terminal_text::harmless;

/// Five times per second look smooth and cost little.
const INTERVAL: Duration = Duration::from_millis(200);

/// Work that is done by then has no bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// The bar that is visible at present, if any.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// Writes to stderr while no bar is visible. Before each redraw a bar clears as many lines as it
/// has drawn. It must therefore be hidden first, or it would clear the last lines of other output.
pub fn without_bar<T>(write: impl FnOnce() -> T) -> T {
    let shown = SHOWN.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match shown {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Returns whether the work takes long enough for a bar.
fn is_long(ended: &Receiver<()>) -> bool {
    ended.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout)
}

/// Returns the time that work needs for the rest at its speed so far.
fn time_left(begun: Instant, done: u64, total: u64) -> String {
    if done == 0 {
        return String::new();
    }
    let rest = begun.elapsed().as_secs_f64() * total.saturating_sub(done) as f64 / done as f64;
    match rest {
        0.0..100.0 => format!("  {rest:.0} s left"),
        100.0..6000.0 => format!("  {:.0} min left", rest / 60.0),
        _ => format!("  {:.0} h left", rest / 3600.0),
    }
}

/// Draws a bar until `ended` receives a message. `update` sets its values five times per second.
fn show(bar: &ProgressBar, ended: &Receiver<()>, mut update: impl FnMut(&ProgressBar)) {
    let now_shown = |shown| *SHOWN.lock().unwrap_or_else(PoisonError::into_inner) = shown;
    now_shown(Some(bar.clone()));
    loop {
        update(bar);
        if ended.recv_timeout(INTERVAL) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    bar.finish_and_clear();
    now_shown(None);
}

/// A progress bar, drawn until it is dropped.
#[derive(Debug)]
pub struct Progress {
    /// Dropping the sender ends the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts drawing if stderr is a terminal and `quiet` is not set.
    pub fn start(label: String, set: Arc<SetProgress>, control: Arc<Control>, quiet: bool) -> Self {
        if quiet || !std::io::stderr().is_terminal() {
            return Self { end: None, thread: None };
        }
        let (end, ended) = unbounded();
        let thread = std::thread::Builder::new()
            .name("progress".into())
            .spawn(move || draw(label, &set, &control, &ended))
            .ok();
        Self { end: Some(end), thread }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A bar that cannot be drawn does not fail the run.
            let _ = thread.join();
        }
    }
}

/// Returns a short name of the input.
pub fn label(inputs: &[PathBuf]) -> String {
    let name = inputs.first().map_or(Path::new("-"), |path| path.as_path());
    let name = harmless(&name.file_name().unwrap_or(name.as_os_str()).to_string_lossy());
    if inputs.len() > 1 { format!("{name} and {} more", inputs.len() - 1) } else { name }
}

fn draw(label: String, set: &SetProgress, control: &Control, ended: &Receiver<()>) {
    let begun = Instant::now();
    if !is_long(ended) {
        return;
    }
    let total = set.total_bytes();
    let bar =
        ProgressBar::with_draw_target((total > 0).then_some(total), ProgressDrawTarget::stderr_with_hz(5));
    let template = if total > 0 {
        "{prefix}  {wide_bar}  {percent:>3} %  {msg}"
    } else {
        "{prefix}  {spinner}  {binary_bytes}  {msg}"
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("━╸ "));
    }
    bar.set_prefix(label);
    let mut before = (begun, 0);
    show(&bar, ended, |bar| {
        let now = (Instant::now(), control.packets());
        let rate = (now.1 - before.1) as f64 / (now.0 - before.0).as_secs_f64();
        before = now;
        bar.set_position(set.done_bytes());
        let rest = if total > 0 {
            time_left(begun, set.done_bytes(), total)
        } else {
            format!(
                "  {}  {:.0} s",
                crate::render::numbers::counted(now.1, "packet"),
                begun.elapsed().as_secs_f64()
            )
        };
        bar.set_message(format!("{}packets/s{rest}", crate::render::numbers::scaled(rate)));
    });
}

/// A bar for steps that threads count.
#[derive(Debug)]
pub struct Steps {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Steps {
    /// Starts drawing if stderr is a terminal and `quiet` is not set.
    pub fn start(label: &'static str, total: u64, done: Arc<AtomicU64>, quiet: bool) -> Self {
        if quiet || !std::io::stderr().is_terminal() {
            return Self { end: None, thread: None };
        }
        let (end, ended) = unbounded();
        let draw = move || {
            let begun = Instant::now();
            if !is_long(&ended) {
                return;
            }
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(5));
            if let Ok(style) = ProgressStyle::with_template("{prefix}  {wide_bar}  {percent:>3} %  {msg}") {
                bar.set_style(style.progress_chars("━╸ "));
            }
            bar.set_prefix(label);
            show(&bar, &ended, |bar| {
                let done = done.load(Ordering::Relaxed);
                bar.set_position(done);
                let rate = done as f64 / begun.elapsed().as_secs_f64();
                bar.set_message(format!(
                    "{}/s{}",
                    crate::render::numbers::scaled(rate).trim(),
                    time_left(begun, done, total)
                ));
            });
        };
        let thread = std::thread::Builder::new().name("progress".into()).spawn(draw).ok();
        Self { end: Some(end), thread }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A bar that cannot be drawn does not fail the run.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use indicatif::TermLike;

    use super::*;

    /// The events of a terminal that is forty columns wide, in this order.
    #[derive(Clone, Debug, Default)]
    struct Terminal(Arc<Mutex<Vec<String>>>);

    impl Terminal {
        fn note(&self, what: impl Into<String>) {
            self.0.lock().unwrap().push(what.into());
        }
    }

    impl TermLike for Terminal {
        fn width(&self) -> u16 {
            40
        }

        fn move_cursor_up(&self, lines: usize) -> std::io::Result<()> {
            self.note(format!("up {lines}"));
            Ok(())
        }

        fn move_cursor_down(&self, lines: usize) -> std::io::Result<()> {
            self.note(format!("down {lines}"));
            Ok(())
        }

        fn move_cursor_right(&self, columns: usize) -> std::io::Result<()> {
            self.note(format!("right {columns}"));
            Ok(())
        }

        fn move_cursor_left(&self, columns: usize) -> std::io::Result<()> {
            self.note(format!("left {columns}"));
            Ok(())
        }

        fn write_line(&self, text: &str) -> std::io::Result<()> {
            self.note(text);
            Ok(())
        }

        fn write_str(&self, text: &str) -> std::io::Result<()> {
            self.note(text);
            Ok(())
        }

        fn clear_line(&self) -> std::io::Result<()> {
            self.note("clear");
            Ok(())
        }

        fn flush(&self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn message_replaces_the_bar_which_moves_below_it() {
        let terminal = Terminal::default();
        let target = ProgressDrawTarget::term_like(Box::new(terminal.clone()));
        let bar = ProgressBar::with_draw_target(Some(10), target);
        bar.set_style(ProgressStyle::with_template("{prefix} of two lines").unwrap());
        bar.set_prefix("a bar of more columns than the terminal");
        let (end, ended) = unbounded();
        let mut turns = 0;
        show(&bar, &ended, |bar| {
            bar.tick();
            turns += 1;
            match turns {
                1 => without_bar(|| terminal.note("said")),
                _ => end.send(()).unwrap(),
            }
        });
        let happened = terminal.0.lock().unwrap().clone();
        let said = happened.iter().position(|what| what == "said").unwrap();
        let drawn = |part: &[String]| part.iter().any(|what| what.contains("a bar"));
        let cleared = happened[..said].iter().rev().take_while(|what| !what.contains("a bar"));
        assert_eq!(cleared.filter(|what| *what == "clear").count(), 2, "both lines: {happened:?}");
        assert!(drawn(&happened[..said]) && drawn(&happened[said..]), "before and behind: {happened:?}");
        without_bar(|| terminal.note("the end"));
        assert_eq!(terminal.0.lock().unwrap().len(), happened.len() + 1, "no bar is shown any more");
    }
}
