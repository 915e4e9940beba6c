//! Errors, their exit status, and the words that a user needs.

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use crate::bytes::{block, enhanced, gzip, pcap, pcap_header, pcap_record, pcapng_header, udp_frame};
use crate::support::{Folder, Outcome, check_balance, command, flowloom, flowloom_fed, number};

const ACCEPTED: &str = "accepted: pcap, pcapng, and either of them in gzip, zstd, xz or lz4";

/// Runs `replay --format json` on a file and some options.
fn json_of(path: &str, options: &[&str]) -> Outcome {
    flowloom([&["replay", path, "--format", "json", "--no-pin"], options].concat())
}

#[test]
fn what_is_no_capture_cannot_be_read() {
    let folder = Folder::new();
    let text = folder.write("notes.pcap", b"GIF89a, and more of it");
    let empty = folder.write("empty.pcap", b"");
    let cut_gzip = folder.write("cut.gz", &[0x1F, 0x8B, 0x6E, 0x6F]);
    let packed_text = folder.write("text.gz", &gzip(b"hello, this is text"));
    let missing = folder.path("missing.pcap");
    let bzip2 = folder.write("t.pcap.bz2", b"BZh91AY&SY");
    let snoop = folder.write("t.snoop", b"snoop\0\0\0\0\0\0\x02");
    std::fs::create_dir(folder.path("bare")).unwrap();
    std::fs::create_dir(folder.path("texts")).unwrap();
    folder.write("texts/notes.txt", b"nothing");
    for verb in ["replay", "inspect"] {
        for (path, parts) in [
            (&text, &["notes.pcap is not a capture file", "47 49 46", ACCEPTED][..]),
            (&empty, &["empty.pcap is empty"]),
            (&cut_gzip, &["cut.gz is not a capture file", "1f 8b 6e 6f", "does not decompress", ACCEPTED]),
            (&packed_text, &["text.gz is not a capture file", "neither pcap nor pcapng"]),
            (&missing, &["cannot read", "missing.pcap", "No such file"]),
            (&bzip2, &["this is bzip2; unpack it first: bzip2 -dc FILE", ACCEPTED]),
            (&snoop, &["this is a capture of snoop; editcap -F pcapng", ACCEPTED]),
            (
                &folder.path("bare"),
                &["directory", "bare contains no capture", "files checked: 0", ACCEPTED],
            ),
            (
                &folder.path("texts"),
                &["directory", "texts contains no capture", "files checked: 1", ACCEPTED],
            ),
        ] {
            let outcome = flowloom([verb, path]).ends(3).says(&["error: ", "[exit 3]"]).says(parts);
            assert_eq!(outcome.text(), "", "{verb}: no result without input");
            assert!(outcome.stderr.lines().next().unwrap().ends_with("[exit 3]"), "{}", outcome.stderr);
        }
    }
    for verb in ["replay", "inspect"] {
        flowloom_fed([verb, "-"], b"GIF89a")
            .ends(3)
            .says(&["error: standard input is not a capture file", "[exit 3]"]);
        flowloom_fed([verb, "-"], b"").ends(3).says(&["error: standard input is empty", "[exit 3]"]);
    }
    flowloom_fed(["replay", "-", "--workers", "2"], b"GIF89a").ends(3);
    let good = folder.write("good.pcap", &pcap(3));
    let outcome = flowloom_fed(["replay", &good, "-", "--concat", "--format", "json"], b"GIF89a").ends(6);
    check_balance(&outcome.json());
    assert_eq!(number(&outcome.json(), "packets"), 3, "what was processed is not lost");
    // To be merged by time, all files are opened before the first packet.
    flowloom_fed(["replay", &good, "-"], b"GIF89a").ends(3).says(&["standard input is not a capture file"]);
}

