//! Sets of captures: directories, passes, skipped files, and inputs that can be read only once.

use std::path::PathBuf;

use flowloom_packet::{Fill, PacketBatch, PacketSource};
use flowloom_traffic::capture::{CaptureError, CaptureOptions, CaptureSet, Input, Notice, SetOptions};

use crate::{enhanced, gzip, interface, pcap, pcap_header, pcap_record, section, write_file};

fn drain_set(set: &mut CaptureSet) -> Vec<(u32, u64, usize)> {
    let mut batch = PacketBatch::new();
    let mut seen = Vec::new();
    while set.next_batch(&mut batch).unwrap() == Fill::Packets {
        seen.extend(batch.packets.iter().map(|raw| (batch.pass, raw.time_ns, raw.captured_bytes as usize)));
    }
    seen
}

/// Reads a file from a directory of its own, and returns the notices.
pub(crate) fn notices_of(name: &str, bytes: &[u8]) -> Vec<Notice> {
    let directory = tempfile::tempdir().unwrap();
    let inputs = [Input::Path(write_file(directory.path(), name, bytes))];
    let mut set = CaptureSet::open(&inputs, SetOptions::default()).unwrap();
    drain_set(&mut set);
    set.notices().to_vec()
}

fn one_packet_at(second: u32, size: usize) -> Vec<u8> {
    let mut file = pcap_header(0xA1B2_C3D4, 1, false);
    file.extend(pcap_record(second, 0, &vec![0; size], 60, false));
    file
}

#[test]
fn directory_is_read_by_first_timestamp_and_lists_omitted_files() {
    let directory = tempfile::tempdir().unwrap();
    write_file(directory.path(), "a.pcap", &one_packet_at(30, 3));
    write_file(directory.path(), "b.pcap", &one_packet_at(10, 1));
    write_file(directory.path(), "c.pcap.gz", &gzip(&one_packet_at(20, 2)));
    write_file(directory.path(), "notes.txt", b"not a capture");
    write_file(directory.path(), "empty", b"");
    let input = Input::Path(directory.path().to_path_buf());
    let mut set = CaptureSet::open(&[input], SetOptions::default()).unwrap();
    let captures = ["a.pcap", "b.pcap", "c.pcap.gz"];
    let bytes = captures.map(|name| std::fs::metadata(directory.path().join(name)).unwrap().len());
    assert_eq!(set.progress().total_bytes(), bytes.iter().sum());
    let sizes: Vec<usize> = drain_set(&mut set).into_iter().map(|(_, _, size)| size).collect();
    assert_eq!(sizes, [1, 2, 3]);
    assert_eq!(set.notices().len(), 2);
    assert!(set.notices().iter().all(|notice| !notice.is_partial_input()));
    assert_eq!(set.files().len(), 3);
}

#[test]
fn capture_read_in_part_is_listed() {
    let directory = tempfile::tempdir().unwrap();
    let path = write_file(directory.path(), "a.pcap", &pcap(100));
    let mut set = CaptureSet::open(&[Input::Path(path.clone())], SetOptions::default()).unwrap();
    assert!(set.files().is_empty());
    let mut batch = PacketBatch::new();
    assert_eq!(set.next_batch(&mut batch).unwrap(), Fill::Packets);
    let files = set.files();
    assert_eq!((files.len(), &files[0].path, files[0].packets), (1, &path, batch.packets.len() as u64));
    drain_set(&mut set);
    assert_eq!((set.files().len(), set.files()[0].packets), (1, 100));
    let options = SetOptions { passes: u32::MAX, ..SetOptions::default() };
    let mut set = CaptureSet::open(&[Input::Path(path)], options).unwrap();
    while set.packets() <= 100 {
        assert_eq!(set.next_batch(&mut batch).unwrap(), Fill::Packets);
    }
    assert_eq!(set.files()[0].packets, 100, "the second pass has only begun");
}

#[test]
fn a_directory_without_captures_is_an_error() {
    let directory = tempfile::tempdir().unwrap();
    write_file(directory.path(), "notes.txt", b"text");
    let input = Input::Path(directory.path().to_path_buf());
    let error = || CaptureSet::open(std::slice::from_ref(&input), SetOptions::default()).unwrap_err();
    assert!(matches!(error(), CaptureError::NoCaptures { files: 1, folders: 0, .. }), "{}", error());
    assert!(error().to_string().contains("(files checked: 1)"), "{}", error());
    let inner = directory.path().join("inner");
    std::fs::create_dir(&inner).unwrap();
    write_file(&inner, "a.pcap", &pcap(1));
    assert!(
        error().to_string().contains("(files checked: 1; subdirectories, which are not searched: 1)"),
        "{}",
        error()
    );
}

#[test]
fn passes_are_numbered_and_time_goes_on() {
    let directory = tempfile::tempdir().unwrap();
    let path = write_file(directory.path(), "a.pcap", &pcap(100));
    for map in [true, false] {
        let capture = CaptureOptions { map, ..CaptureOptions::default() };
        let options = SetOptions { capture, passes: 3, ..SetOptions::default() };
        let mut set = CaptureSet::open(&[Input::Path(path.clone())], options).unwrap();
        let seen = drain_set(&mut set);
        assert_eq!(seen.len(), 300);
        assert!(seen.windows(2).all(|pair| pair[0].1 < pair[1].1), "time goes on over passes");
        let gap_ns = (seen[99].1 - seen[0].1) / 100;
        assert_eq!((seen[100].1 - seen[99].1, seen[200].1 - seen[199].1), (gap_ns, gap_ns));
        assert_eq!(seen.iter().filter(|(pass, _, _)| *pass == 2).count(), 100);
        assert_eq!(set.progress().done_bytes(), set.progress().total_bytes());
    }
}

