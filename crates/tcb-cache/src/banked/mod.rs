//! Caches of banks, sets and ways: the paper's organisation [TCBCACHE §3.1, Fig. 6].
//!
//! Every bank has its own index function. A session may be in any way of one set per bank; with
//! auxiliary functions, in one more set per bank. A [`Replacement`] selects the victim of a miss.
//! Each policy is in a separate file:
//!
//! | file | victim |
//! | --- | --- |
//! | [`lru`] | the oldest of all candidates; [`fifo`] the one filled first |
//! | [`enru`] | a random one among those not used recently: the paper's *2-hash* |
//! | [`round_robin`], [`access_count`], [`timestamp`] | the alternatives that the paper compares with |
//! | [`fewer_on`] | the oldest of the bank with fewer ON lines: *no-migrate* |
//! | [`speculative`] | the same; a line that is ON is saved by moving one to its auxiliary sets: *spec* |
//! | [`srrip`], [`drrip`], [`ship`] | by predicted re-reference |
//! | [`zcache`] | the oldest among candidates and all lines that theirs could be exchanged with |
//! | [`flow_lru`] | the oldest after one step of relocation; [`flow_lru_coarse`] with eight bits of age |
//! | [`own`] | as a policy of another crate chooses |

pub(crate) mod access_count;
mod cache;
pub(crate) mod drrip;
pub(crate) mod enru;
pub(crate) mod fewer_on;
pub(crate) mod fifo;
pub(crate) mod flow_lru;
pub(crate) mod flow_lru_coarse;
pub(crate) mod lines;
pub(crate) mod lru;
pub(crate) mod miss;
pub(crate) mod own;
pub(crate) mod round_robin;
pub(crate) mod ship;
pub(crate) mod speculative;
pub(crate) mod srrip;
pub(crate) mod timestamp;
pub(crate) mod zcache;

pub(crate) use cache::{Banked, Replacement};
