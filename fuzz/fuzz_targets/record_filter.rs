//! Arbitrary text as a record filter, on arbitrary records: no panic, and an error lies within the
//! text.
#![no_main]

use flowloom_apps::RecordState as _;
use flowloom_apps::accounting::fields::{AllFields, Detailed};
use flowloom_apps::accounting::{AccountingRecord, EndedBy};
use flowloom_export::RecordFilter;
use flowloom_export::record::Value;
use flowloom_flow_key::FlowKey;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (&str, [u64; 6], Vec<Option<u64>>)| {
    let (text, words, numbers) = input;
    match RecordFilter::parse(text, &Detailed::<AllFields>::schema()) {
        Ok(filter) => {
            let key = FlowKey::from_words(words);
            let mut row = AccountingRecord::new(&key, &Default::default(), EndedBy::EndOfInput).row();
            row.values.extend(numbers.into_iter().map(Value::from));
            let _ = filter.matches(&row);
        }
        Err(error) => assert!(error.at <= text.len()),
    }
});