#[test]
fn names_of_files_do_not_steer_a_terminal() {
    let folder = Folder::new();
    let name = "a\u{1b}[2Jb\rc\u{9b}31md\nPackets 7.pcap";
    let shown = "a\u{fffd}[2Jb\u{fffd}c\u{fffd}31md\u{fffd}Packets 7.pcap";
    let good = folder.write(name, &pcap(3));
    let text = folder.write(&format!("{name}.txt"), b"nothing");
    let left_out = format!("{shown}.txt is not a capture");
    let is_harmless = |text: &str| !text.chars().any(|c| c.is_control() && c != '\n');
    for verb in ["inspect", "replay"] {
        for outcome in [
            flowloom([verb, &good]).ends(0).shows(&[shown]),
            flowloom([verb, &folder.path("")]).ends(0).shows(&[shown]).says(&[&left_out]),
            flowloom([verb, &text]).ends(3).says(&[&left_out]),
        ] {
            assert!(is_harmless(outcome.text()) && is_harmless(&outcome.stderr), "{outcome:?}");
        }
    }
    let document = flowloom(["inspect", &good, "--format", "json"]).json();
    assert!(
        document["files"][0]["path"].as_str().unwrap().ends_with(name),
        "programs get the name as it is"
    );
}

#[test]
fn a_file_that_may_not_grow_is_an_error_of_writing() {
    let folder = Folder::new();
    let path = folder.write("t.pcap", &pcap(600));
    for option in ["--flows", "--write"] {
        let written = folder.path("written");
        let arguments =
            [env!("CARGO_BIN_EXE_flowloom"), "replay", &path, "--format", "json", option, &written];
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -f 1; exec \"$@\"", "sh"]).args(arguments);
        let output = command.output().unwrap();
        let outcome = Outcome::of(&command, output).ends(5).says(&["File too large", "[exit 5]"]);
        check_balance(&outcome.json());
    }
}

#[test]
fn what_cannot_be_said_changes_neither_result_nor_status() {
    let folder = Folder::new();
    let pcap = pcap(3);
    let cut = folder.write("cut.pcap", &pcap[..pcap.len() - 5]);
    let options = ["--format", "json", "--strict", "--no-pin"];
    for (arguments, status) in [
        ([&["replay", &cut], &options[..]].concat(), 4),
        (vec!["inspect", &cut, "--format", "json"], 0),
        (vec!["inspect", "missing"], 3),
        (vec!["inspect", "--missing"], 2),
    ] {
        let heard = command(&arguments).output().unwrap();
        let mut mute = command(&arguments);
        let output =
            mute.stderr(File::options().write(true).open("/dev/full").unwrap()).stdout(Stdio::piped());
        let output = output.spawn().unwrap().wait_with_output().unwrap();
        let outcome = Outcome::of(&mute, output).ends(status);
        assert!(!heard.stderr.is_empty(), "{}", outcome.line);
        assert_eq!(outcome.stdout.is_empty(), heard.stdout.is_empty(), "{}", outcome.line);
        if status == 4 {
            assert_eq!(number(&outcome.json(), "packets"), 2);
        }
    }
}

#[test]
fn a_file_without_permission_cannot_be_read() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::new();
    let path = folder.write("t.pcap", &pcap(3));
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o000)).unwrap();
    if File::open(&path).is_ok() {
        eprintln!("not run: this user may read every file");
        return;
    }
    flowloom(["replay", &path]).ends(3).says(&["cannot read", "t.pcap", "ermission denied", "[exit 3]"]);
}

/// A capture that is used in part: exit status 0 with a warning, or 4 with `--strict`, and the same
/// result in both cases.
fn used_in_part(path: &str, packets: u64, parts: &[&str]) {
    for layout in [&[][..], &["--workers", "2"], &["--no-mmap"]] {
        let lax = json_of(path, layout).ends(0).says(&["warning: ", "--strict"]).says(parts);
        let strict = json_of(path, &[layout, &["--strict"]].concat()).ends(4);
        let strict = strict.says(&["error: ", "[exit 4]"]).says(parts);
        for document in [lax.json(), strict.json()] {
            check_balance(&document);
            assert_eq!(number(&document, "packets"), packets, "{path}");
            assert_eq!(document["notices"].as_array().unwrap().len(), 1, "{path}");
        }
    }
    flowloom(["inspect", path]).ends(0).says(&["warning: "]).says(parts);
    let strict = flowloom(["inspect", path, "--strict", "--format", "json"]).ends(4).says(parts);
    assert_eq!(number(&strict.json(), "packets"), packets, "{path}");
}

