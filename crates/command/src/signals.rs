//! Signals: the first stops the run with a balanced result, the second ends the process at once.
//!
//! One thread handles the signals from the start of the process; in `bridge`, after the process has
//! given up its privileges, because a thread keeps those with which it started. A verb that can
//! stop with a result attaches its [`Control`]. Without one, the first signal ends the process. In
//! either case the output files end after whole records.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use flowloom::engine::Control;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGXFSZ};
use signal_hook::iterator::{Handle, Signals};

use crate::exit::Status;
use crate::output::abandon_all;
use crate::render::{counted, say, say_error};

/// Signals within this time after the first are the same interrupt: `timeout` and shells signal a
/// process and then its group.
const ONE_INTERRUPT: Duration = Duration::from_millis(500);

/// A request by signal, other than to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// SIGHUP: reload the rules.
    Reload,
    /// SIGUSR1: print the progress of the run.
    Report,
}

/// How long an interrupt waits for a run that is being set up, so that it ends with a result.
const SET_UP_PATIENCE: Duration = Duration::from_secs(1);

/// What the thread does with signals.
struct Handling {
    /// The runs that the first interrupt stops; a verb may have several, one after another.
    controls: Vec<Arc<Control>>,
    /// Receives other requests. It must not block, because the thread must notice a second
    /// interrupt.
    requests: Option<Box<dyn FnMut(Request) + Send>>,
    reloads: bool,
    /// A run will be attached, unless its set-up fails.
    expects_run: bool,
    /// Registers further signals; `None` where no signal can be handled.
    more: Option<Handle>,
    first: Option<Instant>,
}

static HANDLING: Mutex<Handling> = Mutex::new(Handling {
    controls: Vec::new(),
    requests: None,
    reloads: false,
    expects_run: false,
    more: None,
    first: None,
});

fn handling() -> MutexGuard<'static, Handling> {
    HANDLING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Starts the thread that handles the signals that end a process, unless it runs. A verb
/// `expects_run` if it will attach one.
pub fn start(expects_run: bool) {
    if handling().more.is_some() {
        return;
    }
    let mut ends = vec![SIGINT, SIGTERM];
    // With `nohup`, the parent process has chosen to ignore it.
    if !is_ignored(SIGHUP) {
        ends.push(SIGHUP);
    }
    // Signals that cannot be registered keep their default action: they end the process.
    let Ok(mut signals) = Signals::new(ends) else { return };
    {
        let mut handling = handling();
        handling.more = Some(signals.handle());
        handling.expects_run = expects_run;
    }
    let listen = move || {
        for signal in signals.forever() {
            let mut handling = handling();
            let Handling { controls, requests, reloads, expects_run, first, .. } = &mut *handling;
            match (signal, requests) {
                (SIGUSR1, Some(requests)) => requests(Request::Report),
                (SIGHUP, Some(requests)) if *reloads => requests(Request::Reload),
                (SIGUSR1, None) => {}
                _ if controls.is_empty() && *expects_run && first.is_none() => {
                    // The run stops when it is attached.
                    *first = Some(Instant::now());
                    drop(handling);
                    await_run();
                }
                _ => handling.interrupt(),
            }
        }
    };
    // Without the thread, an interrupt would have no effect, and only SIGKILL could end the
    // process.
    if let Err(error) = std::thread::Builder::new().name("signals".into()).spawn(listen) {
        say_error(&format!("cannot start a thread: {error}"), Status::Usage);
        std::process::exit(Status::Usage as i32);
    }
}

/// Makes the first interrupt stop a run. An earlier interrupt stops it at once.
pub fn stop_on_signals(control: &Arc<Control>) {
    start(true);
    let mut handling = handling();
    handling.controls.push(Arc::clone(control));
    if handling.first.is_some() {
        control.stop();
    }
}

/// Does the same, and passes other requests on. SIGHUP stops the run unless it `reloads`.
///
/// `hand_on` runs on the thread that must notice a second interrupt, so it must not block.
pub fn handle_signals(
    control: &Arc<Control>,
    reloads: bool,
    hand_on: impl FnMut(Request) + Send + 'static,
) {
    stop_on_signals(control);
    let mut handling = handling();
    handling.requests = Some(Box::new(hand_on));
    handling.reloads = reloads;
    if let Some(more) = &handling.more {
        // As in `start`.
        let _ = more.add_signal(SIGUSR1);
        if reloads {
            let _ = more.add_signal(SIGHUP);
        }
    }
}

impl Handling {
    fn interrupt(&mut self) {
        match self.first {
            _ if self.controls.is_empty() => end(&[]),
            None => {
                self.first = Some(Instant::now());
                self.controls.iter().for_each(|control| control.stop());
            }
            Some(first) if first.elapsed() < ONE_INTERRUPT => {}
            Some(_) => end(&self.controls),
        }
    }
}

/// Waits for the run that is being set up. Ends the process if that takes too long.
fn await_run() {
    let until = Instant::now() + SET_UP_PATIENCE;
    while handling().controls.is_empty() {
        if Instant::now() > until {
            end(&[]);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Reports the state of each output file and ends the process.
fn end(controls: &[Arc<Control>]) -> ! {
    let (lines, written) = abandon_all();
    if let Some(begun) = controls.iter().map(|control| control.snapshot().flows_begun).max() {
        let lost = match begun.saturating_sub(written) {
            0 => String::new(),
            flows => format!(", with the records of {}", counted(flows, "flow")),
        };
        say(&format!("interrupted a second time: the result is lost{lost}"));
    }
    for line in lines {
        say(&line);
    }
    std::process::exit(Status::Interrupted as i32);
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
pub fn outlive_full_files() {
    // If the handler cannot be registered, the signal keeps its default action.
    let _ = signal_hook::flag::register(SIGXFSZ, Arc::default());
}

/// Makes a capture that is truncated while it is mapped end there, with a notice, instead of ending
/// the process.
pub fn outlive_cut_captures() {
    // If the handler cannot be registered, the signal keeps its default action.
    let _ = flowloom::traffic::capture::guard_against_truncation();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interrupt_stops_every_run_and_an_immediate_repeat_is_ignored() {
        let controls: Vec<Arc<Control>> = (0..2).map(|_| Arc::default()).collect();
        let mut handling = Handling {
            controls: controls.clone(),
            requests: None,
            reloads: false,
            expects_run: true,
            more: None,
            first: None,
        };
        handling.interrupt();
        assert!(controls.iter().all(|control| control.is_stopped()));
        // A second interrupt would end this process.
        handling.interrupt();
    }
}
