//! Catches panics of caller-supplied code: applications, sources, policies and sinks.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs `work`, and returns the message of a panic in it.
pub(crate) fn caught<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    // Unwind safety: after a panic only counters are read, which are consistent at any moment.
    catch_unwind(AssertUnwindSafe(work)).map_err(panic_message)
}

/// Returns the message of a panic.
pub(crate) fn panic_message(panic: Box<dyn Any + Send>) -> String {
    let message = panic
        .downcast_ref::<&str>()
        .map(|text| String::from(*text))
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| String::from("no message"));
    // The payload may panic when it is dropped, and so may that panic's payload. The third payload
    // is leaked.
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic)))
        && let Err(third) = catch_unwind(AssertUnwindSafe(|| drop(another)))
    {
        std::mem::forget(third);
    }
    message
}