#[test]
fn a_capture_cut_inside_a_record_is_used_up_to_there() {
    let folder = Folder::new();
    let whole = pcap(10);
    // The last record begins 62 bytes before the end: 16 of header, 46 of packet.
    let path = folder.write("cut.pcap", &whole[..whole.len() - 7]);
    let offset = format!("byte {}", whole.len() - 62);
    let parts = ["cut.pcap ends inside packet 10", &offset, "55 of 62 bytes", "9 complete packets"];
    used_in_part(&path, 9, &parts);
    let header = folder.write("header.pcap", &whole[..whole.len() - 50]);
    used_in_part(&header, 9, &["header.pcap ends inside packet 10", "12 of "]);
}

#[test]
fn a_length_that_cannot_be_true_ends_the_reading() {
    let folder = Folder::new();
    let mut file = pcap(5);
    file.extend(pcap_record(9, 0x7FFF_FFFF, 60, &[0; 60]));
    let path = folder.write("corrupt.pcap", &file);
    used_in_part(&path, 5, &["corrupt.pcap is corrupt", "before packet 6", "2147483647"]);

    let mut file = pcapng_header(&[1]);
    file.extend(enhanced(0, 1, 46, &udp_frame(7)));
    file.extend(6_u32.to_le_bytes());
    file.extend(0x4000_0000_u32.to_le_bytes());
    file.extend([0; 200]);
    let path = folder.write("block.pcapng", &file);
    used_in_part(&path, 1, &["block.pcapng is corrupt", "before packet 2", "1073741824"]);
}

#[test]
fn a_packed_capture_cut_short_is_used_up_to_there() {
    let folder = Folder::new();
    let packed = gzip(&pcap(30_000));
    let path = folder.write("cut.pcap.gz", &packed[..packed.len() / 2]);
    let outcome = json_of(&path, &[]).ends(0).says(&["warning: ", "cut.pcap.gz", "--strict"]);
    let document = outcome.json();
    check_balance(&document);
    assert!((1000..30_000).contains(&number(&document, "packets")));
    json_of(&path, &["--strict"]).ends(4).says(&["[exit 4]"]);
}

#[test]
fn an_input_is_never_written_over() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("captures")).unwrap();
    let bytes = pcap(5);
    let capture = folder.write("captures/t.pcap", &bytes);
    let rules = folder.write("acl.rules", b"@1.2.3.4/32 0.0.0.0/0 0 : 65535 0 : 65535 0x06/0xff\n");
    let link = folder.path("link.pcap");
    std::os::unix::fs::symlink(&capture, &link).unwrap();
    let hard = folder.path("hard.pcap");
    std::fs::hard_link(&capture, &hard).unwrap();
    let (all, new) = (folder.path("captures"), folder.path("new"));
    for arguments in [
        &[&capture, "--write", &capture][..],
        &[&capture, "--flows-format", "csv", "--flows", &capture],
        &[&capture, "--write", &link],
        &[&capture, "--write", &hard],
        &[&all, "--write", &capture],
        &[&capture, "--rules", &rules, "--flows-format", "csv", "--flows", &rules],
    ] {
        let line = [&["replay"], arguments].concat();
        flowloom(line).ends(2).says(&["would overwrite an input", "name another file", "[exit 2]"]);
    }
    let redirected = File::open(&capture).unwrap();
    let mut fed = command(["replay", "-", "--write", &capture]);
    let output = fed.stdin(redirected).output().unwrap();
    Outcome::of(&fed, output).ends(2).says(&["would overwrite an input"]);
    flowloom(["replay", &capture, "--write", &new, "--flows", &new])
        .ends(2)
        .says(&["name the same file", "use two files"]);
    let odd = folder.write("captures/result.json", &bytes);
    flowloom(["replay", &odd, "--save", &all]).ends(2).says(&["--save ", "would overwrite an input"]);
    for (option, name) in [("--flows", "packets.csv"), ("--write", "report.html")] {
        let path = format!("{all}/{name}");
        let outcome = flowloom(["replay", &capture, option, &path, "--save", &all]).ends(2);
        outcome.says(&[&format!("--save and {option} would write the same file"), name, "another folder"]);
        assert!(!std::path::Path::new(&path).exists());
    }
    assert_eq!([&capture, &odd].map(|path| std::fs::read(path).unwrap()), [&bytes[..], &bytes]);
    assert_ne!(std::fs::read(&rules).unwrap(), b"");
    flowloom(["replay", "-q", &capture, "--write", "/dev/null", "--flows", "/dev/null"]).ends(0);
}

