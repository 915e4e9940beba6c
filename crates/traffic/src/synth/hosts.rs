//! The endpoints of flows: a client endpoint per flow, and a server.
//!
//! The number of a flow determines its endpoints, so nothing is stored, and no two flows share a
//! client endpoint. Sixteen flows share a client address, each with its own port. Clients have
//! addresses in `10.0.0.0/8` and `2001:db8::/32`, and servers in `198.18.0.0/15` (reserved for
//! benchmarks) and `2001:db8:ffff::/48`, so a replayed trace reaches no real host.

use super::random::word_of;
use super::wire::Addresses;

/// Number of flows that share a client's address.
pub(super) const FLOWS_PER_CLIENT: u64 = 16;

/// Maximum number of distinct flows: 2^24 clients.
pub(super) const FLOWS_MAX: u64 = FLOWS_PER_CLIENT << 24;

const HOST_MASK: u32 = 0x00FF_FFFF;
const TCP_PORTS: [u16; 16] = [443, 443, 443, 443, 443, 443, 443, 80, 80, 80, 22, 25, 993, 8080, 3389, 5432];

/// Returns the two endpoints of a flow.
#[derive(Clone, Debug)]
pub(super) struct Hosts {
    seed: u64,
}

impl Hosts {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed: word_of(seed, 0x484F_5354) }
    }

    /// Returns the client's host number (24 bits) and port (32,768 to 60,127) of flow `index`.
    #[inline]
    pub(super) fn client(&self, index: u64) -> (u32, u16) {
        debug_assert!(index < FLOWS_MAX, "two flows would share an endpoint");
        let client = index / FLOWS_PER_CLIENT;
        let word = word_of(self.seed, client);
        // A client opens its ports in ascending order with small gaps, so neighbouring flows have
        // close port numbers, as in real traffic.
        let base = word % 12_000;
        let stride = 1 + (word >> 32) % 1024;
        let port = 32_768 + base + (index % FLOWS_PER_CLIENT) * stride;
        (self.permute(client as u32), port as u16)
    }

    /// Returns the server's host number (17 bits) of flow `index`; low numbers are popular.
    #[inline]
    pub(super) fn server(&self, index: u64) -> u32 {
        let word = word_of(self.seed ^ 0x5352_5652, index);
        // The product of two uniform numbers is skewed towards zero, which is sufficient here.
        (((word & 0xFFFF) * ((word >> 16) & 0xFFFF)) >> 15) as u32
    }

    /// Returns the port of the TCP service that flow `index` uses.
    #[inline]
    pub(super) fn tcp_port(&self, index: u64) -> u16 {
        TCP_PORTS[(word_of(self.seed ^ 0x5443_5050, index) & 15) as usize]
    }

    /// Scatters host numbers. Each step is invertible, so no two clients collide.
    #[inline]
    fn permute(&self, client: u32) -> u32 {
        let mut x = client & HOST_MASK;
        x = x.wrapping_mul(0x9E_3779 | 1) & HOST_MASK;
        x ^= x >> 13;
        x = x.wrapping_mul(0x5B_D1E9 | 1) & HOST_MASK;
        x ^ (self.seed as u32 & HOST_MASK)
    }
}

/// Returns the IPv4 addresses of a client and a server by host number.
#[inline]
pub(super) fn v4(client: u32, server: u32) -> Addresses {
    Addresses::V4 {
        source: 0x0A00_0000 | (client & HOST_MASK),
        destination: 0xC612_0000 | (server & 0x1_FFFF),
    }
}

/// Returns the IPv6 addresses of a client and a server by host number.
#[inline]
pub(super) fn v6(client: u32, server: u32) -> Addresses {
    let documentation: u128 = 0x2001_0DB8 << 96;
    Addresses::V6 {
        source: documentation | u128::from(client >> 8) << 64 | u128::from(client & 0xFF) | 0x0200 << 48,
        destination: documentation | 0xFFFF << 80 | u128::from(server),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_two_flows_share_a_client_endpoint() {
        for seed in 0..3 {
            let hosts = Hosts::new(seed);
            let seen: HashSet<_> = (0..300_000).map(|i| hosts.client(i)).collect();
            assert_eq!(seen.len(), 300_000);
        }
    }

    #[test]
    fn servers_stay_in_their_range() {
        let hosts = Hosts::new(1);
        assert!((0..10_000).all(|i| hosts.server(i) < 1 << 17));
    }
}
