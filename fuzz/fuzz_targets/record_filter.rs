//! Arbitrary text as a record filter, on arbitrary records: no panic, and an error lies within the
//! text.
#![no_main]

use flowloom_apps::accounting::fields::{FieldValue, all_columns};
use flowloom_apps::accounting::{AccountingRecord, EndedBy};
use flowloom_export::RecordFilter;
use flowloom_flow_key::FlowKey;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, [u64; 6], Vec<Option<u64>>)| {
    let (text, words, numbers) = input;
    let columns = all_columns();
    match RecordFilter::parse(text, &columns) {
        Ok(filter) => {
            let key = FlowKey::from_words(words);
            let record = AccountingRecord::of(&key, &Default::default(), EndedBy::EndOfInput);
            let fields: Vec<FieldValue> = numbers.into_iter().map(FieldValue::from).collect();
            let _ = filter.matches(&record, &fields);
        }
        Err(error) => assert!(error.at <= text.len()),
    }
});