#[test]
fn an_empty_capture_looped_for_ever_ends() {
    let directory = tempfile::tempdir().unwrap();
    let path = write_file(directory.path(), "a.pcap", &pcap(0));
    let options = SetOptions { passes: u32::MAX, ..SetOptions::default() };
    let mut set = CaptureSet::open(&[Input::Path(path)], options).unwrap();
    assert_eq!(set.progress().total_bytes(), 0, "the number is unknown");
    assert_eq!(drain_set(&mut set), []);
}

#[test]
fn a_capture_of_which_nothing_can_be_decoded_is_an_error_that_names_the_link_type() {
    let directory = tempfile::tempdir().unwrap();
    let mut can = pcap_header(0xA1B2_C3D4, 190, false);
    can.extend(pcap_record(1, 0, &[0; 16], 16, false));
    let classic = write_file(directory.path(), "can.pcap", &can);
    let mut next = section(false);
    next.extend(interface(190, &[], false));
    next.extend(enhanced(0, 1, &[0; 16], 16, 16, false));
    let next = write_file(directory.path(), "can.pcapng", &next);
    let good = write_file(directory.path(), "good.pcap", &pcap(2));

    let error = CaptureSet::open(&[Input::Path(classic.clone())], SetOptions::default()).unwrap_err();
    assert!(error.to_string().contains("190 (CAN)"), "{error}");
    for passes in [1, 3, u32::MAX] {
        let options = SetOptions { passes, ..SetOptions::default() };
        let mut set = CaptureSet::open(&[Input::Path(next.clone())], options).unwrap();
        let mut batch = PacketBatch::new();
        assert_eq!(set.next_batch(&mut batch).unwrap(), Fill::Packets);
        let error = set.next_batch(&mut batch).expect_err("one pass is enough to know");
        assert!(error.to_string().contains("190 (CAN)"), "{error}");
    }

    let both = [Input::Path(classic), Input::Path(good)];
    let mut set = CaptureSet::open(&both, SetOptions::default()).unwrap();
    assert_eq!(drain_set(&mut set).len(), 3);
    assert!(matches!(set.notices(), [Notice::Undecodable { .. }]));
}

#[test]
fn standard_input_is_read_once() {
    let twice = [Input::Stdin, Input::Stdin];
    assert!(matches!(
        CaptureSet::open(&twice, SetOptions::default()).unwrap_err(),
        CaptureError::ReadOnce { .. }
    ));
    let passes = SetOptions { passes: 2, ..SetOptions::default() };
    assert!(matches!(
        CaptureSet::open(&[Input::Stdin], passes).unwrap_err(),
        CaptureError::ReadOnce { .. }
    ));
    assert!(CaptureSet::open(&[Input::Stdin], SetOptions::default()).is_ok());
}

#[cfg(unix)]
#[test]
fn device_is_read_once() {
    let input = [Input::Path(PathBuf::from("/dev/null"))];
    assert!(CaptureSet::open(&input, SetOptions::default()).is_ok());
    let error = CaptureSet::open(&input, SetOptions { passes: 2, ..SetOptions::default() }).unwrap_err();
    assert!(matches!(error, CaptureError::ReadOnce { .. }), "{error}");
}

#[test]
fn a_reader_that_stops_early_learns_whether_anything_could_be_decoded() {
    let directory = tempfile::tempdir().unwrap();
    // Interfaces of pcapng are unknown until the reader reaches them.
    let of_link = |name: &str, link: u16| {
        let mut file = [section(false), interface(link, &[], false)].concat();
        for second in 0..40 {
            file.extend(enhanced(0, second, &[0; 20], 20, 60, false));
        }
        Input::Path(write_file(directory.path(), name, &file))
    };
    let [usb, ethernet] = [of_link("usb.pcapng", 220), of_link("ethernet.pcapng", 1)];
    // A batch has at most 32 packets, so the second leaves eight, and the third comes from the next
    // file.
    let after = |inputs: &[&Input], batches: usize| {
        let inputs: Vec<Input> = inputs.iter().copied().cloned().collect();
        let mut set = CaptureSet::open(&inputs, SetOptions::default()).unwrap();
        let mut batch = PacketBatch::new();
        for _ in 0..batches {
            assert_eq!(set.next_batch(&mut batch).unwrap(), Fill::Packets);
        }
        match set.check_decodable() {
            Ok(()) => None,
            Err(CaptureError::NothingDecodable { path, links }) => {
                assert_eq!(links.iter().map(|link| link.0).collect::<Vec<_>>(), [220]);
                Some(path.file_name().unwrap().to_str().unwrap().to_owned())
            }
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(after(&[&usb], 0), None, "nothing was read");
    assert_eq!(after(&[&ethernet], 1), None);
    assert_eq!(after(&[&usb], 1).as_deref(), Some("usb.pcapng"));
    assert_eq!(after(&[&usb, &ethernet], 2), None, "the next may be decoded");
    assert_eq!(after(&[&usb, &ethernet], 3), None, "the second can be");
    assert_eq!(after(&[&ethernet, &usb], 3), None, "the first could be");
    let other = of_link("other.pcapng", 220);
    assert_eq!(after(&[&usb, &other], 3).as_deref(), Some("usb.pcapng"), "the first of them");
}
