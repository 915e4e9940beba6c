//! Readers handle arbitrary input and account for all of it.

use flowloom_tcb_cache::Access;
use flowloom_tcb_cache::trace::{
    Format, LINE_BYTES_MAX, ReadError, ReadLimits, ReadSummary, Skip, read_accesses, read_log,
};
use proptest::prelude::*;

fn read(format: Format, bytes: &[u8], limits: ReadLimits) -> (usize, ReadSummary) {
    let outcome = if format.is_log() {
        read_log(bytes, format, limits).map(|(entries, summary)| (entries.len(), summary))
    } else {
        read_accesses(bytes, format, limits).map(|(accesses, summary)| {
            assert!(accesses.is_sorted_by_key(|access| access.time_ms()));
            (accesses.len(), summary)
        })
    };
    match outcome {
        Ok(found) => found,
        Err(ReadError::Nothing { summary }) => (0, summary),
        Err(error) => panic!("bytes in memory do not fail: {error}"),
    }
}

/// Lines of a log, some of them damaged.
fn dirty_log() -> impl Strategy<Value = Vec<u8>> {
    let good = "[a-z]{1,8} - - \\[0[1-9]/Aug/1995:1[0-9]:00:01 -0400\\] \"GET /\" 200 [0-9]{1,4}";
    let line = prop_oneof![
        4 => good.prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..60),
        1 => (good, 0_usize..70).prop_map(|(line, at)| {
            let at = at.min(line.len());
            line.into_bytes()[..at].to_vec()
        }),
    ];
    prop::collection::vec(line, 0..40).prop_map(|lines| lines.join(&b'\n'))
}

proptest! {
    #[test]
    fn any_bytes_are_read_to_their_end(bytes in prop::collection::vec(any::<u8>(), 0..2000)) {
        for format in Format::ALL {
            let (found, summary) = read(format, &bytes, ReadLimits::default());
            prop_assert_eq!(found as u64, summary.used, "{}", format);
            let skipped: u64 = Skip::ALL.into_iter().map(|reason| summary.skipped(reason)).sum();
            prop_assert_eq!(summary.records, summary.used + skipped, "{}", format);
        }
        let _ = Format::detect("x", &bytes);
    }

    #[test]
    fn damaged_logs_lose_only_damaged_lines(bytes in dirty_log()) {
        let (found, summary) = read(Format::Clf, &bytes, ReadLimits::default());
        let good = bytes.split(|byte| *byte == b'\n').filter(|line| {
            let mut alone = line.to_vec();
            alone.push(b'\n');
            read(Format::Clf, &alone, ReadLimits::default()).0 == 1
        });
        prop_assert_eq!(found, good.count());
        prop_assert_eq!(summary.used, found as u64);
    }
}

#[test]
fn long_lines_cut_records_and_times_that_go_back_are_counted() {
    let mut log = b"a,1\n".to_vec();
    log.clear();
    log.extend(b"10,1\n");
    log.extend(vec![b'9'; 10 << 20]);
    log.extend(b"\n5,2\n11,3,1\n");
    let (accesses, summary) = read_accesses(&log[..], Format::Csv, ReadLimits::default()).unwrap();
    assert_eq!(accesses, [Access::new(1, 0), Access::new(2, 0), Access::new(3, 1000).closing()]);
    assert_eq!((summary.skipped(Skip::TooLong), summary.time_backwards), (1, 1));
    assert_eq!(summary.to_string(), "3 of 4 records used, 1 skipped (too_long), 1 back in time");
    assert!(log.len() > 10 * LINE_BYTES_MAX);

    let mut binary = [0; 50];
    binary[16..24].fill(0xFF);
    let (accesses, summary) =
        read_accesses(&binary[..], Format::OracleGeneral, ReadLimits::default()).unwrap();
    assert_eq!((accesses.len(), summary.skipped(Skip::Cut)), (2, 1));
}

#[test]
fn concatenated_files_are_read_by_their_own_headers() {
    let trace = b"# a remark\ntime,key\n1,7\n2,session\nkey,x,time_ms\n8,0,3000\nnone,4\n";
    let (accesses, summary) = read_accesses(&trace[..], Format::Csv, ReadLimits::default()).unwrap();
    let times: Vec<u64> = accesses.iter().map(|access| access.time_ms()).collect();
    assert_eq!((times, accesses[2].key()), (vec![0, 1000, 2000], 8));
    assert_eq!((summary.skipped(Skip::Empty), summary.skipped_in_all()), (3, 1), "{summary}");

    let log = b"\nbytes\thost\ttime\n5\ta\t10\nhost\ttime\nb\t20\nc\td\n";
    let (entries, summary) = read_log(&log[..], Format::Tsv, ReadLimits::default()).unwrap();
    let read: Vec<(u64, u64)> = entries.iter().map(|entry| (entry.time_ms, entry.reply_bytes)).collect();
    assert_eq!(read, [(10_000, 5), (20_000, 0)]);
    assert_eq!((summary.skipped(Skip::Empty), summary.skipped_in_all()), (3, 1), "{summary}");
}

#[test]
fn an_extended_log_goes_by_the_directives_above_each_line() {
    let log = b"before any\n#Fields: date time c-ip sc-bytes\n2015-05-17 10:05:03 a 5\n\
        #Date: 2015-05-18\n#Fields: c-ip time\nb 00:00:01\n2015-05-17 10:05:03 a 5\n";
    let (entries, summary) = read_log(&log[..], Format::W3c, ReadLimits::default()).unwrap();
    let read: Vec<(u64, u64)> = entries.iter().map(|entry| (entry.time_ms, entry.reply_bytes)).collect();
    assert_eq!(read, [(1_431_857_103_000, 5), (1_431_907_201_000, 0)]);
    assert_eq!(
        summary.to_string(),
        "2 of 7 records used, 3 skipped (empty), 1 skipped (fields_missing), 1 skipped (quoting)"
    );
}

#[test]
fn reading_stops_at_the_limit_and_reports_it() {
    let log = b"1,1\n2,2\n3,3\n4,4\n";
    let (found, summary) = read(Format::Csv, log, ReadLimits { records_max: 2 });
    assert_eq!((found, summary.limited), (2, true));
    let (found, summary) = read(Format::Csv, log, ReadLimits { records_max: 4 });
    assert_eq!((found, summary.limited), (4, false));
}

#[test]
fn input_without_usable_records_is_an_error_with_a_reason() {
    let error = read_log(&b""[..], Format::Clf, ReadLimits::default()).unwrap_err();
    assert_eq!(error.to_string(), "the input is empty");
    let error = read_log(&b"x\ny\n"[..], Format::Clf, ReadLimits::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "no record can be used: 0 of 2 records used, 2 skipped (fields_missing); is this the right format?"
    );
}