#[test]
fn a_lying_captured_length_is_cut_to_its_block_and_counted() {
    let folder = Folder::new();
    let mut file = pcapng_header(&[1]);
    file.extend(enhanced(0, 1, 4_000_000_000, &udp_frame(7)));
    file.extend(enhanced(0, 2, 46, &udp_frame(8)));
    let path = folder.write("lie.pcapng", &file);
    let document = json_of(&path, &[]).ends(0).json();
    check_balance(&document);
    assert_eq!(number(&document, "packets"), 2);
    assert_eq!(number(&document, "lying_lengths"), 1);
    let words = flowloom(["replay", &path]).ends(0);
    assert!(words.text().contains("captured length above the record's"), "{}", words.text());
    for verb in ["replay", "inspect"] {
        let lie = "is corrupt: a packet states more captured bytes than the record contains";
        flowloom([verb, &path]).ends(0).says(&["warning: ", lie, "--strict"]);
        flowloom([verb, &path, "--strict"]).ends(4).says(&[lie, "[exit 4]"]);
    }
}

#[test]
fn a_packet_of_no_declared_interface_is_called_that() {
    let folder = Folder::new();
    let mut file = pcapng_header(&[1]);
    file.extend(enhanced(0, 1, 46, &udp_frame(7)));
    file.extend(enhanced(9, 2, 46, &udp_frame(8)));
    let path = folder.write("t.pcapng", &file);
    flowloom(["inspect", &path, "--why"]).ends(0).shows(&["an interface that the capture never declared"]);
}

#[test]
fn time_that_goes_backwards_is_counted() {
    let folder = Folder::new();
    let mut file = pcap_header(1);
    for second in [10, 20, 15, 30, 5] {
        file.extend(pcap_record(second, 46, 46, &udp_frame(7)));
    }
    let path = folder.write("back.pcap", &file);
    let document = json_of(&path, &["--verify"]).ends(0).json();
    assert_eq!(number(&document, "time_backwards"), 2);
    assert_eq!(number(&document, "first_ns"), 10_000_000_000);
    assert_eq!(number(&document, "last_ns"), 30_000_000_000);
    let inspected = flowloom(["inspect", &path, "--format", "json"]).ends(0).json();
    assert_eq!(number(&inspected, "time_backwards"), 2);
}

#[test]
fn captured_bytes_beyond_the_wire_are_counted() {
    let folder = Folder::new();
    let mut file = pcap_header(1);
    file.extend(pcap_record(1, 46, 40, &udp_frame(7)));
    let path = folder.write("more.pcap", &file);
    assert_eq!(number(&json_of(&path, &[]).ends(0).json(), "captured_over_wire"), 1);
}

#[test]
fn a_capture_of_an_undecodable_link_type_is_refused_by_name() {
    let folder = Folder::new();
    let mut classic = pcap_header(190);
    classic.extend(pcap_record(1, 16, 16, &[0; 16]));
    let classic = folder.write("bus.pcap", &classic);
    let mut next = pcapng_header(&[190]);
    next.extend(enhanced(0, 1, 16, &[0; 16]));
    let next = folder.write("bus.pcapng", &next);
    for verb in ["replay", "inspect"] {
        for path in [&classic, &next] {
            flowloom([verb, path]).ends(3).says(&[
                "no interface of ",
                "can be decoded: link type 190 (CAN)",
                "[exit 3]",
                "supported: 0 1 6 7 8 9",
            ]);
        }
    }
    json_of(&next, &["--workers", "2"]).ends(3).says(&["190 (CAN)"]);
    // Also if the end, where this is certain, is not reached.
    for arguments in [["replay", &next, "--limit", "1"], ["inspect", &next, "--limit", "1"]] {
        flowloom(arguments).ends(3).says(&["can be decoded: link type 190 (CAN)", "[exit 3]"]);
    }
    json_of(&next, &["--limit", "1", "--workers", "2"]).ends(3).says(&["190 (CAN)"]);
    let plain = folder.write("plain.pcap", &pcap(3));
    flowloom(["replay", &next, &plain, "--limit", "1"]).ends(0);
    flowloom(["replay", &plain, &next, "--limit", "4"]).ends(0);
}

