//! Compares one signature with a whole bucket. The only module of this crate with unsafe code.
//!
//! A [`Kernel`] is a loop written once over [`Lanes`], the few operations that differ between
//! instruction sets. [`Backend::run`] enters a function compiled for the instruction set and runs
//! the whole kernel inside it, so that the compare inlines into the loop. A `Lanes` value contains
//! the token that proves its features, so its operations are safe to call.

#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod avx2;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod avx512;
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
mod neon;
mod scalar;
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
mod sse2;

use flowloom_cpu::features::Isa;

#[cfg(feature = "papers")]
use crate::dhash::layout::Bucket;
use crate::linehash::layout::Line;

/// The operations of a back end.
pub(crate) trait Lanes: Copy {
    /// Returns the slots that contain exactly this word: bit j for slot j.
    #[cfg(feature = "papers")]
    fn equal(self, bucket: &Bucket, word: u32) -> u32;

    /// Returns the lanes that contain this signature: bit j for lane j, and no others.
    fn equal_lanes(self, line: &Line, signature: u16) -> u32;

    /// Returns the halves whose top bit is set: bit j for half j, control included.
    fn top_bits(self, line: &Line) -> u32;

    /// Runs a part of a kernel as a separate function, for a loop that needs all registers.
    #[inline(always)]
    fn apart<K: Kernel>(self, kernel: K) -> K::Output {
        kernel.run(self)
    }
}

/// A loop over buckets. `run` must be `#[inline(always)]`, or it is compiled for the wrong
/// processor.
pub(crate) trait Kernel {
    type Output;

    fn run<L: Lanes>(self, lanes: L) -> Self::Output;
}

/// The back end that every processor of this architecture supports.
#[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
pub(crate) type Plain = sse2::Sse2Lanes;
/// The back end that every processor of this architecture supports.
#[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
pub(crate) type Plain = neon::NeonLanes;
/// The back end that every processor of this architecture supports.
#[cfg(not(any(
    all(target_arch = "x86_64", target_feature = "sse2"),
    all(target_arch = "aarch64", target_feature = "neon")
)))]
pub(crate) type Plain = scalar::Scalar;

/// The back end of a table, chosen once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Backend {
    Scalar(scalar::Scalar),
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    Avx2(avx2::Avx2Lanes),
    #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
    Avx512(avx512::Avx512Lanes),
    #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
    Neon(neon::NeonLanes),
}

impl Backend {
    /// Returns the back end of an instruction set, or `None` if this processor does not support it.
    ///
    /// SSE4.2 has no separate back end: the compiler's code for the scalar one is as good.
    pub(crate) fn new(isa: Isa) -> Option<Self> {
        match isa {
            Isa::Scalar => Some(Self::Scalar(scalar::Scalar)),
            Isa::Sse42 => isa.is_available().then_some(Self::Scalar(scalar::Scalar)),
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Isa::Avx2 => avx2::Avx2Lanes::detect().map(Self::Avx2),
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Isa::Avx512 => avx512::Avx512Lanes::detect().map(Self::Avx512),
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Isa::Neon => neon::NeonLanes::detect().map(Self::Neon),
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Isa::Neon => None,
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Isa::Avx2 | Isa::Avx512 => None,
            #[cfg(not(any(
                all(target_arch = "x86_64", target_feature = "sse2"),
                all(target_arch = "aarch64", target_feature = "neon")
            )))]
            Isa::Avx2 | Isa::Avx512 | Isa::Neon => None,
            // An instruction set that `cpu` knows but for which there is no back end yet.
            _ => None,
        }
    }

    /// Runs a kernel for one key with the baseline instruction set, so that the kernel inlines at
    /// the call.
    #[inline(always)]
    pub(crate) fn run_one<K: Kernel>(self, kernel: K) -> K::Output {
        match self {
            // A caller that forces the scalar back end on a better processor pays for a call:
            // inlined, its loops would mix with the few instructions of the other back ends.
            #[cfg(any(
                all(target_arch = "x86_64", target_feature = "sse2"),
                all(target_arch = "aarch64", target_feature = "neon")
            ))]
            Self::Scalar(lanes) => aside(lanes, kernel),
            #[cfg(not(any(
                all(target_arch = "x86_64", target_feature = "sse2"),
                all(target_arch = "aarch64", target_feature = "neon")
            )))]
            Self::Scalar(lanes) => kernel.run(lanes),
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Self::Avx2(_) | Self::Avx512(_) => kernel.run(sse2::Sse2Lanes),
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Self::Neon(lanes) => kernel.run(lanes),
        }
    }

    /// Returns the baseline back end for single operations, which inline at their call; `None` if
    /// the caller forced the scalar back end on a better processor. Rare steps of single operations
    /// are separate functions and not part of this path.
    #[inline(always)]
    pub(crate) fn plain(self) -> Option<Plain> {
        match self {
            #[cfg(any(
                all(target_arch = "x86_64", target_feature = "sse2"),
                all(target_arch = "aarch64", target_feature = "neon")
            ))]
            Self::Scalar(_) => None,
            #[cfg(not(any(
                all(target_arch = "x86_64", target_feature = "sse2"),
                all(target_arch = "aarch64", target_feature = "neon")
            )))]
            Self::Scalar(lanes) => Some(lanes),
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Self::Avx2(_) | Self::Avx512(_) => Some(sse2::Sse2Lanes),
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Self::Neon(lanes) => Some(lanes),
        }
    }

    /// Runs a kernel, compiled for this back end.
    #[inline(always)]
    pub(crate) fn run<K: Kernel>(self, kernel: K) -> K::Output {
        match self {
            Self::Scalar(lanes) => kernel.run(lanes),
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Self::Avx2(lanes) => avx2::run(lanes, kernel),
            #[cfg(all(target_arch = "x86_64", target_feature = "sse2"))]
            Self::Avx512(lanes) => avx512::run(lanes, kernel),
            #[cfg(all(target_arch = "aarch64", target_feature = "neon"))]
            Self::Neon(lanes) => neon::run(lanes, kernel),
        }
    }
}

