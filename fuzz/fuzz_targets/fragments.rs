//! Arbitrary bytes as a stream of the flows that parts leave open: reading ends with flows or with
//! an error, the same ones however the bytes arrive.
//!
//! An even first byte takes the rest as the stream. An odd one takes it as changes of a right
//! stream: a place, of two bytes, and a byte; a place behind the end cuts the stream.
#![no_main]

use std::io::{self, Read};
use std::panic;
use std::sync::{Arc, Once, OnceLock};

use arrow_array::{ArrayRef, BinaryArray, Int32Array, RecordBatch};
use arrow_ipc::writer::StreamWriter;
use flowloom_export::read_fragments;
use libfuzzer_sys::fuzz_target;

/// A reader that yields few bytes at a time.
struct Slow<'a>(&'a [u8]);

impl Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = buffer.len().min(7);
        self.0.read(&mut buffer[..bytes])
    }
}

/// Returns a stream of two batches.
fn right() -> &'static [u8] {
    static STREAM: OnceLock<Vec<u8>> = OnceLock::new();
    STREAM.get_or_init(|| {
        let columns: [(&str, ArrayRef); 3] = [
            ("part", Arc::new(Int32Array::from(vec![Some(3), None, Some(-1)]))),
            ("flow_key", Arc::new(BinaryArray::from(vec![Some(&b"key"[..]), Some(b""), Some(b"another")]))),
            ("flow_state", Arc::new(BinaryArray::from(vec![Some(&b"state"[..]), None, Some(b"")]))),
        ];
        let batch = RecordBatch::try_from_iter(columns).expect("columns of one length");
        let mut stream = StreamWriter::try_new(Vec::new(), &batch.schema()).expect("a vector takes it");
        for _ in 0..2 {
            stream.write(&batch).expect("a vector takes it");
        }
        stream.into_inner().expect("a vector takes it")
    })
}

/// Returns the flows up to the end or the first error, and whether there was one.
fn read(stream: impl Read) -> (Vec<(i32, Vec<u8>, Vec<u8>)>, bool) {
    let mut flows = Vec::new();
    let end = read_fragments(stream, |part, key, state| {
        flows.push((part, key.to_vec(), state.to_vec()));
        Ok(())
    });
    (flows, end.is_err())
}

fuzz_target!(|data: &[u8]| {
    // The reader catches panics of the library that decodes the stream; the fuzzer's hook would end
    // the process before it could. A panic that escapes still ends it.
    static QUIET: Once = Once::new();
    QUIET.call_once(|| panic::set_hook(Box::new(|_| {})));
    let Some((kind, rest)) = data.split_first() else { return };
    let changed;
    let stream = if kind % 2 == 0 {
        rest
    } else {
        let mut stream = right().to_vec();
        for [low, high, byte] in rest.as_chunks().0 {
            let place = usize::from(u16::from_le_bytes([*low, *high]));
            match stream.get_mut(place) {
                Some(at) => *at = *byte,
                None => stream.truncate(place % (stream.len() + 1)),
            }
        }
        changed = stream;
        &changed
    };
    assert_eq!(read(stream), read(Slow(stream)));
});
