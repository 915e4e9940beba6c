//! Signals: the first stops the run with a balanced result, the second ends the process at once.

use std::sync::Arc;

use flowloom::engine::Control;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::exit::Status;
use crate::render::say_error;

/// A request by signal, other than to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// SIGHUP: reload the rules.
    Reload,
    /// SIGUSR1: print the progress of the run.
    Report,
}

/// Stops the run at the first signal, and the process at the second.
pub(crate) fn stop_on_signals(control: &Arc<Control>) {
    let control_too = Arc::clone(control);
    handle(control, &ends(), move |_| stop(&control_too));
}

/// Does the same, and passes other requests on. SIGHUP stops the run unless it `reloads`.
///
/// `hand_on` runs on the thread that must notice a second interrupt, so it must not block.
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

/// Returns the signals that end a run. SIGHUP is not one of them if the parent process ignores it,
/// as `nohup` does.
fn ends() -> Vec<i32> {
    let mut signals = vec![SIGINT, SIGTERM];
    if !is_ignored(SIGHUP) {
        signals.push(SIGHUP);
    }
    signals
}

/// Returns whether a signal is ignored, on systems that report it in a file.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let bits = ignored.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok());
    bits.is_some_and(|bits| bits >> (signal - 1) & 1 == 1)
}

/// Makes a write beyond the limit of the file size fail with an error, which has an exit status,
/// instead of ending the process.
pub(crate) fn outlive_full_files() {
    // If the handler cannot be registered, the signal keeps its default action.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Makes a capture that is truncated while it is mapped end there, with a notice, instead of ending
/// the process.
pub(crate) fn outlive_cut_captures() {
    // If the handler cannot be registered, the signal keeps its default action.
    let _ = flowloom::traffic::capture::guard_against_truncation();
}

fn stop(control: &Control) {
    if control.is_stopped() {
        std::process::exit(Status::Interrupted as i32);
    }
    control.stop();
}

fn handle(control: &Arc<Control>, signals: &[i32], mut other: impl FnMut(i32) + Send + 'static) {
    // A signal that cannot be registered keeps its default action: it ends the process.
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
    // Without the thread, a first interrupt would have no effect, and only SIGKILL could end the
    // process.
    if let Err(error) = std::thread::Builder::new().name("signals".into()).spawn(listen) {
        say_error(&format!("cannot start a thread: {error}"), Status::Usage);
        std::process::exit(Status::Usage as i32);
    }
}