/// Runs a kernel as a separate function.
#[cfg(any(
    all(target_arch = "x86_64", target_feature = "sse2"),
    all(target_arch = "aarch64", target_feature = "neon")
))]
#[inline(never)]
fn aside<K: Kernel>(lanes: scalar::Scalar, kernel: K) -> K::Output {
    kernel.run(lanes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linehash::layout::ALL_LANES;
    use flowloom_flow_key::hash::fold::split_mix;

    struct Equal<'a>(&'a Bucket, u32);

    impl Kernel for Equal<'_> {
        type Output = u32;

        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) -> u32 {
            lanes.equal(self.0, self.1)
        }
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "any bits of a random word will do")]
    fn every_back_end_computes_what_the_scalar_one_defines() {
        let scalar = Backend::new(Isa::Scalar).unwrap();
        for isa in Isa::available() {
            let backend = Backend::new(isa).expect("available");
            let mut state = 7;
            for round in 0..500 {
                // Few different words, so that many lanes are equal; zero is among them.
                let mut bucket = Bucket::default();
                for slot in &mut bucket.0 {
                    *slot = (split_mix(&mut state) as u32 & 3).wrapping_mul(0x8000_0001);
                }
                for word in [0, 0x8000_0001, 2, 0x8000_0003, u32::MAX] {
                    let expected = scalar.run(Equal(&bucket, word));
                    let found = [backend.run(Equal(&bucket, word)), backend.run_one(Equal(&bucket, word))];
                    assert_eq!(found, [expected; 2], "{isa} {round} {bucket:?} {word:#x}");
                }
            }
        }
    }

    struct EqualLanes<'a>(&'a Line, u16);

    impl Kernel for EqualLanes<'_> {
        type Output = u32;

        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) -> u32 {
            lanes.equal_lanes(self.0, self.1)
        }
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "any bits of a random word will do")]
    fn every_back_end_compares_lanes_alike() {
        let scalar = Backend::new(Isa::Scalar).unwrap();
        for isa in Isa::available() {
            let backend = Backend::new(isa).expect("available");
            let mut state = 9;
            for round in 0..500 {
                let mut line = Line::default();
                for half in &mut line.0 {
                    *half = (split_mix(&mut state) as u16 & 3).wrapping_mul(0x8001);
                }
                for half in [0, 0x8001, 2, 0x8003, u16::MAX] {
                    let expected = scalar.run(EqualLanes(&line, half));
                    let found =
                        [backend.run(EqualLanes(&line, half)), backend.run_one(EqualLanes(&line, half))];
                    assert_eq!(found, [expected; 2], "{isa} {round} {line:?} {half:#x}");
                }
            }
            for lane in 0..32 {
                let mut line = Line::default();
                line.0[lane] = 0xFFFF;
                // The halves of the filter are not lanes.
                assert_eq!(backend.run(EqualLanes(&line, 0xFFFF)), ALL_LANES & 1 << lane, "{isa}");
                assert_eq!(backend.run(EqualLanes(&line, 0)), ALL_LANES & !(1 << lane), "{isa}");
            }
        }
    }

    struct TopBits<'a>(&'a Line);

    impl Kernel for TopBits<'_> {
        type Output = u32;

        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) -> u32 {
            lanes.top_bits(self.0)
        }
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, reason = "any bits of a random word will do")]
    fn every_back_end_gives_the_same_top_bits() {
        let scalar = Backend::new(Isa::Scalar).unwrap();
        for isa in Isa::available() {
            let backend = Backend::new(isa).expect("available");
            let mut state = 5;
            for round in 0..500 {
                let mut line = Line::default();
                for half in &mut line.0 {
                    // Zeros, small and large numbers, and the ends of both ranges.
                    let word = split_mix(&mut state);
                    *half = [0, 0x7FFF, 0x8000, 0xFFFF, word as u16, 1][(word >> 32) as usize % 6];
                }
                let expected = scalar.run(TopBits(&line));
                let found = [backend.run(TopBits(&line)), backend.run_one(TopBits(&line))];
                assert_eq!(found, [expected; 2], "{isa} {round} {line:?}");
            }
            for lane in 0..32 {
                let mut line = Line::default();
                line.0[lane] = 0x8000;
                assert_eq!(backend.run_one(TopBits(&line)), 1 << lane, "{isa}");
            }
        }
    }

    #[test]
    fn each_lane_answers_for_its_own_slot() {
        for isa in Isa::available() {
            let backend = Backend::new(isa).expect("available");
            for slot in 0..16 {
                let mut bucket = Bucket::default();
                bucket.0[slot] = 0xFFFF_FFFF;
                assert_eq!(backend.run(Equal(&bucket, 0xFFFF_FFFF)), 1 << slot, "{isa}");
                assert_eq!(backend.run(Equal(&bucket, 0)), 0xFFFF ^ (1 << slot), "{isa}");
            }
        }
    }

    #[test]
    fn missing_instruction_sets_have_no_backend() {
        for isa in Isa::ALL {
            assert_eq!(Backend::new(isa).is_some(), isa.is_available(), "{isa}");
        }
    }
}
