//! Components for measuring the packet path.
//!
//! | module | holds |
//! | --- | --- |
//! | [`input`] | the capture that is worked on: given, unpacked or generated |
//! | [`looped`] | a capture without end, cut into rounds of the same packets |
//! | [`walk`] | the packet path up to the hash, and the copy it is held against |
//! | [`hand`] | the whole path as a loop written by hand, which the engine is held against |
//! | [`open_loop`] | packets that are due at fixed times, and how late each is dealt with |

pub mod hand;
pub mod input;
pub mod looped;
pub mod open_loop;
pub mod walk;
