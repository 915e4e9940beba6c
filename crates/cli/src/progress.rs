//! The progress bar: on a terminal's stderr, drawn by a thread of its own from relaxed counters.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, unbounded};
use flowloom::engine::Control;
use flowloom::traffic::capture::SetProgress;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::render::harmless;

/// Five times a second: often enough to see it move, too rare to disturb.
const INTERVAL: Duration = Duration::from_millis(200);

/// A progress bar that is drawn until it is dropped.
#[derive(Debug)]
pub(crate) struct Progress {
    /// Closing it ends the thread.
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Progress {
    /// Starts drawing, if stderr is a terminal and `quiet` is not asked for.
    pub(crate) fn start(label: String, set: Arc<SetProgress>, control: Arc<Control>, quiet: bool) -> Self {
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
            // A bar that could not be drawn is no reason to fail.
            let _ = thread.join();
        }
    }
}

/// Returns a short name for what is read.
pub(crate) fn label(inputs: &[PathBuf]) -> String {
    let name = inputs.first().map_or(Path::new("-"), |path| path.as_path());
    let name = harmless(&name.file_name().unwrap_or(name.as_os_str()).to_string_lossy());
    if inputs.len() > 1 { format!("{name} and {} more", inputs.len() - 1) } else { name }
}

fn draw(label: String, set: &SetProgress, control: &Control, ended: &Receiver<()>) {
    let total = set.total_bytes();
    let bar =
        ProgressBar::with_draw_target((total > 0).then_some(total), ProgressDrawTarget::stderr_with_hz(5));
    let template = if total > 0 {
        "{prefix}  {bar:30}  {percent:>3} %  {msg}  {eta}"
    } else {
        "{prefix}  {spinner}  {bytes}  {msg}  {elapsed}"
    };
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("━╸ "));
    }
    bar.set_prefix(label);
    let mut before = (Instant::now(), 0_u64);
    while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
        let now = (Instant::now(), control.packets());
        let rate = (now.1 - before.1) as f64 / (now.0 - before.0).as_secs_f64() / 1e6;
        before = now;
        bar.set_position(set.done_bytes());
        bar.set_message(format!("{rate:.1} Mpps  {}", crate::render::counted(now.1, "packet")));
    }
    bar.finish_and_clear();
}

/// A bar over steps that threads count off.
#[derive(Debug)]
pub(crate) struct Steps {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Steps {
    /// Starts drawing, if stderr is a terminal and `quiet` is not asked for.
    pub(crate) fn start(label: &'static str, total: u64, done: Arc<AtomicU64>, quiet: bool) -> Self {
        if quiet || !std::io::stderr().is_terminal() {
            return Self { end: None, thread: None };
        }
        let (end, ended) = unbounded();
        let draw = move || {
            let bar = ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr_with_hz(5));
            if let Ok(style) =
                ProgressStyle::with_template("{prefix}  {bar:30}  {pos} of {len}  {eta} left")
            {
                bar.set_style(style.progress_chars("━╸ "));
            }
            bar.set_prefix(label);
            while ended.recv_timeout(INTERVAL) == Err(RecvTimeoutError::Timeout) {
                bar.set_position(done.load(Ordering::Relaxed));
            }
            bar.finish_and_clear();
        };
        let thread = std::thread::Builder::new().name("progress".into()).spawn(draw).ok();
        Self { end: Some(end), thread }
    }
}

impl Drop for Steps {
    fn drop(&mut self) {
        drop(self.end.take());
        if let Some(thread) = self.thread.take() {
            // A bar that could not be drawn is no reason to fail.
            let _ = thread.join();
        }
    }
}
