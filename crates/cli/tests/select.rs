//! `replay --filter`, `--from` and `--to` on captures.

use crate::support::{Folder, flowloom, number, replay};

#[test]
fn a_filter_takes_the_same_packets_in_every_layout() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &[]);
    let whole = number(&replay(&[&trace]), "packets");
    let mut selected = 0;
    for filter in ["tcp", "not tcp"] {
        let mut digests = Vec::new();
        for layout in [&[][..], &["--workers", "3"], &["--layout", "pipeline", "--workers", "2"]] {
            let document = replay(&[&[trace.as_str(), "--filter", filter, "--verify"], layout].concat());
            assert_eq!(
                number(&document, "packets") + number(&document, "passed_over"),
                whole,
                "{layout:?}"
            );
            digests.push((document["digest"].clone(), number(&document, "packets")));
        }
        digests.dedup();
        assert_eq!(digests.len(), 1, "{filter}: {digests:?}");
        selected += digests[0].1;
    }
    assert_eq!(selected, whole);
    let none = replay(&[&trace, "--filter", "host 203.0.113.77"]);
    assert_eq!((number(&none, "packets"), number(&none, "passed_over")), (0, whole));
    flowloom(["replay", &trace, "--filter", "tcp prot 80"]).ends(2).says(&["--filter", "column 5"]);
}

#[test]
fn times_are_taken_from_one_to_before_another() {
    let folder = Folder::new();
    let trace = folder.trace("t.pcap", &["--rate", "1k"]);
    let whole = replay(&[&trace]);
    let first = number(&whole, "first_ns");
    let mut sum = 0;
    for (from, to) in [(0, 1), (1, 2), (2, 1000)] {
        let (from, to) = (format!("+{from}"), format!("+{to}"));
        let mut both = Vec::new();
        for layout in [&[][..], &["--workers", "2"]] {
            let part = replay(&[&[trace.as_str(), "--from", &from, "--to", &to], layout].concat());
            both.push((number(&part, "packets"), part["digest"].clone()));
        }
        assert_eq!(both[0], both[1]);
        sum += both[0].0;
    }
    assert_eq!(sum, number(&whole, "packets"));
    let second = format!("{}.{:09}", first / 1_000_000_000 + 1, first % 1_000_000_000);
    let (later, relative) = (replay(&[&trace, "--from", &second]), replay(&[&trace, "--from", "+1"]));
    assert_eq!(later["digest"], relative["digest"]);
    flowloom(["replay", &trace, "--from", "+2", "--to", "+2"]).ends(2).says(&["no packet is selected"]);
    flowloom(["replay", &trace, "--from", "noon"]).ends(2).says(&["is not a time", "2026-11-25T17:00:00Z"]);
    flowloom(["replay", "-", "--from", "+1"]).ends(2).says(&["cannot be read from a pipe in advance"]);
}
