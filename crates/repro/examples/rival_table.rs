//! Runs a custom flow table in the item that compares tables.
//!
//! Linear probing in one array, half full, which stores keys and states together.

#![expect(clippy::print_stdout, reason = "an example prints its result")]

use flowloom::flow_key::TableHash;
use flowloom_repro::dhash::State;
use flowloom_repro::rivals::{RivalTable, Rivals, StateTable};
use flowloom_repro::{Context, ItemError, Scale, select};

#[derive(Debug)]
struct LinearProbing {
    /// A power of two of places.
    places: Vec<Option<([u64; 2], State)>>,
}

impl LinearProbing {
    /// Returns the place of a key, or the empty place where it belongs.
    fn place(&self, key: &[u64; 2], hash: TableHash) -> usize {
        let mask = self.places.len() - 1;
        let mut at = hash.signature() as usize & mask;
        while self.places[at].as_ref().is_some_and(|(other, _)| other != key) {
            at = (at + 1) & mask;
        }
        at
    }
}

impl StateTable for LinearProbing {
    fn insert(&mut self, key: [u64; 2], hash: TableHash, state: State) -> bool {
        let at = self.place(&key, hash);
        self.places[at] = Some((key, state));
        true
    }

    fn get(&self, key: &[u64; 2], hash: TableHash) -> Option<&State> {
        self.places[self.place(key, hash)].as_ref().map(|(_, state)| state)
    }
}

fn main() -> Result<(), ItemError> {
    let table = RivalTable::new("linear probing", |flows| {
        let places = (2 * flows as usize).next_power_of_two();
        Box::new(LinearProbing { places: vec![None; places] })
    });
    let rivals = Rivals { tables: &[table], ..Rivals::default() };
    let context = Context { rivals: &rivals, ..Context::new(Scale::Smoke, 1, &|| true) };
    let outcome = (select("dhash/fig4_lookup_time")[0].run)(&context)?;
    for value in outcome.values.iter().filter(|value| value.name.starts_with("lookups of File-3")) {
        println!("{}: {:.1} {}", value.name, value.ours, value.unit);
    }
    Ok(())
}
