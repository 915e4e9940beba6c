use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;

use flowloom::apps::accounting::Accounted;
use flowloom::engine::EndedBy;
use flowloom::flow_key::FlowKey;
use flowloom::record::GroupSet;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::*;
use crate::record_view::FieldGroups;

fn plan() -> RecordPlan {
    RecordPlan::new(Accounted::schema(), None, FieldGroups::default(), None, None, GroupSet::NONE).unwrap()
}

fn open(to: &str) -> LastingWriter {
    let destination = Destination::parse(Path::new(to), None).unwrap();
    destination.open_lasting(to.to_owned(), plan(), true).unwrap()
}

fn give(writer: &mut LastingWriter, count: u16) -> u64 {
    let record = |port| {
        let (key, _) = FlowKey::from_v4(0x0A00_0001, 0x0A00_0002, port, 443, 6);
        FlowRecord::new(key, Accounted::default(), EndedBy::IdleTimeout)
    };
    let records: Vec<_> = (0..count).map(record).collect();
    RecordSink::write(writer, &records).unwrap();
    count.into()
}

fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "never: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Reads IPFIX messages until the collector has this many records, or none arrive for a while.
/// Returns the records; the first message of a session must have the templates.
fn received(stream: &mut TcpStream, is_first: bool, expected: u64) -> u64 {
    stream.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let (mut bytes, mut some) = (Vec::new(), vec![0; 65_536]);
    loop {
        let (mut rest, mut records, mut has_templates) = (&bytes[..], 0, false);
        while let [0, 10, a, b, ..] = *rest
            && let Some((message, after)) = rest.split_at_checked(usize::from(u16::from_be_bytes([a, b])))
        {
            let mut sets = &message[16..];
            while let [a, b, c, d, ..] = *sets {
                let (set, others) = sets.split_at(usize::from(u16::from_be_bytes([c, d])));
                match u16::from_be_bytes([a, b]) {
                    2 => has_templates = true,
                    256 => records += (set.len() as u64 - 4) / RECORD_BYTES,
                    other => panic!("an unexpected set {other}"),
                }
                sets = others;
            }
            assert!(has_templates || !is_first || records == 0, "records come before the templates");
            rest = after;
        }
        if records >= expected && rest.is_empty() {
            return records;
        }
        match stream.read(&mut some) {
            Ok(0) | Err(_) => return records,
            Ok(read) => bytes.extend_from_slice(&some[..read]),
        }
    }
}

/// The size of a record of IPv4 in IPFIX.
const RECORD_BYTES: u64 =
    4 + 4 + 2 + 2 + 1 + 8 + 8 + 8 + 8 + 2 * (8 + 8 + 8 + 2) + 2 + 2 + 2 + 2 + 4 + 4 + 1 + 1;

#[test]
fn records_for_an_absent_collector_are_counted_until_it_returns() {
    let at = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let mut writer = open(&format!("ipfix+tcp://{at}"));
    RecordSink::<Accounted>::tick(&mut writer).unwrap();
    let mut given = give(&mut writer, 100);
    assert!(writer.failure.is_some() && writer.lost == 0);
    let mut arrived = 0;
    for session in 0..3 {
        let listener = TcpListener::bind(at).unwrap();
        wait_for("connected", || {
            RecordSink::<Accounted>::tick(&mut writer).unwrap();
            writer.failure.is_none()
        });
        let (mut stream, _) = listener.accept().unwrap();
        arrived += received(&mut stream, true, given - arrived);
        assert_eq!((arrived, writer.lost), (given, 0), "session {session}");
        given += give(&mut writer, 50);
        arrived += received(&mut stream, false, 50);
        assert_eq!((arrived, writer.lost), (given, 0), "session {session}");
        drop((stream, listener));
        // The end of the connection has arrived before more is sent.
        wait_for("closed", || matches!(&writer.way, Way::Bytes(_, target) if target.is_lost()));
        given += give(&mut writer, 30);
        assert!(writer.failure.is_some());
    }
    while writer.lost == 0 {
        given += give(&mut writer, 256);
    }
    assert!(writer.held >= HELD_MAX);
    assert_eq!(arrived + writer.lost + writer.held, given);
    assert!(writer.finish().is_err());
    assert_eq!((arrived + writer.lost, writer.held), (given, 0));
}

#[test]
fn records_in_datagrams_that_are_refused_count_as_lost() {
    let unused = std::net::UdpSocket::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap();
    let mut writer = open(&format!("ipfix://{unused}"));
    let mut given = 0;
    for _ in 0..5 {
        given += give(&mut writer, 256);
        RecordSink::<Accounted>::tick(&mut writer).unwrap();
    }
    assert_eq!(writer.finish(), Ok(()));
    assert_eq!((writer.records_lost(), writer.held), (given, 0));
}

