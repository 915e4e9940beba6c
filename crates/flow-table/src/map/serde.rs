//! Serializes a [`FlowMap`] as a map of keys and values, without times and ids.

use core::fmt;
use core::hash::{BuildHasher, Hash};
use core::marker::PhantomData;

use serde::de::{Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::FlowMap;
use crate::table::TableKey;

impl<K: TableKey + Serialize, V: Serialize, S> Serialize for FlowMap<K, V, S> {
    fn serialize<Z: Serializer>(&self, serializer: Z) -> Result<Z::Ok, Z::Error> {
        serializer.collect_map(self)
    }
}

impl<'de, K, V, S> Deserialize<'de> for FlowMap<K, V, S>
where
    K: TableKey + Hash + Deserialize<'de>,
    V: Deserialize<'de>,
    S: BuildHasher + Default,
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Flows(PhantomData))
    }
}

struct Flows<K, V, S>(PhantomData<(K, V, S)>);

impl<'de, K, V, S> Visitor<'de> for Flows<K, V, S>
where
    K: TableKey + Hash + Deserialize<'de>,
    V: Deserialize<'de>,
    S: BuildHasher + Default,
{
    type Value = FlowMap<K, V, S>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of flows")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut flows: A) -> Result<Self::Value, A::Error> {
        let mut map = FlowMap::with_hasher(S::default());
        while let Some((key, value)) = flows.next_entry()? {
            map.insert(key, value).map_err(A::Error::custom)?;
        }
        Ok(map)
    }
}
