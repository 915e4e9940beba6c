//! Signals: once to stop with a balanced result, twice to leave at once.

use std::sync::Arc;

use flowloom::engine::Control;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::exit::Status;
use crate::render::say_error;

/// What a signal asks for, beside to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// SIGHUP: load the rules again.
    Reload,
    /// SIGUSR1: say how far the run is.
    Report,
}

/// Stops the run at the first signal, and the process at the second.
pub(crate) fn stop_on_signals(control: &Arc<Control>) {
    let control_too = Arc::clone(control);
    handle(control, &ends(), move |_| stop(&control_too));
}

/// Does the same, and hands on what else signals ask for; SIGHUP stops unless it is `reloads`.
///
/// `hand_on` is called on the thread that a second interrupt needs: it must not wait for anything.
pub(crate) fn handle_signals(
    control: &Arc<Control>,
    reloads: bool,
    hand_on: impl FnMut(Request) + Send + 'static,
) {
    let mut hand_on = hand_on;
    let control_too = Arc::clone(control);
    let mut signals = if reloads { vec![SIGINT, SIGTERM, SIGHUP] } else { ends() };
    signals.push(SIGUSR1);
    handle(control, &signals, move |signal| match signal {
        SIGUSR1 => hand_on(Request::Report),
        SIGHUP if reloads => hand_on(Request::Reload),
        _ => stop(&control_too),
    });
}

/// Returns the signals that end a run. A hang-up is none of them where the parent process has it
/// ignored, as `nohup` does.
fn ends() -> Vec<i32> {
    let mut signals = vec![SIGINT, SIGTERM];
    if !is_ignored(SIGHUP) {
        signals.push(SIGHUP);
    }
    signals
}

/// Says whether a signal is ignored, where the system has a file that says so.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let bits = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> (signal - 1) & 1 == 1)
}

/// Lets a file that grows past the limit of its size be an error of writing, which has its status,
/// and not the end of the process.
pub(crate) fn outlive_full_files() {
    // Where it cannot be registered the signal keeps its meaning.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Lets a capture that is cut short while it is mapped end there, with a notice, instead of ending
/// the process.
pub(crate) fn outlive_cut_captures() {
    // Where it cannot be registered the signal keeps its meaning.
    let _ = flowloom::traffic::capture::guard_against_truncation();
}

fn stop(control: &Control) {
    if control.is_stopped() {
        std::process::exit(Status::Interrupted as i32);
    }
    control.stop();
}

fn handle(control: &Arc<Control>, signals: &[i32], mut other: impl FnMut(i32) + Send + 'static) {
    // What cannot be registered keeps its meaning: the signal ends the process.
    let Ok(mut signals) = Signals::new(signals) else { return };
    let control = Arc::clone(control);
    let listen = move || {
        for signal in signals.forever() {
            match signal {
                SIGINT | SIGTERM => stop(&control),
                signal => other(signal),
            }
        }
    };
    // Without the thread a first interrupt would do nothing, and the process could only be killed.
    if let Err(error) = std::thread::Builder::new().name("signals".into()).spawn(listen) {
        say_error(&format!("cannot start a thread: {error}"), Status::Usage);
        std::process::exit(Status::Usage as i32);
    }
}