#[test]
fn invalid_collector_address_is_refused_at_the_start() {
    for wrong in ["ipfix+tcp://collector", "ipfix://:4739", "netflow9://a:99999", "ipfix+tcp://a:0"] {
        let destination = Destination::parse(Path::new(wrong), None).unwrap();
        let opened = destination.open_lasting(String::new(), plan(), true);
        assert_eq!(opened.err().map(|error| error.kind()), Some(io::ErrorKind::InvalidInput), "{wrong}");
    }
}

#[test]
fn new_reader_of_a_pipe_gets_the_header_and_whole_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe.csv");
    let made = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    let reader = std::thread::spawn({
        let path = path.clone();
        move || File::open(path).unwrap()
    });
    let mut writer = open(path.to_str().unwrap());
    let mut first = reader.join().unwrap();
    RecordSink::<Accounted>::tick(&mut writer).unwrap();
    let mut some = [0; 4096];
    let header = first.read(&mut some).unwrap();
    assert!(some[..header].starts_with(b"source,") && some[..header].ends_with(b"\n"));
    drop(first);
    let given = give(&mut writer, 10);
    assert!(writer.failure.is_some());
    assert_eq!(writer.lost, given, "its reader is gone");
    std::thread::sleep(RETRY_FIRST);
    // A pipe without a reader can be opened for reading.
    let mut second = File::from(
        rustix::fs::open(
            &path,
            rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK,
            rustix::fs::Mode::empty(),
        )
        .unwrap(),
    );
    give(&mut writer, 20);
    RecordSink::<Accounted>::tick(&mut writer).unwrap();
    assert!(writer.failure.is_none() && writer.finish().is_ok());
    let mut text = String::new();
    drop(writer);
    second.read_to_string(&mut text).unwrap();
    assert!(text.starts_with("source,") && text.ends_with('\n'));
    assert_eq!(text.lines().count(), 21);
}

#[test]
fn stalled_reader_loses_whole_records_only() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pipe.jsonl");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    let reader = std::thread::spawn({
        let path = path.clone();
        move || File::open(path).unwrap()
    });
    let mut writer = open(path.to_str().unwrap());
    let mut reader = reader.join().unwrap();
    let mut given = 0;
    while writer.lost == 0 {
        given += give(&mut writer, 256);
    }
    let reading = std::thread::spawn(move || {
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        text
    });
    wait_for("written again", || {
        RecordSink::<Accounted>::tick(&mut writer).unwrap();
        writer.failure.is_none()
    });
    given += give(&mut writer, 5);
    assert_eq!(writer.finish(), Ok(()));
    let lost = writer.lost;
    drop(writer);
    let text = reading.join().unwrap();
    assert_eq!(text.lines().count() as u64 + lost, given);
    assert!(text.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok()));
}

#[test]
fn full_disk_leaves_whole_records_and_writing_resumes_with_space() {
    run_alone("full_disk_in_this_process");
}

#[test]
fn whenever_a_disk_is_full_each_record_is_a_whole_line_or_counts_as_lost() {
    run_alone("disks_that_fill_at_random_in_this_process");
}

