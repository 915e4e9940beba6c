//! Arbitrary bytes as a log of requests: every line is used or skipped for a reason, and the used
//! lines form sessions.
//!
//! The first byte selects the format; half of the inputs get nearly valid lines as a prefix.
#![no_main]

use flowloom_tcb_cache::model::{LoggedSessions, PacketModel, Ports};
use flowloom_tcb_cache::trace::{Format, ReadError, ReadLimits, Skip, read_log};
use libfuzzer_sys::fuzz_target;

fn head(format: Format) -> &'static [u8] {
    match format {
        Format::Tsv => {
            b"host\tlogname\ttime\tmethod\turl\tresponse\tbytes\na\t-\t1\tGET\t/\t200\t5\nb\t-\t"
        }
        Format::W3c => {
            b"#Date: 2015-05-17\n#Fields: time c-ip cs-uri-stem sc-bytes\n10:05:03 h \"/a b\" 5\n10:05:0"
        }
        Format::Bu => b"cs20 785526142 920156 \"http://a/\" 1803 0.484092\ncs20 785526142 ",
        _ => b"h - - [01/Aug/1995:00:00:01 -0400] \"GET /a\" 200 1839\nh - - [",
    }
}

fuzz_target!(|input: &[u8]| {
    let Some((&choice, rest)) = input.split_first() else { return };
    let format = [Format::Clf, Format::Tsv, Format::Bu, Format::W3c][usize::from(choice % 4)];
    let bytes = if choice & 0x80 == 0 { [head(format), rest].concat() } else { rest.to_vec() };
    let _ = Format::detect("x", &bytes);
    let limits = ReadLimits { records_max: 1000 };
    let (entries, summary) = match read_log(&bytes[..], format, limits) {
        Ok((entries, summary)) => (entries, summary),
        Err(ReadError::Nothing { summary }) => (Vec::new(), summary),
        Err(error) => panic!("bytes in memory do not fail: {error}"),
    };
    assert_eq!(entries.len() as u64, summary.used);
    let skipped: u64 = Skip::ALL.into_iter().map(|reason| summary.skipped(reason)).sum();
    assert_eq!(summary.records, summary.used + skipped);
    let requests = entries.len();
    let sessions = LoggedSessions::cut(entries, Some(u64::from(choice)));
    let accesses = sessions.as_logged(PacketModel::default(), Ports::PAPER_LIKE, 1);
    assert_eq!(accesses.len(), requests);
    assert!(accesses.is_sorted_by_key(|access| access.time_ms()));
});
