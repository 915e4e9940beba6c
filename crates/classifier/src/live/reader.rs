//! Lookups in a set that changes.

use alloc::boxed::Box;
use alloc::sync::Arc;

use flowloom_flow_key::FiveTuple;

use super::snapshot::{Scratch, Snapshot};
use super::{Live, LiveMatch};
use crate::classifier::ClassifierKey;
use crate::firewall::{Assume, Packet};
use crate::key::AnyKey;

/// A thread's view of a [`Live`] set. At the start of each batch it takes the newest rules, and
/// uses them until the end of the batch.
#[derive(Debug)]
pub struct Reader<'a> {
    live: &'a Live,
    version: u64,
    snapshot: Arc<Snapshot>,
    scratch: Box<Scratch>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(live: &'a Live) -> Self {
        // Read the version first: a change in between is then taken again, not missed.
        let version = live.version();
        Self { live, version, snapshot: live.snapshot(), scratch: Box::default() }
    }

    /// Takes the newest rules if they have changed.
    #[inline]
    fn refresh(&mut self) {
        let version = self.live.version();
        if version != self.version {
            self.version = version;
            self.snapshot = self.live.snapshot();
        }
    }

    /// Looks up any number of keys, all with the same rules.
    ///
    /// # Panics
    ///
    /// Panics if `matches` and `keys` differ in length.
    pub fn classify_batch<K: ClassifierKey>(&mut self, keys: &[K], matches: &mut [LiveMatch]) {
        assert_eq!(keys.len(), matches.len(), "a batch has a place for the match of each key");
        self.refresh();
        self.snapshot.classify(keys, matches, &mut self.scratch);
    }

    /// Returns the first rule that matches a packet completely: its box, its flags column and its
    /// tests. A rule that asks for ports matches no packet without ports. `assume` decides rules
    /// that may match.
    pub fn find(&mut self, packet: &Packet<'_>, assume: Assume) -> LiveMatch {
        self.refresh();
        match packet.key() {
            AnyKey::V4(key) => self.snapshot.find(&key, packet, assume),
            AnyKey::V6(key) => self.snapshot.find(&key, packet, assume),
        }
    }

    /// Looks up one packet. In a batch, lookups take a fraction of the time per packet.
    pub fn classify(&mut self, tuple: &FiveTuple) -> LiveMatch {
        match AnyKey::from(tuple) {
            AnyKey::V4(key) => self.classify_key(&key),
            AnyKey::V6(key) => self.classify_key(&key),
        }
    }

    /// Looks up one key.
    pub fn classify_key<K: ClassifierKey>(&mut self, key: &K) -> LiveMatch {
        let mut found = [LiveMatch::default()];
        self.classify_batch(core::slice::from_ref(key), &mut found);
        found[0]
    }
}