/// Runs a test in a process of its own, because the limit of a file's size is that of a process.
fn run_alone(name: &str) {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--ignored", "--exact", &format!("flow_file::lasting::tests::{name}")])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&child.stdout);
    assert!(child.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "it limits the size of all files of its process; another test runs it"]
fn disks_that_fill_at_random_in_this_process() {
    crate::signals::outlive_full_files();
    let unlimited = getrlimit(Resource::Fsize);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.jsonl");
    let mut lost = 0;
    for seed in 1..=60_u64 {
        let _ = std::fs::remove_file(&path);
        let mut state = seed;
        let mut draw = |below: u64| {
            // Marsaglia's xorshift.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let (mut writer, mut given) = (open(path.to_str().unwrap()), 0);
        for _ in 0..draw(40) {
            match draw(4) {
                0 => {
                    let size = std::fs::metadata(&path).map_or(0, |file| file.len());
                    let current = Some(size + draw(20_000));
                    setrlimit(Resource::Fsize, Rlimit { current, maximum: unlimited.maximum }).unwrap();
                }
                1 => setrlimit(Resource::Fsize, unlimited).unwrap(),
                2 => {
                    for _ in 0..draw(10) {
                        given += give(&mut writer, u16::try_from(draw(257)).unwrap());
                    }
                }
                _ => RecordSink::<Accounted>::tick(&mut writer).unwrap(),
            }
            if let Some(failing) = &mut writer.failure {
                failing.until = Instant::now() + Duration::from_secs(3600 * draw(2));
            }
        }
        let finished = writer.finish();
        setrlimit(Resource::Fsize, unlimited).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        let whole = |line: &str| serde_json::from_str::<serde_json::Value>(line).is_ok();
        assert!(text.lines().all(whole) && (text.is_empty() || text.ends_with('\n')), "seed {seed}");
        assert_eq!(text.lines().count() as u64 + writer.lost, given, "seed {seed}");
        assert!(finished.is_ok() || writer.lost > 0 || given == 0, "seed {seed}: {finished:?}");
        lost += writer.lost;
    }
    assert!(lost > 0, "no disk was full");
}

#[test]
#[ignore = "it limits the size of all files of its process; another test runs it"]
fn full_disk_in_this_process() {
    crate::signals::outlive_full_files();
    let unlimited = getrlimit(Resource::Fsize);
    let folder = tempfile::tempdir().unwrap();
    // The last one is a standard output that the shell has redirected.
    for name in
        ["a.csv", "a.jsonl", "a.log", "a.ipfix", "a.csv.gz", "a.jsonl.zst", "a.parquet", "a.arrows", "-"]
    {
        let path = folder.path().join(name);
        let mut writer = open(if name == "-" { "-" } else { path.to_str().unwrap() });
        if let ("-", Way::Bytes(_, target)) = (name, &mut writer.way) {
            let mut file = File::create(&path).unwrap();
            file.write_all(b"what stood there,\n").unwrap();
            *target = Target::Standard(file);
        }
        let mut given = give(&mut writer, 100);
        RecordSink::<Accounted>::flush(&mut writer).unwrap();
        let first = std::fs::read(&path).unwrap();
        assert!(!first.is_empty() && writer.failure.is_none(), "{name}");
        // Equal records add little to a Parquet file.
        let limit = first.len() as u64 + if name == "a.parquet" { 50 } else { 1000 };
        let limited = Rlimit { current: Some(limit), maximum: unlimited.maximum };
        setrlimit(Resource::Fsize, limited).unwrap();
        while writer.failure.is_none() {
            given += give(&mut writer, 100);
            RecordSink::<Accounted>::flush(&mut writer).unwrap();
        }
        let good = std::fs::read(&path).unwrap();
        // What a format replaces at the end is as it was.
        assert!(good.len() as u64 <= limit, "{name}");
        let whole = if name == "a.parquet" { good.ends_with(b"PAR1") } else { good.starts_with(&first) };
        assert!(whole, "{name}");
        if ["a.csv", "-"].contains(&name) {
            assert!(good.ends_with(b"\n"));
        }
        while writer.lost == 0 {
            given += give(&mut writer, 256);
        }
        let lost = writer.lost;
        setrlimit(Resource::Fsize, unlimited).unwrap();
        writer.failure.as_mut().unwrap().until = Instant::now();
        RecordSink::<Accounted>::tick(&mut writer).unwrap();
        assert!(writer.failure.is_none(), "{name}");
        given += give(&mut writer, 7);
        assert_eq!(writer.finish(), Ok(()), "{name}");
        assert_eq!(writer.lost, lost, "{name}");
        drop(writer);
        let bytes = std::fs::read(&path).unwrap();
        let mut text = Vec::new();
        crate::decompressed::unpack(io::Cursor::new(bytes.clone()))
            .unwrap()
            .read_to_end(&mut text)
            .unwrap();
        let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let headers = lines.clone().filter(|line| line.starts_with(b"source,") || line.starts_with(b"#"));
        match name {
            "a.csv" | "a.csv.gz" => {
                assert_eq!(headers.count(), 1, "{name}");
                assert_eq!(lines.clone().count() as u64, 1 + given - lost, "{name}");
                let commas = |line: &[u8]| line.split(|byte| *byte == b',').count();
                let first = lines.clone().next().map(commas);
                assert!(lines.map(commas).all(|count| Some(count) == first), "{name}");
            }
            "-" => assert_eq!(lines.count() as u64, 2 + given - lost, "{name}"),
            "a.jsonl" | "a.jsonl.zst" => assert_eq!(lines.count() as u64, given - lost, "{name}"),
            "a.log" => assert_eq!((lines.count() - headers.count()) as u64, given - lost, "{name}"),
            "a.parquet" => assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1")),
            "a.arrows" => {
                let reader = arrow_ipc::reader::StreamReader::try_new(&bytes[..], None).unwrap();
                let rows: usize = reader.map(|batch| batch.unwrap().num_rows()).sum();
                assert_eq!(rows as u64, given - lost, "{name}");
            }
            _ => {
                let messages = bytes.windows(2).filter(|pair| *pair == [0, 10]).count();
                assert!(messages > 0);
            }
        }
    }
}
