//! The traces in the repository, by name.

use super::{FrameSize, Generate, Mix, MixConfig, MixError, PaperTrace, PaperTraceError};

/// The generator of a sample.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Recipe {
    /// A mixture.
    Mix(MixConfig),
    /// The paper's pattern.
    Paper {
        /// Number of sessions.
        sessions: u64,
        /// Seed of their endpoints.
        seed: u64,
    },
}

/// A trace in the repository: its name, its generator, and how much of each packet is kept.
///
/// The file is a classic pcap file with nanoseconds, little-endian, Ethernet:
/// [`PcapOptions::default`](crate::write::PcapOptions) except for the snap length.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Sample {
    /// The name. The file is `<name>.pcap`.
    pub name: &'static str,
    /// Its purpose.
    pub about: &'static str,
    /// Its generator.
    pub recipe: Recipe,
    /// Number of bytes kept of each packet.
    pub snaplen_bytes: u32,
}

impl Sample {
    /// Returns every sample.
    pub fn all() -> Vec<Self> {
        vec![campus(), paper_file_mini()]
    }

    /// Returns the sample with a name.
    pub fn named(name: &str) -> Option<Self> {
        Self::all().into_iter().find(|sample| sample.name == name)
    }

    /// Returns the generator of its packets.
    pub fn generator(&self) -> Box<dyn Generate> {
        fn valid<T, E: std::fmt::Display>(made: Result<T, E>, name: &str) -> T {
            made.unwrap_or_else(|error| panic!("the built-in recipe of sample {name} is valid: {error}"))
        }
        match &self.recipe {
            Recipe::Mix(config) => {
                let made: Result<Mix, MixError> = Mix::new(config.clone());
                Box::new(valid(made, self.name))
            }
            Recipe::Paper { sessions, seed } => {
                let made: Result<PaperTrace, PaperTraceError> = PaperTrace::with_sessions(*sessions, *seed);
                Box::new(valid(made, self.name))
            }
        }
    }
}

/// Returns one minute of a small site, with every kind of packet of the mixture, truncated after
/// the headers.
pub fn campus() -> Sample {
    Sample {
        name: "campus",
        about: "one minute of a small site, truncated after the headers",
        recipe: Recipe::Mix(MixConfig {
            flows: 400,
            packets: 6000,
            zipf: 1.05,
            size: FrameSize::Imix,
            v6_permille: 150,
            vlan_permille: 50,
            fragment_permille: 8,
            other_permille: 8,
            burst_packets: 2,
            syn_flood: 0,
            rate_pps: 100,
            seed: 20_260_101,
            ..MixConfig::default()
        }),
        snaplen_bytes: 96,
    }
}

/// Returns a small version of the paper's trace: 256 sessions at the maximum reuse distance [DHASH
/// §V-B].
pub fn paper_file_mini() -> Sample {
    Sample {
        name: "paper-file-mini",
        about: "256 sessions of twenty packets, with 255 other packets between two packets of a session",
        recipe: Recipe::Paper { sessions: 256, seed: 1 },
        snaplen_bytes: 262_144,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sample_can_be_made_and_fits_into_a_mebibyte() {
        for sample in Sample::all() {
            let mut generator = sample.generator();
            let mut file_bytes = 24;
            while let Some(meta) = generator.next_meta() {
                file_bytes += 16 + meta.wire_bytes.min(sample.snaplen_bytes);
            }
            assert!(file_bytes < 1 << 20, "{} has {file_bytes} bytes", sample.name);
            assert_eq!(Sample::named(sample.name), Some(sample));
        }
        assert_eq!(Sample::named("unknown"), None);
    }
}
