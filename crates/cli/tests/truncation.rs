//! Captures that another process truncates, extends or removes while they are replayed.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::Stdio;
use std::time::Duration;

use crate::bytes::pcap;
use crate::support::{Folder, Outcome, check_balance, command, number};

/// Packets of the capture, and the number of them that remain.
const PACKETS: u16 = 60_000;
const LEFT: u64 = 40_000;
/// Bytes of a record of [`pcap`], and of the file header before the first.
const RECORD_BYTES: u64 = 62;
const HEADER_BYTES: u64 = 24;

fn set_length(path: &str, bytes: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(bytes).unwrap();
}

/// Replays a file, changes it after a while, and waits for the end of the run.
fn replay_and(path: &str, options: &[&str], change: impl FnOnce()) -> Outcome {
    let mut command = command([&["replay", path, "--format", "json", "--no-pin"], options].concat());
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    change();
    Outcome::new(&command, child.wait_with_output().unwrap())
}

#[test]
fn a_capture_that_is_cut_while_it_is_replayed_ends_there_with_a_balanced_report() {
    let whole = pcap(PACKETS);
    assert_eq!(whole.len() as u64, HEADER_BYTES + u64::from(PACKETS) * RECORD_BYTES);
    let folder = Folder::new();
    let end = HEADER_BYTES + LEFT * RECORD_BYTES;
    // At a record, within one, and at the end of a page.
    let page = end.next_multiple_of(65_536);
    for (i, cut_at) in [end, end + 30, page].into_iter().enumerate() {
        let left = (cut_at - HEADER_BYTES) / RECORD_BYTES;
        let offset = HEADER_BYTES + left * RECORD_BYTES;
        let told = format!("ends inside packet {} (byte {offset} of the file: ", left + 1);
        for layout in [&[][..], &["--workers", "2"], &["--no-mmap"], &["--strict"]] {
            let path = folder.write(&format!("{i}.pcap"), &whole);
            // Three seconds for the whole capture: the truncated part was not read by then.
            let options = [layout, &["--speed", "20k"]].concat();
            let outcome = replay_and(&path, &options, || set_length(&path, cut_at));
            if layout == ["--no-mmap"] {
                // A reader has already read a few pieces into memory, so a truncation at a record
                // has no effect then.
                let document = outcome.ends(0).json();
                check_balance(&document);
                assert!((left..=u64::from(PACKETS)).contains(&number(&document, "packets")));
                continue;
            }
            let outcome = outcome.ends(if layout == ["--strict"] { 4 } else { 0 }).says(&[&told]);
            let document = outcome.json();
            check_balance(&document);
            assert_eq!(number(&document, "packets"), left, "{layout:?}: cut at {cut_at}");
            assert_eq!(document["notices"].as_array().unwrap().len(), 1, "{layout:?}: cut at {cut_at}");
        }
    }
}

#[test]
fn a_capture_that_is_cut_between_passes_ends_with_a_balanced_report() {
    let whole = pcap(PACKETS);
    let folder = Folder::new();
    for cut_at in [HEADER_BYTES + LEFT * RECORD_BYTES, HEADER_BYTES, 3, 0] {
        let path = folder.write("t.pcap", &whole);
        let options = ["--passes", "4", "--speed", "100k", "--workers", "2"];
        let outcome = replay_and(&path, &options, || set_length(&path, cut_at)).ends(0);
        let document = outcome.json();
        check_balance(&document);
        assert!(number(&document, "packets") < 4 * u64::from(PACKETS), "cut at {cut_at}");
        assert!(!document["notices"].as_array().unwrap().is_empty(), "cut at {cut_at}");
    }
}

#[test]
fn capture_that_grows_or_is_removed_is_replayed_with_its_size_at_opening() {
    let whole = pcap(PACKETS);
    let folder = Folder::new();
    let path = folder.write("t.pcap", &whole);
    let grow = || {
        let mut file = OpenOptions::new().append(true).open(&path).unwrap();
        file.write_all(&whole[HEADER_BYTES.try_into().unwrap()..]).unwrap();
    };
    let document = replay_and(&path, &["--speed", "40k"], grow).ends(0).silent().json();
    assert_eq!(number(&document, "packets"), u64::from(PACKETS));
    std::fs::write(&path, &whole).unwrap();
    let remove = || std::fs::remove_file(&path).unwrap();
    let document = replay_and(&path, &["--speed", "40k"], remove).ends(0).silent().json();
    assert_eq!(number(&document, "packets"), u64::from(PACKETS));
}
