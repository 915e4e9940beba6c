//! The results of `simulate`, a file each.

pub(crate) mod tcb_cache;
