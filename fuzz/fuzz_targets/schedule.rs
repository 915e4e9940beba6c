//! Arbitrary topology from arbitrary text; any scheduler, over workers and queues that the bytes
//! control.

#![no_main]

use flowloom_scheduler::registry::Policy;
use flowloom_scheduler::registry::Scheme;
use flowloom_scheduler::{Topology, laws};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, u8, &[u8])| {
    let (text, which, bytes) = input;
    let topology: Topology = text.parse().unwrap_or_else(|_| "2x2,-0".parse().expect("a sound topology"));
    if topology.workers().get() > 64 {
        return; // The same number of decisions, but slower.
    }
    let scheme = Scheme::ALL[usize::from(which) % Scheme::ALL.len()];
    match scheme.policy(&topology, 1).expect("its own sizes are sound") {
        Policy::Push(mut policy) => {
            let mut words = bytes.chunks(8).cycle();
            let mut count = 0_u64;
            let mut draw = || {
                // The bytes are repeated, with different values in each round.
                let mut word = [0; 8];
                let chunk = words.next().unwrap_or_default();
                word[..chunk.len()].copy_from_slice(chunk);
                count += 1;
                u64::from_le_bytes(word).wrapping_add(count.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 20)
            };
            let broken = laws::order_broken(&mut *policy, topology.workers(), &mut draw);
            assert!(
                broken == 0 || !policy.order().keeps_flow_order(),
                "{} broke its guarantee",
                policy.name()
            );
        }
        Policy::Pull(mut policy) => {
            let seed = bytes.iter().fold(0_u64, |seed, &byte| seed.rotate_left(7) ^ u64::from(byte));
            laws::check_pull(&mut *policy, topology.workers(), seed);
        }
    }
});
