//! The page `docs/records.md`, made from the columns of all applications.

use std::fmt::Write;

use flowloom_engine::FlowState as _;
use flowloom_record::{Column, Group};

use crate::accounting::AccountingRecord;
use crate::accounting::fields::all_columns;
use crate::{MeterFlow, RecordState as _, TcpFlow};

fn reference() -> String {
    let mut page = String::from(INTRODUCTION);
    for (heading, group) in [
        ("Columns", Group::Default),
        ("Optional columns", Group::Extra),
        ("Internal columns", Group::Internal),
    ] {
        let columns = AccountingRecord::COLUMNS.iter().filter(|column| column.group == group);
        table(&mut page, &format!("## {heading}"), columns.copied());
    }
    page.push_str(FIELDS);
    let columns = all_columns();
    let reverse_of =
        |name: &str| columns.iter().find(|column| column.name.strip_prefix("reverse_") == Some(name));
    for column in columns.iter().filter(|column| !column.name.starts_with("reverse_")) {
        let pair: Vec<&Column> = std::iter::once(column).chain(reverse_of(column.name)).collect();
        let names: Vec<String> = pair.iter().map(|column| format!("`{}`", column.name)).collect();
        let _ = writeln!(
            page,
            "| {} | `{}` | {} | {} | {} |",
            names.join(", "),
            column.group.name(),
            column.kind.unit(),
            elements(&pair),
            column.description
        );
    }
    page.push_str(MODULES);
    let schema = MeterFlow::schema();
    for (heading, group) in [("Labels", Group::Label), ("Verdicts", Group::Verdict)] {
        let columns = schema.columns().iter().filter(|column| column.group == group);
        table(&mut page, &format!("### {heading}"), columns.copied());
    }
    page.push_str(OTHERS);
    let own = TcpFlow::COLUMNS.iter().filter(|column| column.group != Group::Internal);
    table(&mut page, "### `tcp-tracker`", own.map(|column| column.by_source()));
    page
}

fn table(page: &mut String, heading: &str, columns: impl Iterator<Item = Column>) {
    let _ = write!(page, "\n{heading}\n\n| Column | Unit | IPFIX | Meaning |\n| --- | --- | --- | --- |\n");
    for column in columns {
        let (unit, elements) = (column.kind.unit(), elements(&[&column]));
        let _ = writeln!(page, "| `{}` | {unit} | {elements} | {} |", column.name, column.description);
    }
}

fn elements(columns: &[&Column]) -> String {
    let elements = columns.iter().flat_map(|column| column.elements);
    let names: Vec<String> =
        elements.map(|element| format!("`{}` ({})", element.name, element.number)).collect();
    if names.is_empty() { String::from("–") } else { names.join(", ") }
}

const FIELDS: &str = "
## Additional fields, by group

`--fields` takes a comma-separated list of groups, or `all` for those of this table but `conn` and `features`; `--where` reads the columns of
all groups. In
the library they are the types of `flowloom_apps::accounting::fields`. A run computes only the groups that you select. The
description of a pair of columns is that of the first; the `reverse_` column is the same for the packets of the destination.

The fields from payload keep text, and up to 4 KiB of each direction while its first message is incomplete, outside of the flow
table. Where `--memory` (by default what is free) does not suffice for them, the oldest go first: their text columns are
`(no memory)`, their number columns are empty, and the report counts them (`fields_dropped`). The record itself stays.

* Fields of TCP come from the first bytes of each direction, at most 4,096, in sequence. Segments may arrive up to 64 KiB before
  the missing ones. Without a SYN a direction begins at its first data, or at earlier data among its next three segments. If the
  first bytes were not captured, as in the records after an active timeout, the fields are empty.
* The ClientHello of QUIC (versions 1 and 2, drafts from 21 on, T050, T051, mvfst) comes from the first 4,096 bytes of handshake
  data in at most 16 datagrams with long headers per flow. A ClientHello whose first bytes are missing leaves the fields empty.
* Flowloom does not read handshakes inside another protocol (STARTTLS, a proxy), DTLS, an encrypted ClientHello, or HTTP/2.
* The text of `tls`, `dns`, `http`, `quic` and `ssh` is what the hosts sent: printable ASCII, at most 255 bytes; the lists of `dns`
  have at most 4,096. `\\xNN` stands for any other byte and `\\\\` for a backslash. DNS names have their presentation format:
  `\\DDD` for a byte, `\\.` for a dot in a label.
* A text that a limit, the end of the captured bytes or the end of the record cut off ends with `…`, which no other text contains.
  `…` alone stands where nothing of the value is known.
* Cells of CSV hold the values as they are. A spreadsheet may take a text that begins with `=`, `+`, `-` or `@` for a formula, so
  import such columns as text: changed cells would no longer be what the hosts sent, and other readers could not tell.