#[test]
fn packets_of_an_undecodable_interface_among_others_are_counted_by_name() {
    let folder = Folder::new();
    let mut file = pcapng_header(&[1, 190]);
    for i in 0..10 {
        file.extend(enhanced(i % 2, i, 46, &udp_frame(7)));
    }
    let path = folder.write("mixed.pcapng", &file);
    for layout in [&[][..], &["--workers", "2"]] {
        let document = json_of(&path, &[&["--strict"], layout].concat()).ends(0).json();
        check_balance(&document);
        assert_eq!(document["not_tracked"]["unsupported"], 5);
        assert_eq!(document["unsupported_links"]["190 (CAN)"], 5);
        assert_eq!(number(&document, "decoded"), 5);
    }
    let words = flowloom(["replay", &path]).ends(0);
    assert!(words.text().contains("link type 190 (CAN): 5"), "{}", words.text());
}

#[test]
fn a_bomb_is_stopped_with_a_balanced_report() {
    let folder = Folder::new();
    // Records of zeros up to 300 MiB, beyond the size at which the ratio is checked.
    let mut records = Vec::new();
    while records.len() < 1 << 20 {
        records.extend(pcap_record(1, 65_000, 65_000, &vec![0; 65_000]));
    }
    let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut writer, &pcap_header(1)).unwrap();
    for _ in 0..300 {
        std::io::Write::write_all(&mut writer, &records).unwrap();
    }
    let packed = writer.finish().unwrap();
    let ratio = 300 * records.len() / packed.len();
    let path = folder.write("bomb.gz", &packed);

    let by_size = json_of(&path, &["--unpack-max", "8M"]).ends(6);
    let by_size =
        by_size.says(&["error: ", "bomb.gz exceeds the unpack limit", "8000000 bytes", "[exit 6]"]);
    let mut outcomes = vec![by_size, json_of(&path, &["--unpack-max", "8M", "--workers", "2"]).ends(6)];
    if ratio > 250 {
        outcomes.push(json_of(&path, &["--unpack-ratio-max", "250"]).ends(6).says(&["250 to 1"]));
        json_of(&path, &[]).ends(0);
    } else {
        eprintln!("not run: this compressor reaches only {ratio} to 1");
    }
    for outcome in outcomes {
        let document = outcome.json();
        check_balance(&document);
        assert!(number(&document, "packets") > 0);
        assert_eq!(document["complete"], false);
        assert!(document["fault"].as_str().unwrap().contains("exceeds the unpack limit"));
    }
}

