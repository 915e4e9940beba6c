//! Objects and groups of objects, which entries name.

use alloc::borrow::ToOwned;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::net::IpAddr;

use super::super::{LoadError, LoadErrorKind, ipset};
use super::entry::{Entry, icmp_codes};
use super::ports::port;
use crate::firewall::{Conditions, Ranges, bits_of};

/// Maximum number of parts of all objects. Groups of groups could otherwise grow without bound.
const PARTS_MAX: usize = 1 << 20;

/// A range of addresses, and whether it is of IPv6.
pub(super) type Addresses = (bool, u128, u128);

/// What the indented lines of an object state.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Network,
    /// Ports of a protocol that the entry names.
    Ports,
    /// Protocols with their ports.
    Service,
    Protocol,
    Icmp,
}

/// The objects of a file so far.
#[derive(Default)]
pub(super) struct Objects {
    pub(super) networks: BTreeMap<String, Vec<Addresses>>,
    pub(super) ports: BTreeMap<String, Vec<(u128, u128)>>,
    pub(super) services: BTreeMap<String, Vec<Conditions>>,
    pub(super) protocols: BTreeMap<String, Vec<(u128, u128)>>,
    pub(super) icmp: BTreeMap<String, Vec<Ranges>>,
    /// Addresses of interfaces, by the names that entries give them.
    pub(super) interfaces: BTreeMap<String, IpAddr>,
    /// Names of hosts.
    hosts: BTreeMap<String, IpAddr>,
    /// The parts of all objects, of which groups have their own copies.
    parts: usize,
    /// The first line of an object that is not read.
    broken: BTreeMap<String, LoadError>,
}

impl Kind {
    /// Returns the kind and the name of the object that a line begins.
    pub(super) fn parse<'a>(keys: &[&str], words: &[&'a str]) -> Option<(Self, &'a str)> {
        let kind = match *keys {
            ["object" | "object-group", "network", _, ..] => Self::Network,
            ["object-group", "service", _, _, ..] => Self::Ports,
            ["object" | "object-group", "service", _] => Self::Service,
            ["object-group", "protocol", _, ..] => Self::Protocol,
            ["object-group", "icmp-type", _, ..] => Self::Icmp,
            _ => return None,
        };
        Some((kind, words[2]))
    }
}

impl Objects {
    /// Adds the name of a host.
    pub(super) fn name(&mut self, name: &str, address: &str) {
        if let Ok(address) = address.parse() {
            self.hosts.insert(name.to_owned(), address);
        }
    }

    /// Adds the address of an interface.
    pub(super) fn interface(&mut self, name: &str, address: &str) {
        if let Some(address) = self.address(address) {
            self.interfaces.insert(name.to_owned(), address);
        }
    }

    /// Returns an address that is written as such, or by its name.
    pub(super) fn address(&self, word: &str) -> Option<IpAddr> {
        word.parse().ok().or_else(|| self.hosts.get(word).copied())
    }

    /// Returns the error about an object that a line names and that is not there, or not read.
    pub(super) fn missing(&self, name: &str, (line, text): (usize, &str), at: usize) -> LoadError {
        self.broken.get(name).cloned().unwrap_or_else(|| {
            let message = format!("no such object '{name}' precedes this line");
            LoadError::new(line, text, at, LoadErrorKind::Refused(message))
        })
    }

    /// Adds a line of an object. An error is kept until an entry names the object.
    /// The words come as they are and in lower case.
    pub(super) fn line(
        &mut self,
        (kind, name): (Kind, &str),
        (words, keys): (&[&str], &[&str]),
        number: usize,
        line: &str,
    ) {
        if matches!(keys, ["description" | "nat", ..]) {
            return;
        }
        let mut parts = self.parts;
        let is_read = match kind {
            Kind::Network => {
                let found = self.network(words, keys);
                add(&mut self.networks, &mut parts, name, found)
            }
            Kind::Ports => {
                let found = self.port(words, keys);
                add(&mut self.ports, &mut parts, name, found)
            }
            Kind::Service => {
                let found = self.service((words, keys), number, line);
                add(&mut self.services, &mut parts, name, found)
            }
            Kind::Protocol => {
                let found = self.protocol((words, keys), number, line);
                add(&mut self.protocols, &mut parts, name, found)
            }
            Kind::Icmp => {
                let found = self.icmp(words, keys);
                add(&mut self.icmp, &mut parts, name, found)
            }
        };
        self.parts = parts.min(PARTS_MAX);
        if is_read.is_none() && !self.broken.contains_key(name) {
            let message = if parts > PARTS_MAX {
                format!(
                    "object '{name}' is too large: all objects together have more than {PARTS_MAX} parts"
                )
            } else {
                format!(
                    "this line of object '{name}' is invalid or not supported; correct it, or write what \
                     it means into the access list"
                )
            };
            let error = LoadError::new(number, line, 0, LoadErrorKind::Refused(message));
            self.broken.insert(name.to_owned(), error);
            self.forget(name);
        }
    }

