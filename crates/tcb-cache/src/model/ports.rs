//! The source ports that clients use, starting at 1024 [TCBCACHE §3.2].

use crate::random::Random;
use crate::trace::number;

use super::draw::exponential;

/// How a client's source port is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ports {
    /// 1024 plus an exponential draw with this mean, modulo 256. A mean of 4 is called
    /// "paper-like", because only ports with such a skew make the low bits as poor as in the paper.
    Skewed {
        /// Mean of the draw.
        mean: u32,
    },
    /// Any of the 256 ports from 1024 on.
    Uniform,
    /// Each client uses its ports in sequence, starting at 1024, and repeats the 256 ports.
    Sequential,
}

impl Ports {
    /// Ports with the skew that the paper's miss ratios imply.
    pub const PAPER_LIKE: Self = Self::Skewed { mean: 4 };

    /// Returns the port of a client's next connection; `earlier` is the number of its previous
    /// connections.
    pub(crate) fn draw(self, random: &mut Random, earlier: u32) -> u16 {
        let above = match self {
            Self::Skewed { mean } => exponential(random, f64::from(mean)) as u64 % 256,
            Self::Uniform => random.below(256),
            Self::Sequential => u64::from(earlier % 256),
        };
        1024 + above as u16
    }
}

impl core::fmt::Display for Ports {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Skewed { mean: 4 } => f.write_str("paper-like"),
            Self::Skewed { mean } => write!(f, "skewed-{mean}"),
            Self::Uniform => f.write_str("uniform"),
            Self::Sequential => f.write_str("sequential"),
        }
    }
}

/// The name of a port model is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnknownPorts {
    /// The given text.
    pub name: String,
}

impl core::fmt::Display for UnknownPorts {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            f,
            "unknown port model '{}'; models: paper-like, uniform, sequential, skewed-N with a mean of N",
            self.name
        )
    }
}

impl core::error::Error for UnknownPorts {}

impl core::str::FromStr for Ports {
    type Err = UnknownPorts;

    fn from_str(text: &str) -> Result<Self, UnknownPorts> {
        Ok(match text {
            "paper-like" => Self::PAPER_LIKE,
            "uniform" => Self::Uniform,
            "sequential" => Self::Sequential,
            _ => {
                let mean = text.strip_prefix("skewed-").and_then(number::decimal);
                match mean.filter(|mean| (1..=256).contains(mean)) {
                    Some(mean) => Self::Skewed { mean },
                    None => return Err(UnknownPorts { name: text.to_owned() }),
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back_as_written() {
        for ports in [Ports::PAPER_LIKE, Ports::Skewed { mean: 32 }, Ports::Uniform, Ports::Sequential] {
            assert_eq!(ports.to_string().parse(), Ok(ports));
        }
        assert!("skewed-+32".parse::<Ports>().is_err());
        assert!("skewed-0".parse::<Ports>().unwrap_err().to_string().contains("paper-like"));
    }

    #[test]
    fn ports_are_from_1024_to_1279() {
        let mut random = Random::new(1);
        for ports in [Ports::PAPER_LIKE, Ports::Skewed { mean: 256 }, Ports::Uniform, Ports::Sequential] {
            for earlier in 0..2000 {
                assert!((1024..1280).contains(&ports.draw(&mut random, earlier)), "{ports}");
            }
        }
    }
}