* `features` are the columns of other meters, as `--columns cicflowmeter` and `--columns nfstream` write them: see [dialects.md](dialects.md).
* `--by-file` adds the column `file`. Captures are then not read in several places at once.
* IPFIX has no elements for the columns marked `–`, and NetFlow v9 has none for any of them. EVE nests the fields in the flow
  event under Suricata's names. Zeek's `conn.log` always has the fields of `conn` and derives its `service` from those of payload
  or from the label. It leaves `local_orig`, `local_resp` and `tunnel_parents` unset; in `merge` and `bridge`, which have no
  fields of `conn`, also bytes and history.

| Column | Group | Unit | IPFIX | Meaning |
| --- | --- | --- | --- | --- |
";

const MODULES: &str = "
## Labels and verdicts

`--fields l7`, or `--app l7`, adds the name of the protocol to each record ([labels.md](labels.md)), and `--rules` the verdict of
rules ([rules.md](rules.md)). Both stand beside the additional fields in one record. A column that `--columns` or `--where` names
is computed without `--fields`.

A new record of a connection, after an active timeout, keeps the label and the verdict, and its counts begin anew. A record of
another connection on the same ports keeps the verdict only, because rules judge the packets of a flow.
";

const OTHERS: &str = "
## Records of other applications

Records of `--app null` and `tcp-tracker` start with `source`, `destination`, `source_port`, `destination_port` and `protocol`,
which have the meanings above, followed by the columns of the application. A column `x` counts the direction from the source, and
`reverse_x` the other direction. `null` does not know the source: the lower endpoint takes its place. `--where` and `--columns`
take these columns. CSV, JSON lines, Parquet and Arrow hold all of them, and IPFIX those with an element; Zeek's `conn.log`, EVE
and NetFlow v9 need the columns of accounting.

`--columns` also accepts `low_address`, `low_port`, `high_address`, `high_port`, `zone`, `pass`, `icmp_identifier`,
`x_low_to_high`, `x_high_to_low` and `source_end`.
";

const INTRODUCTION: &str = "\
# Records

`replay --app accounting --flows` writes a CSV line, a JSON line or an IPFIX data record per flow record. A record describes a
connection, or a flow without connections, or an interval of either. It begins where the previous record of the flow has ended.

* The source is the same in all records of a connection, even if an active timeout splits it. It is the end that sent the SYN;
  otherwise the end that received the SYN+ACK; otherwise the end that sent the first packet.
* A SYN or SYN+ACK with a sequence number that differs from the connection's starts a new record. One with the same number is a
  retransmission, unless the connection is refused or closed. Of a connection whose opening is missing so far, a SYN counts as late if its
  number lies less than 64 KiB below what was seen, and at most 10 seconds have passed since.
* A connection closes with FINs of both sides (`fin`), whether or not an RST follows, or else with an RST inside the window that
  the other side announced (`reset`). FINs carry over from one record to the next. With `--closed-timeout` (5 s with `--iface`) the record ends, and is written, once no packet has
  arrived for that time.
* ICMP queries of one end and the replies to them form a flow by kind, and by identifier where they carry one (echo, timestamp,
  information, address mask, extended echo; without one: router and neighbour discovery, multicast listeners). Other ICMP
  messages form flows by sender, type and code. ICMP has no ports.
* With `--defrag` packets and bytes are those of the fragments on the wire, duplicates included, and a record starts with its
  first fragment. They count once the datagram is complete; `not_tracked` in the report counts the others by reason. In a tunnel,
  the IP bytes are those of the inner packet. The additional fields describe the datagram. Without `--defrag` fragments after the
  first form a flow of their own.
* Reverse elements of IPFIX have the enterprise number 29305 (RFC 5103). Missing values are empty in CSV, `null` in JSON and 0
  in IPFIX. Parquet and Arrow have no times after April 2262; there they are missing. NetFlow v9 has no start that lies more than
  seven weeks before the end; such a record starts seven weeks before its end.
* `--columns` and `--where` also take `total_packets`, `total_bytes` (both directions together), `duration` (from `start` to `end`), and
  for either end `address` and `port`, which as columns are both ends.
* `--times iso` writes the times of CSV and JSON lines as dates in UTC (RFC 3339), with nanoseconds.

## When records are written

* A record is written when it ends: by a timeout, by a close, or at the end of the input. With `--iface` and in `bridge` time passes
  by the clock, so a record is written within a second or so of its timeout although no packet arrives, or none that `--filter`
  selects. With captures time passes with their packets, so the records do not depend on the speed of the run.
* With `--iface` and in `bridge` the header of CSV and of Zeek's log, the schema of Arrow and the templates of IPFIX are written
  within a second of the start. Records reach the output within a second.
* A `bridge` goes on when its output fails ([bridge.md](bridge.md#records)). Other commands end with status 5.
";

#[test]
fn generated_page_describes_the_columns() {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/records.md");
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(page == reference(), "docs/records.md must be:\n{}", reference());
}
