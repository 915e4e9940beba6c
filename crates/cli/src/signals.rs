//! Ctrl-C: once to stop with a balanced result, twice to leave at once.

use std::sync::Arc;

use flowloom::engine::Control;

use crate::exit::Status;

/// Stops the run at the first signal, and the process at the second.
pub(crate) fn stop_on_signals(control: &Arc<Control>) {
    let control = Arc::clone(control);
    // Fails only when a handler is set already; then that one stops the process.
    let _ = ctrlc::set_handler(move || {
        if control.is_stopped() {
            std::process::exit(Status::Interrupted as i32);
        }
        control.stop();
    });
}
