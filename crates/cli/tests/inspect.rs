//! `inspect`: the contents of a capture, in agreement with `replay`.

use crate::support::{Folder, flowloom, replay};

#[test]
fn counts_match_replay() {
    let folder = Folder::new();
    for (name, options) in [
        ("t.pcap", &[][..]),
        ("t.pcapng.zst", &["--snaplen", "60", "--packets", "3k"]),
        ("flood.pcap.gz", &["--syn-flood", "500", "--packets", "3k"]),
    ] {
        let trace = folder.trace(name, options);
        for decap in [&[][..], &["--decap"]] {
            for limit in [&[][..], &["--limit", "777"]] {
                let rest = [decap, limit].concat();
                let replayed = replay(&[&[trace.as_str()], &rest[..]].concat());
                let base = ["inspect", &trace, "--format", "json"];
                let inspected = flowloom([&base, &rest[..]].concat()).ends(0).silent().json();
                assert_eq!(inspected["schema"], "flowloom/inspect/1");
                assert_eq!(inspected["files"][0]["path"], trace.as_str());
                for field in [
                    "packets", "bytes_on_wire", "bytes_captured", "decoded", "flows", "first_ns",
                    "last_ns", "time_backwards", "unsupported_links",
                ] {
                    assert_eq!(inspected[field], replayed[field], "{field} of {name} with {rest:?}");
                }
                // Every packet without a key is not tracked; no packet was lost.
                assert_eq!(inspected["not_tracked"], replayed["not_tracked"], "{name} with {rest:?}");
            }
        }
    }
}