#[test]
fn arguments_that_cannot_be_met_are_refused_with_the_reason() {
    let folder = Folder::new();
    let path = folder.write("t.pcap", &pcap(5));
    for (options, parts) in [
        (
            &["--cores", "4000"][..],
            &["CPU 4000 does not exist or is not allowed", "allowed: ", "[exit 2]"][..],
        ),
        (&["--cores", "x,y"], &["`x` is not a CPU number", "[exit 2]"]),
        (&["--cores", "5-2"], &["5-2 is descending"]),
        (&["--cores", "0", "--workers", "2"], &["1 for 2 threads", "one CPU per worker"]),
        (
            &["--cores", "0", "--layout", "pipeline", "--workers", "1"],
            &["1 for 2 threads", "one for the input"],
        ),
        (
            &["--layout", "inline", "--workers", "2"],
            &["--layout inline has no workers", "use another layout"],
        ),
        (&["--workers", "0"], &["invalid number of workers 0", "from 1 to"]),
        (&["--workers", "100000"], &["invalid number of workers 100000"]),
        (&["--workers", "1", "--ring", "100"], &["invalid ring size 100", "power of two"]),
        (&["--verify", "--full", "drop"], &["--verify needs every packet", "--full block"]),
        (&["--verify", "--loop"], &["--verify with --loop needs a --limit"]),
        (&["--isa", "mmx"], &["not support the instruction set 'mmx'", "available: auto, scalar"]),
        (&["--no-pin", "--cores", "0"], &["cannot be used with"]),
        (&["--loop", "--passes", "2"], &["cannot be used with"]),
        (&["--passes", "0"], &["--passes", "'0' is not a whole number between 1 and "]),
        (&["--workers", "abc"], &["--workers <N>", "'abc' is not a whole number: write digits, such as 8"]),
        (&["--listen", "9100"], &["--listen", "write 127.0.0.1:9100"]),
        (&["--speed", "fast"], &["--speed", "'fast' is not a pace", "max, x1, x10"]),
        (&["--speed", "0"], &["'0' is not a pace"]),
        (&["--speed", "x-1"], &["x and a positive factor"]),
        (&["--limit", "many"], &["--limit", "'many' is not a count", "k, M or G"]),
        (&["--limit", "99999999999G"], &["too large"]),
        (&["--limit", "-1"], &["'-1' is not a count", "k, M or G"]),
        (&["--timeout", "-0.5"], &["'-0.5' is not a number of seconds above 0"]),
        (&["-1"], &["unexpected argument '-1'"]),
        (&["--timeout", "0"], &["--timeout", "number of seconds"]),
        (&["--flows-max", "0"], &["--flows-max", "at least 1"]),
        (&["--unpack-max", "0"], &["--unpack-max", "at least 1"]),
        (&["--table", "tabel"], &["'tabel'", "dhash"]),
        (&["--format", "xml"], &["'xml'", "json"]),
        (&["--wrokers", "2"], &["--wrokers", "--workers"]),
    ] {
        let outcome =
            flowloom([&["replay", &path], options].concat()).ends(2).says(&["error: "]).says(parts);
        assert_eq!(outcome.text(), "", "{options:?}");
    }
    flowloom(["replay"]).ends(2).says(&[
        "<FILE|--iface <INTERFACE>>",
        "tip: FILE  Captures: files, directories, or - for standard input",
        "tip: --iface  Capture on this interface",
    ]);
    flowloom(["rules", "check"]).ends(2).says(&["tip: RULES  ", "iptables-save"]);
    flowloom(["rplay"]).ends(2).says(&["replay"]);
}

#[test]
fn a_line_that_is_wrong_is_shown_in_the_colour_it_asks_for() {
    for (line, is_coloured) in [
        (&["replay", "--wrokers", "--color", "always"][..], true),
        (&["--color=always", "rplay"], true),
        (&["--color=always", "rplay", "--color", "never"], false),
        (&["rplay", "--color=alwys"], false),
        (&["replay", "--wrokers", "--", "--color=always"], false),
    ] {
        let outcome = flowloom(line).ends(2);
        assert_eq!(outcome.stderr.contains('\u{1b}'), is_coloured, "{line:?}: {}", outcome.stderr);
    }
}

#[test]
fn standard_input_is_read_once() {
    let input = pcap(5);
    flowloom_fed(["replay", "-", "--passes", "2"], &input).ends(2).says(&["only once", "[exit 2]"]);
    flowloom_fed(["replay", "-", "--loop"], &input).ends(2).says(&["only once"]);
    flowloom_fed(["replay", "-", "-"], &input).ends(2).says(&["only once"]);
    flowloom_fed(["replay", "-", "--verify"], &input).ends(2).says(&["reads the input twice", "save it"]);
    flowloom_fed(["replay", "-"], &input).ends(0);
}

#[test]
fn a_result_outlives_a_flow_file_that_cannot_be_written() {
    let folder = Folder::new();
    let path = folder.write("t.pcap", &pcap(500));
    let outcome = json_of(&path, &["--flows", "/dev/full"]).ends(5);
    let outcome = outcome.says(&["error: cannot write flows to /dev/full", "No space left", "[exit 5]"]);
    check_balance(&outcome.json());
    assert_eq!(number(&outcome.json(), "flows"), 500);
}