    /// Removes an object of which a line is not read.
    fn forget(&mut self, name: &str) {
        self.networks.remove(name);
        self.ports.remove(name);
        self.services.remove(name);
        self.protocols.remove(name);
        self.icmp.remove(name);
    }

    fn network(&self, words: &[&str], keys: &[&str]) -> Option<Vec<Addresses>> {
        let one = |low: IpAddr, high: IpAddr| Vec::from([(low.is_ipv6(), bits_of(low), bits_of(high))]);
        let keys = keys.strip_prefix(&["network-object"]).unwrap_or(keys);
        let words = &words[words.len() - keys.len()..];
        match *keys {
            ["host", _] => {
                let address = self.address(words[1])?;
                Some(one(address, address))
            }
            ["range", _, _] => {
                let (low, high) = (self.address(words[1])?, self.address(words[2])?);
                (low.is_ipv6() == high.is_ipv6() && low <= high).then(|| one(low, high))
            }
            ["object" | "group-object", _] => self.networks.get(words[1]).cloned(),
            ["subnet", prefix] | [prefix] if prefix.contains('/') => {
                let is_v6 = prefix.contains(':');
                let (low, high) = ipset::addresses(prefix, is_v6)?;
                Some(Vec::from([(is_v6, low, high)]))
            }
            ["subnet", _, mask] | [_, mask] => {
                let (address, mask) = (self.address(words[words.len() - 2])?, mask.parse::<IpAddr>().ok()?);
                if address.is_ipv6() || mask.is_ipv6() {
                    return None;
                }
                let set = Ranges::under_mask(bits_of(address) & bits_of(mask), bits_of(mask), 32, 1 << 12)?;
                Some(set.as_slice().iter().map(|&(low, high)| (false, low, high)).collect())
            }
            _ => None,
        }
    }

    fn port(&self, words: &[&str], keys: &[&str]) -> Option<Vec<(u128, u128)>> {
        match *keys {
            ["port-object", "eq", one] => port(one).map(|one| Vec::from([(one, one)])),
            ["port-object", "range", low, high] => {
                let (low, high) = (port(low)?, port(high)?);
                Some(Vec::from([(low.min(high), low.max(high))]))
            }
            ["group-object", _] => self.ports.get(words[1]).cloned(),
            _ => None,
        }
    }

    fn service(
        &self,
        (words, keys): (&[&str], &[&str]),
        number: usize,
        line: &str,
    ) -> Option<Vec<Conditions>> {
        if let ["service-object", "object", _] | ["group-object", _] = *keys {
            return self.services.get(*words.last()?).cloned();
        }
        let keys = keys.strip_prefix(&["service-object"]).unwrap_or(keys);
        let keys = keys.strip_prefix(&["service"]).unwrap_or(keys);
        let words = &words[words.len() - keys.len()..];
        Entry::new(number, line, (words, keys), self).service().ok().map(|found| Vec::from([found]))
    }

    fn protocol(
        &self,
        (words, keys): (&[&str], &[&str]),
        number: usize,
        line: &str,
    ) -> Option<Vec<(u128, u128)>> {
        match *keys {
            ["group-object", _] => self.protocols.get(words[1]).cloned(),
            ["protocol-object", _] => {
                let found = Entry::new(number, line, (&words[1..], &keys[1..]), self).service().ok()?;
                Some(found.protocols.map_or_else(|| Vec::from([(0, 255)]), |set| set.as_slice().to_vec()))
            }
            _ => None,
        }
    }

    fn icmp(&self, words: &[&str], keys: &[&str]) -> Option<Vec<Ranges>> {
        match *keys {
            ["group-object", _] => self.icmp.get(words[1]).cloned(),
            ["icmp-object", name] => icmp_codes(name, false).map(|codes| Vec::from([codes])),
            _ => None,
        }
    }
}

/// Adds the parts of a line to an object. Returns `None` when all objects have too many parts.
fn add<T>(
    all: &mut BTreeMap<String, Vec<T>>,
    parts: &mut usize,
    name: &str,
    found: Option<Vec<T>>,
) -> Option<()> {
    let found = found?;
    *parts += found.len();
    if *parts > PARTS_MAX {
        return None;
    }
    all.entry(name.to_owned()).or_default().extend(found);
    Some(())
}
