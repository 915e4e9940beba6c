//! `flowloom extract`.

use std::path::PathBuf;

use clap::Args;
use flowloom::apps::accounting::AccountingRecord;

use super::parse;
use super::record_input::RecordInput;

/// Arguments of `extract`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Examples:
  flowloom extract edge.pcap -o big.pcapng --where 'total_bytes > 10M'
  flowloom extract edge.pcap -o one.pcapng --flow '1:LQU9qZlK+B5F3KDmev6m5PMibrg='
  flowloom extract edge.pcap -o one.pcapng --flow 'tcp 10.0.0.1:40000 192.0.2.1:443'
  flowloom extract edge.pcap -o one.pcapng --flow 'tcp 10.0.0.1:40000 192.0.2.1:443' --index edge.idx
  flowloom extract edge.pcap -o dns.pcapng --filter 'udp port 53 and host 192.0.2.53'

Flows:
  extract writes all packets of the selected flows, in both directions and in the order of the input. --where selects \
  flows by their records, --flow by name, and --filter by any matching packet. A flow must satisfy all options given. \
  extract reads the captures twice.")]
pub(crate) struct Extract {
    #[command(flatten)]
    pub(crate) input: RecordInput,

    /// The capture to write: .pcapng, or .pcap without interfaces and comments
    #[arg(short = 'o', long, value_name = "FILE", required_unless_present = "make_index")]
    pub(crate) output: Option<PathBuf>,

    /// Find the flows of --flow with this index, and read only the parts of the capture that
    /// contain their packets. A missing index is created. An index works for one uncompressed
    /// capture, and is refused once the capture has changed
    #[arg(long, value_name = "FILE")]
    pub(crate) index: Option<PathBuf>,

    /// Rebuild the index; without --output, do nothing else
    #[arg(long, requires = "index")]
    pub(crate) make_index: bool,

    /// A flow, as its Community ID or as 'tcp 10.0.0.1:40000 192.0.2.1:443' in either direction;
    /// repeatable
    #[arg(long, value_name = "FLOW", value_parser = parse::from_str::<FlowName>)]
    pub(crate) flow: Vec<FlowName>,

    /// Maximum number of matching records
    #[arg(long, value_name = "N", default_value = "4M", value_parser = parse::positive)]
    pub(crate) flows_max: u64,
}

/// A flow as users name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FlowName {
    CommunityId(String),
    /// The protocol and the two endpoints.
    Ends(u8, [std::net::SocketAddr; 2]),
}

impl std::str::FromStr for FlowName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Twenty bytes in base64.
        if text.strip_prefix("1:").is_some_and(|id| id.len() == 28 && id.ends_with('=')) {
            return Ok(Self::CommunityId(text.to_owned()));
        }
        let wrong = || {
            format!(
                "'{text}' is not a flow: write a Community ID (1:…=), or protocol and ends as in 'tcp \
                 10.0.0.1:40000 192.0.2.1:443'"
            )
        };
        // `top --by conversation` prints an arrow between the ends.
        let is_arrow = |word: &&str| matches!(*word, ">" | "->" | "<->" | "→");
        let words: Vec<&str> = text.split_whitespace().filter(|word| !is_arrow(word)).collect();
        let [protocol, one, other] = words[..] else { return Err(wrong()) };
        let protocol = match protocol {
            "tcp" => 6,
            "udp" => 17,
            "sctp" => 132,
            number => parse::unsigned(number).ok_or_else(wrong)?,
        };
        let end = |text: &str| text.parse().map_err(|_| wrong());
        Ok(Self::Ends(protocol, [end(one)?, end(other)?]))
    }
}

impl FlowName {
    /// Returns whether a record belongs to this flow.
    pub(crate) fn is_of(&self, record: &AccountingRecord) -> bool {
        match self {
            Self::CommunityId(id) => record.community_id().to_string() == *id,
            Self::Ends(protocol, [one, other]) => {
                let source = std::net::SocketAddr::new(record.source, record.source_port);
                let destination = std::net::SocketAddr::new(record.destination, record.destination_port);
                record.protocol == *protocol
                    && ((source, destination) == (*one, *other) || (destination, source) == (*one, *other))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_are_named_in_two_ways() {
        let of = |text: &str| text.parse::<FlowName>();
        assert_eq!(
            of("1:LQU9qZlK+B5F3KDmev6m5PMibrg="),
            Ok(FlowName::CommunityId("1:LQU9qZlK+B5F3KDmev6m5PMibrg=".into()))
        );
        let ends = ["10.0.0.1:40000", "192.0.2.1:443"].map(|end| end.parse().unwrap());
        assert_eq!(of("tcp 10.0.0.1:40000 192.0.2.1:443"), Ok(FlowName::Ends(6, ends)));
        assert_eq!(of("tcp 10.0.0.1:40000 > 192.0.2.1:443"), Ok(FlowName::Ends(6, ends)));
        assert_eq!(of("6 10.0.0.1:40000  192.0.2.1:443"), Ok(FlowName::Ends(6, ends)));
        assert!(of("udp [::1]:53 [::2]:1024").is_ok());
        for text in [
            "",
            "tcp",
            "1:short=",
            "tcp 10.0.0.1 192.0.2.1",
            "256 1.1.1.1:1 2.2.2.2:2",
            "+6 1.1.1.1:1 2.2.2.2:2",
        ] {
            assert!(of(text).unwrap_err().contains("is not a flow"), "{text}");
        }
    }
}