#[test]
fn captures_put_behind_each_other_are_all_used_and_told_of() {
    let folder = Folder::new();
    let (one, two) = (pcap(500), pcap(300));
    let both = [&one[..], &two].concat();
    let padded = [gzip(&both), vec![0; 2000]].concat();
    for path in [folder.write("both.pcap", &both), folder.write("both.pcap.gz", &padded)] {
        for options in [&["--strict"][..], &["--no-mmap"], &["--workers", "2"]] {
            let offset = format!("the second begins at byte {}", one.len());
            let outcome = json_of(&path, options).ends(0);
            let outcome =
                outcome.says(&["warning: ", "consists of 2 concatenated captures", &offset, "mergecap"]);
            assert!(!outcome.stderr.contains("--strict"), "nothing is lacking: {}", outcome.stderr);
            assert_eq!(number(&outcome.json(), "packets"), 800);
        }
    }
}

#[test]
fn what_cannot_be_opened_for_writing_is_told_before_the_run() {
    let folder = Folder::new();
    // A run that would take longer than the test may.
    let path = folder.write("t.pcap", &pcap(60_000));
    let nowhere = folder.path("no/such/folder.csv");
    for (option, what) in [("--flows", "flows"), ("--write", "packets")] {
        let said = format!("error: cannot write {what} to {nowhere}: No such file");
        let outcome =
            json_of(&path, &["--speed", "10", option, &nowhere]).ends(5).says(&[&said, "[exit 5]"]);
        assert_eq!(outcome.text(), "");
    }
    flowloom(["replay", &path, "--write", "-"]).ends(2).says(&["needs a file"]);
    let records = flowloom(["replay", &path, "--limit", "10", "--flows", "-"]).ends(0);
    assert!(records.text().starts_with("source,destination,"), "{}", records.text());
    records.says(&["Packets     10"]);
}

#[test]
fn a_run_that_is_refused_leaves_files_as_they_were() {
    let folder = Folder::new();
    let path = folder.write("t.pcap", &pcap(5));
    let old = folder.write("old.csv", b"from last week");
    let new = folder.path("new.pcapng");
    let outputs = ["--flows", &old, "--write", &new];
    let missing = folder.path("missing.pcap");
    for (input, options, status) in [
        (&path, &["--ring", "100", "--workers", "1"][..], 2),
        (&path, &["--cores", "0", "--workers", "2"], 2),
        (&path, &["--cores", "99999"], 2),
        (&path, &["--save", &old], 5),
        (&missing, &[], 3),
    ] {
        flowloom([&["replay", input.as_str()], options, &outputs].concat()).ends(status);
        assert_eq!(std::fs::read(&old).unwrap(), b"from last week", "{options:?}");
        assert!(!std::fs::exists(&new).unwrap(), "{options:?}");
    }
    flowloom([&["replay", path.as_str()][..], &outputs].concat()).ends(0);
    assert_eq!(std::fs::read_to_string(&old).unwrap().lines().count(), 6);
    assert!(std::fs::read(&new).unwrap().starts_with(&[0x0A, 0x0D, 0x0D, 0x0A]));
    let twice = format!("{}/./new.pcapng", folder.path(""));
    flowloom(["replay", &path, "--flows-format", "csv", "--flows", &twice, "--write", &new])
        .ends(2)
        .says(&["name the same file"]);
}

#[test]
fn a_limit_is_one_at_least_for_every_verb() {
    let folder = Folder::new();
    let path = folder.write("t.pcap", &pcap(5));
    for verb in [
        &["replay", &path][..],
        &["inspect", &path],
        &["classify", &path, "--rules", &path],
        &["simulate", "tcb-cache", &path],
    ] {
        let zero = flowloom([verb, &["--limit", "0"]].concat()).ends(2);
        zero.says(&["invalid value '0' for '--limit <N>': must be at least 1"]);
        let help = flowloom([verb, &["--help"]].concat()).ends(0);
        assert!(help.text().contains("Stop after N "), "{}", help.line);
    }
}

