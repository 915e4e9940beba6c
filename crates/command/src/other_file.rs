//! What a file is that is no capture, and which command takes it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use flowloom::rules::load::RuleFormat;
use flowloom::traffic::capture::CaptureError;

use crate::decompressed::{plain_name, unpack};

/// Bytes that are enough to recognise a file.
const HEAD_BYTES: u64 = 64 << 10;

/// The first bytes of files, what these are, and what to do with them.
const MAGICS: &[(&[u8], &str, &str)] = &[
    (b"PAR1", "a Parquet file", READERS),
    (b"ARROW1", "an Arrow file", READERS),
    (b"\xff\xff\xff\xff", "an Arrow stream", READERS),
    (b"\x7fELF", "a program (ELF)", NAME_CAPTURE),
    (b"%PDF", "a PDF document", NAME_CAPTURE),
    (b"\x89PNG", "a PNG picture", NAME_CAPTURE),
    (b"GIF8", "a GIF picture", NAME_CAPTURE),
    (b"\xff\xd8\xff", "a JPEG picture", NAME_CAPTURE),
    (b"SQLite format 3", "an SQLite database", NAME_CAPTURE),
    (b"7z\xbc\xaf\x27\x1c", "a 7-Zip archive", "unpack it first: 7z x FILE"),
    (b"FLWPART", "a part of a run", "`flowloom merge` takes it"),
    (b"FLWMIDX", "an index of a capture", "`flowloom extract --index` takes it"),
];

const READERS: &str =
    "DuckDB, pandas and Spark read it; flowloom reads the capture that its records come from";
const NAME_CAPTURE: &str = "name a capture: pcap or pcapng, also in gzip, zstd, xz or lz4";

/// Returns the message of an error, which says of a file that is no capture what it is.
pub fn explained(error: &CaptureError) -> String {
    let CaptureError::NotACapture { path, why, .. } = error else { return error.to_string() };
    // The reader of captures knows other captures and archives; and a pipe cannot be read again.
    let head =
        (path.is_file() && !why.starts_with("this is")).then(|| head(path)).flatten().unwrap_or_default();
    match recognised(&plain_name(path), &head) {
        Some((what, advice)) => {
            let path = path.display();
            format!(
                "{path} is not a capture file: it is {what}\n  {}",
                advice.replace("FILE", &path.to_string())
            )
        }
        None => error.to_string(),
    }
}

fn head(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    unpack(File::open(path).ok()?).ok()?.take(HEAD_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Returns what a file with a name begins with, and what to do with it.
fn recognised(name: &str, head: &[u8]) -> Option<(String, &'static str)> {
    if let Some((_, what, advice)) = MAGICS.iter().find(|(magic, ..)| head.starts_with(magic)) {
        return Some(((*what).to_owned(), advice));
    }
    if head.get(257..262) == Some(b"ustar") {
        return Some((String::from("a tar archive"), "unpack it first: tar -xf FILE"));
    }
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // The last character may be cut.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&head[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let is_text = |c: char| !c.is_control() || c.is_ascii_whitespace();
    (!text.is_empty() && text.chars().all(is_text)).then(|| of_text(name, text))
}

fn of_text(name: &str, text: &str) -> (String, &'static str) {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    let form = RuleFormat::detect(name, text);
    if form != RuleFormat::ClassBench || line.starts_with('@') {
        let advice = "rules stand behind --rules: flowloom replay CAPTURE --rules FILE; `flowloom rules check FILE` \
                      checks them";
        return (format!("a file of rules ({})", form.title()), advice);
    }
    let lower = line.to_ascii_lowercase();
    let (what, advice) = if line.starts_with(['{', '[']) {
        if text.contains("\"flowloom/") {
            ("a result of flowloom (JSON)", "`flowloom compare` compares the folders of two results")
        } else {
            ("JSON", RECORDS)
        }
    } else if lower.starts_with("<!doctype html") || lower.starts_with("<html") {
        ("a web page", "open it with a browser; flowloom reads the capture")
    } else if line.starts_with("#separator") {
        ("a log of Zeek", "flowloom reads the capture; `replay --flows conn.log` writes such a log")
    } else if is_header_trace(line) {
        ("a header trace", "`flowloom classify FILE --rules RULES` takes it")
    } else if is_hex_dump(line) {
        ("a hex dump", "convert it first: text2pcap FILE capture.pcap")
    } else if line.matches([',', '\t', ';']).count() > 1 {
        ("a table (CSV)", RECORDS)
    } else {
        ("text", NAME_CAPTURE)
    };
    (what.to_owned(), advice)
}

const RECORDS: &str = "flowloom reads the capture that records come from; `flowloom compare` compares two folders \
    with flows.csv";

/// Returns whether a line has five numbers or more.
fn is_header_trace(line: &str) -> bool {
    let words: Vec<&str> = line.split_whitespace().collect();
    words.len() >= 5 && words.iter().all(|word| word.parse::<u64>().is_ok())
}

/// Returns whether a line is an offset and bytes, in hexadecimal.
fn is_hex_dump(line: &str) -> bool {
    let is_hex = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
    line.split_once(char::is_whitespace).is_some_and(|(offset, bytes)| {
        let offset = offset.trim_start_matches("0x").trim_end_matches(':');
        let mut bytes = bytes.split_whitespace();
        offset.len() >= 4
            && is_hex(offset)
            && bytes.next().is_some_and(|two| matches!(two.len(), 2 | 4) && is_hex(two))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_kind_is_named_with_what_takes_it() {
        let mut tar = vec![0; 300];
        tar[257..262].copy_from_slice(b"ustar");
        for (name, head, what, does) in [
            (
                "fw.ipt",
                &b"# Generated\n*filter\n:INPUT DROP [0:0]\nCOMMIT\n"[..],
                "iptables-save",
                "--rules",
            ),
            ("fw", b"table inet filter {\n chain input {\n }\n}\n", "nftables", "--rules"),
            ("acl", b"@10.0.0.0/8\t0.0.0.0/0\t0 : 65535\t0 : 65535\t0x06/0xff\n", "ClassBench", "--rules"),
            ("flows.csv", b"source,destination,bytes\n10.0.0.1,10.0.0.2,7\n", "CSV", "compare"),
            ("r.json", b"{\"schema\": \"flowloom/replay/1\"}", "result of flowloom", "compare"),
            ("x.jsonl", b"{\"source\": \"10.0.0.1\"}\n", "JSON", "capture"),
            ("f.parquet", b"PAR1\0\0", "Parquet", "DuckDB"),
            ("ls", b"\x7fELF\x02", "ELF", "name a capture"),
            ("a.tar", &tar, "tar archive", "tar -xf"),
            ("conn.log", b"#separator \\x09\n", "Zeek", "conn.log"),
            ("t.trace", b"167772161 3221225985 1024 80 6 0\n", "header trace", "classify"),
            ("dump.txt", b"0000  00 0e b6 00\n", "hex dump", "text2pcap"),
            ("dump.txt", b"00000000: 000e b600 0002\n", "hex dump", "text2pcap"),
            ("p.html", b"<!DOCTYPE html><html>", "web page", "browser"),
            ("notes", "größer\n".as_bytes(), "text", "name a capture"),
        ] {
            let (found, advice) = recognised(name, head).unwrap_or_else(|| panic!("{name}"));
            assert!(found.contains(what) && advice.contains(does), "{name}: {found}; {advice}");
        }
        for head in [&b""[..], b"\0\0\0\0", b"\xfe\xfe", b"abc\0def"] {
            assert_eq!(recognised("x", head), None);
        }
    }
}
