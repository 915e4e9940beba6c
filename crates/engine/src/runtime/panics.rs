//! Panics in code of others: applications, sources, policies, sinks.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Does what runs code of others, and returns what a panic in it said.
pub(crate) fn caught<R>(work: impl FnOnce() -> R) -> Result<R, String> {
    // Unwind safety: after a panic nothing is read but counters, which are whole at any moment.
    catch_unwind(AssertUnwindSafe(work)).map_err(panic_message)
}

/// Returns what a panic said.
pub(crate) fn panic_message(panic: Box<dyn Any + Send>) -> String {
    let message = panic
        .downcast_ref::<&str>()
        .map(|text| String::from(*text))
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| String::from("no message"));
    // What it carries may panic when it is dropped, and so may what that carries: then it is left.
    if let Err(another) = catch_unwind(AssertUnwindSafe(|| drop(panic)))
        && let Err(third) = catch_unwind(AssertUnwindSafe(|| drop(another)))
    {
        std::mem::forget(third);
    }
    message
}