#[test]
fn what_would_have_no_effect_or_another_one_is_refused() {
    let folder = Folder::new();
    let path = folder.write("t.pcap", &pcap(5));
    for name in ["u.pcap.lz4", "u.XZ"] {
        let output = folder.path(name);
        for arguments in [
            &["generate", "trace", "-o", &output][..],
            &["replay", &path, "--write", &output],
            &["extract", &path, "--where", "bytes > 0", "-o", &output],
        ] {
            flowloom(arguments).ends(2).says(&["cannot be written", "use .gz or .zst"]);
        }
        assert!(!std::fs::exists(&output).unwrap());
    }
    let output = folder.path("u.pcapng");
    flowloom(["generate", "trace", "-o", &output, "--time-unit", "us"]).ends(2).says(&["for pcap: pcapng"]);
    flowloom(["reproduce", "list", "--save", &output]).ends(2).says(&["list runs nothing"]);
    flowloom(["replay", &path, "--collector", "127.0.0.1:9"]).ends(2).says(&["use ipfix://127.0.0.1:9"]);
}

#[test]
fn a_reader_that_has_had_enough_is_no_error() {
    let folder = Folder::new();
    let path = folder.write("t.pcap", &pcap(5));
    let flows = folder.path("flows.csv");
    for arguments in [
        &["replay", &path, "--format", "json", "--flows", &flows][..],
        &["inspect", &path],
        &["completions", "zsh"],
        &["generate", "trace", "-o", "-"],
        &["help"],
    ] {
        let mut command = command(arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let mut said = String::new();
        child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        let status = child.wait().unwrap();
        assert_eq!((status.code(), said.as_str()), (Some(0), ""), "{arguments:?}");
    }
    let written = std::fs::read_to_string(&flows).expect("the flows are written all the same");
    assert_eq!(written.lines().count(), 6);
}

#[test]
fn a_pcapng_without_a_section_or_with_unknown_blocks_is_handled() {
    let folder = Folder::new();
    let cut = folder.write("cut.pcapng", &pcapng_header(&[])[..20]);
    flowloom(["replay", &cut]).ends(3).says(&["no complete section header"]);
    let mut file = pcapng_header(&[1]);
    file.extend(block(0x0BAD, &[1; 40]));
    file.extend(enhanced(0, 1, 46, &udp_frame(7)));
    // A packet of an interface that was never declared.
    file.extend(enhanced(9, 2, 46, &udp_frame(7)));
    let path = folder.write("odd.pcapng", &file);
    let document = json_of(&path, &[]).ends(0).json();
    check_balance(&document);
    assert_eq!(number(&document, "packets"), 2);
    assert_eq!(document["not_tracked"]["unsupported"], 1);
}

#[test]
fn an_empty_capture_has_an_empty_result() {
    let folder = Folder::new();
    let path = folder.write("none.pcap", &pcap(0));
    for layout in [&[][..], &["--workers", "2"], &["--loop"], &["--verify"]] {
        let document = json_of(&path, layout).ends(0).silent().json();
        check_balance(&document);
        assert_eq!(number(&document, "packets"), 0, "{layout:?}");
        assert_eq!(number(&document, "flows"), 0, "{layout:?}");
    }
    flowloom(["inspect", &path, "--why", "--top", "3"]).ends(0).silent();
}

#[test]
fn an_interface_exists_and_can_be_read_once() {
    if cfg!(feature = "live") {
        flowloom(["replay", "--iface", "no-such-if"]).ends(3).says(&["no-such-if", "CAP_NET_RAW"]);
    } else if cfg!(target_os = "linux") {
        flowloom(["replay", "--iface", "no-such-if"]).ends(3).says(&[
            "no interface no-such-if",
            "interfaces: ",
            "lo",
        ]);
    }
    flowloom(["replay", "--iface", "lo", "--verify"]).ends(2).says(&["--verify reads the input twice"]);
    flowloom(["replay", "--iface", "lo", "t.pcap"]).ends(2).says(&["cannot be used with"]);
    flowloom(["replay", "t.pcap", "--promiscuous"]).ends(2).says(&["--iface"]);
    flowloom(["replay"]).ends(2);
}
