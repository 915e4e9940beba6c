//! libpcap as a rival, on which most readers are based, with Flowloom's decoder.

use std::path::Path;

use flowloom::flow_key::FlowHasher;
use flowloom::packet::LinkType;
use pcap::{Capture, Error};

use crate::walk::{Tally, headers_of};

/// Reads a file a number of times, decodes every packet, and hashes its key.
///
/// # Errors
///
/// Returns the error message of libpcap.
pub fn read_parse_hash(path: &Path, passes: u32, hasher: &FlowHasher) -> Result<Tally, String> {
    let mut tally = Tally::default();
    for pass in 0..passes {
        let mut capture = Capture::from_file(path).map_err(|error| error.to_string())?;
        // The upper half of the field is not part of the link type.
        let link = LinkType(u16::try_from(capture.get_datalink().0 & 0xFFFF).unwrap_or(u16::MAX));
        loop {
            match capture.next_packet() {
                Ok(packet) => {
                    tally.count(packet.header.caplen);
                    if let Some(headers) = headers_of(link, packet.data, pass) {
                        tally.hashed(hasher, &headers.key);
                    }
                }
                Err(Error::NoMorePackets) => break,
                Err(error) => return Err(error.to_string()),
            }
        }
    }
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::input::CaptureFile;
    use crate::looped::Looped;
    use crate::walk::walk_parse_hash;

    #[test]
    fn libpcap_finds_the_same_packets() {
        let capture = CaptureFile::generate(1000, 50).unwrap();
        let hasher = FlowHasher::with_seed(1);
        let ours = walk_parse_hash(&mut Looped::open(capture.path(), 2000).unwrap(), &hasher).unwrap();
        assert_eq!(read_parse_hash(capture.path(), 2, &hasher).unwrap(), ours);
    }
}
