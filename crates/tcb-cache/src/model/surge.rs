//! Model S: sessions of ON and OFF periods, similar to SURGE [TCBCACHE §2.2].
//!
//! | part | distribution | |
//! | --- | --- | --- |
//! | pages of a session | ⌈lognormal(1.2, 1.0)⌉, 1 to 200 | ours |
//! | requests of a page | ⌊Pareto(3, 2.43)⌋, 1 to 60 | the 3 is fitted |
//! | gap within a page (active OFF) | Weibull(0.2 s, 0.382), at most 15 s, and 20 ms | the 0.2 is fitted |
//! | gap between pages (inactive OFF) | min(Pareto(1 s, 1.5), 1800 s) × 16 | the 16 is fitted |
//! | reply | 93 % lognormal(9.357, 1.318), 7 % Pareto(133,000, 1.1), at most 5 MB | |
//! | client | one of 20,000 random /24 networks, one of 256 hosts | ours |
//!
//! *Fitted* values were chosen so that the miss ratios of four policies are near those of [TCBCACHE
//! Fig. 12]; the agreement is therefore no evidence. The others follow the literature on SURGE from
//! memory and were not checked against it. There, a page has at least 1 request, gaps within a page
//! have a scale of 1.46 s, and nothing is multiplied by 16.

use crate::random::Random;

use super::draw::{lognormal, pareto, weibull};
use super::session::{Request, Session, SessionSource};

/// The parameters of the model; the default is model S. Times must be finite and not negative.
///
/// Later versions may add fields: end a literal with `..SurgeConfig::default()`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SurgeConfig {
    /// Mean of the logarithm of the number of pages.
    pub pages_mean_ln: f64,
    /// Deviation of the logarithm of the number of pages.
    pub pages_deviation_ln: f64,
    /// Maximum number of pages per session; 0 counts as 1.
    pub pages_max: u32,
    /// Minimum number of requests per page, before rounding.
    pub requests_least: f64,
    /// Shape of the distribution of requests per page.
    pub requests_shape: f64,
    /// Maximum number of requests per page; 0 counts as 1.
    pub requests_max: u32,
    /// Scale of the gap within a page, in seconds.
    pub active_scale_s: f64,
    /// Shape of the gap within a page.
    pub active_shape: f64,
    /// Maximum gap within a page, in seconds.
    pub active_max_s: f64,
    /// Time added to each gap within a page, in seconds.
    pub request_s: f64,
    /// Minimum gap between pages, in seconds, before it is stretched.
    pub think_least_s: f64,
    /// Shape of the gap between pages.
    pub think_shape: f64,
    /// Maximum gap between pages, in seconds, before it is stretched.
    pub think_max_s: f64,
    /// Factor for the gaps between pages.
    pub think_factor: f64,
    /// Number of /24 networks of the clients, 1 to 2²⁴.
    pub networks: u32,
}

impl Default for SurgeConfig {
    fn default() -> Self {
        Self {
            pages_mean_ln: 1.2,
            pages_deviation_ln: 1.0,
            pages_max: 200,
            requests_least: 3.0,
            requests_shape: 2.43,
            requests_max: 60,
            active_scale_s: 0.2,
            active_shape: 0.382,
            active_max_s: 15.0,
            request_s: 0.02,
            think_least_s: 1.0,
            think_shape: 1.5,
            think_max_s: 1800.0,
            think_factor: 16.0,
            networks: 20_000,
        }
    }
}

/// Share of replies from the body of the distribution, in thousandths.
const BODY_PERMILLE: u64 = 930;
const REPLY_BYTES_MAX: f64 = 5_000_000.0;

/// The source of the model's sessions. It never ends.
#[derive(Clone, Debug)]
pub struct Surge {
    config: SurgeConfig,
    networks: Vec<u32>,
}

impl Surge {
    /// Returns the source; the clients' networks are drawn from `seed`.
    #[must_use]
    pub fn new(config: SurgeConfig, seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x0057_5247_4500_0000);
        let count = config.networks.clamp(1, 1 << 24);
        // Unicast addresses, 1.0.0.0 to 223.255.255.255.
        let network = |random: &mut Random| ((1 << 16) + random.below(223 << 16) as u32) << 8;
        Self { config, networks: (0..count).map(|_| network(&mut random)).collect() }
    }
}

fn reply_bytes(random: &mut Random) -> u64 {
    let bytes = if random.below(1000) < BODY_PERMILLE {
        lognormal(random, 9.357, 1.318)
    } else {
        pareto(random, 133_000.0, 1.1)
    };
    bytes.min(REPLY_BYTES_MAX) as u64
}

impl SessionSource for Surge {
    fn next_session(&mut self, random: &mut Random, session: &mut Session) -> bool {
        let config = &self.config;
        let network = self.networks[random.below(self.networks.len() as u64) as usize];
        session.address = network | random.below(256) as u32;
        session.requests.clear();
        let pages = lognormal(random, config.pages_mean_ln, config.pages_deviation_ln).ceil();
        let pages = (pages as u32).clamp(1, config.pages_max.max(1));
        let mut now_s = 0.0;
        for page in 0..pages {
            if page > 0 {
                let gap = pareto(random, config.think_least_s, config.think_shape).min(config.think_max_s);
                now_s += gap * config.think_factor;
            }
            let requests = pareto(random, config.requests_least, config.requests_shape) as u32;
            for request in 0..requests.clamp(1, config.requests_max.max(1)) {
                if request > 0 {
                    let gap = weibull(random, config.active_scale_s, config.active_shape);
                    now_s += gap.min(config.active_max_s) + config.request_s;
                }
                session
                    .requests
                    .push(Request { offset_ms: (now_s * 1000.0) as u64, reply_bytes: reply_bytes(random) });
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_alternate_between_on_and_off() {
        let mut surge = Surge::new(SurgeConfig::default(), 1);
        let mut random = Random::new(5);
        let mut session = Session::default();
        let (mut gaps, mut long, mut requests) = (0_u32, 0_u32, 0);
        for _ in 0..3000 {
            assert!(surge.next_session(&mut random, &mut session));
            assert_eq!(session.requests[0].offset_ms, 0);
            assert!(session.requests.iter().all(|request| request.reply_bytes <= 5_000_000));
            requests += session.requests.len();
            for pair in session.requests.windows(2) {
                assert!(pair[0].offset_ms <= pair[1].offset_ms);
                gaps += 1;
                long += u32::from(pair[1].offset_ms - pair[0].offset_ms >= 16_000);
            }
        }
        let mean = requests / 3000;
        assert!((22..32).contains(&mean), "{mean} requests a session");
        let pages = long * 100 / gaps;
        assert!((15..23).contains(&pages), "one gap in five is between pages: {pages} %");
    }

    #[test]
    fn every_session_has_a_page_and_every_page_a_request() {
        let config = SurgeConfig { pages_max: 0, requests_max: 0, networks: 0, ..SurgeConfig::default() };
        let (mut surge, mut session) = (Surge::new(config, 1), Session::default());
        assert!(surge.next_session(&mut Random::new(1), &mut session));
        assert_eq!(session.requests.len(), 1);
    }
}
