//! Options of the decoder, shared by the commands that decode.

use std::num::NonZeroU8;

use clap::Args;
use flowloom::packet::DecodeOptions;
use flowloom::packet::decode::CustomEncapsulations;

use crate::exit::Failure;

/// Options that control what the decoder follows.
#[derive(Clone, Debug, Default, Args)]
#[expect(clippy::struct_excessive_bools, reason = "switches of a command line")]
pub struct DecodingOptions {
    /// Follow tunnels to the innermost headers
    #[arg(long)]
    pub decap: bool,

    /// Follow at most N tunnels, one within the other: 1 shows the addresses within the outermost.
    /// It implies --decap
    #[arg(long, value_name = "N", value_parser = depth)]
    pub decap_depth: Option<NonZeroU8>,

    /// Read this Ethertype as a VLAN tag, in addition to the known ones, for example 0x9901;
    /// repeatable
    #[arg(long, value_name = "TYPE", value_parser = ether_type)]
    pub tag_type: Vec<u16>,

    /// Read this UDP port as a tunnel, in addition to the usual ports, for example vxlan=8473;
    /// repeatable
    #[arg(long, value_name = "NAME=PORT", requires = "decap", value_parser = tunnel)]
    pub tunnel: Vec<(String, u16)>,

    /// Leave VLAN tags out of the flow key: packets with other tags, or without, belong to one
    /// flow, and --fields vlan tells the tags of each direction
    #[arg(long)]
    pub ignore_vlan: bool,

    /// Read ESP packets as unencrypted if their trailers have that form
    #[arg(long, requires = "decap")]
    pub esp_null: bool,

    /// Divide ESP flows by their security parameters index (SPI), as Suricata does; by default a
    /// flow has all ESP packets between two hosts
    #[arg(long)]
    pub esp_spi: bool,

    /// Count an ICMP error with the flow whose packet it quotes, as Suricata does, instead of in a
    /// flow of its own; rules that ask for states do so in any case
    #[arg(long)]
    pub errors_by_flow: bool,
}

impl DecodingOptions {
    /// Returns the options for the decoder.
    pub fn options(&self) -> Result<DecodeOptions, Failure> {
        let options = DecodeOptions::new()
            .with_decap(self.decap || self.decap_depth.is_some())
            .with_decap_depth(self.decap_depth)
            .with_esp_null(self.esp_null)
            .with_ignore_vlan(self.ignore_vlan)
            .with_esp_spi(self.esp_spi)
            .with_errors_by_flow(self.errors_by_flow);
        let mut custom = CustomEncapsulations::new();
        for &ether_type in &self.tag_type {
            custom
                .add_tag_type(ether_type)
                .map_err(|error| Failure::Usage(format!("--tag-type {ether_type:#06x}: {error}")))?;
        }
        for (name, port) in &self.tunnel {
            custom
                .add_tunnel(name, *port)
                .map_err(|error| Failure::Usage(format!("--tunnel {name}={port}: {error}")))?;
        }
        // The options are made once per run and live as long as the process.
        Ok(if custom.is_empty() { options } else { options.with_custom(Box::leak(Box::new(custom))) })
    }

    /// Returns the arguments as a user would type them.
    pub fn words(&self) -> Vec<String> {
        let named = |options: &[(bool, &str)]| -> Vec<String> {
            let set = options.iter().filter(|(is_set, _)| *is_set);
            set.map(|(_, name)| (*name).to_owned()).collect()
        };
        let mut words = named(&[(self.decap, "--decap")]);
        words.extend(self.decap_depth.iter().map(|depth| format!("--decap-depth {depth}")));
        words.extend(self.tag_type.iter().map(|number| format!("--tag-type {number:#06x}")));
        words.extend(self.tunnel.iter().map(|(name, port)| format!("--tunnel {name}={port}")));
        words.extend(named(&[
            (self.ignore_vlan, "--ignore-vlan"),
            (self.esp_null, "--esp-null"),
            (self.esp_spi, "--esp-spi"),
            (self.errors_by_flow, "--errors-by-flow"),
        ]));
        words
    }
}

/// Reads a number of tunnels.
fn depth(text: &str) -> Result<NonZeroU8, String> {
    text.parse().map_err(|_| format!("'{text}' is not a number of tunnels: write one from 1 to 255"))
}

/// Reads a 16-bit number, in decimal or, after `0x`, in hexadecimal.
fn ether_type(text: &str) -> Result<u16, String> {
    let is_hex = text.len() > 2 && text[..2].eq_ignore_ascii_case("0x");
    let digits = if is_hex { &text[2..] } else { text };
    let radix = if is_hex { 16 } else { 10 };
    match u16::from_str_radix(digits, radix) {
        Ok(number) if digits.chars().all(|c| c.is_ascii_alphanumeric()) => Ok(number),
        _ => Err(format!("'{text}' is not an Ethertype: write a number up to 0xffff, such as 0x9901")),
    }
}

/// Reads the name and port of a tunnel.
fn tunnel(text: &str) -> Result<(String, u16), String> {
    text.split_once('=')
        .and_then(|(name, port)| Some((name.to_owned(), super::parse::unsigned::<u16>(port)?)))
        .ok_or_else(|| {
            format!(
                "'{text}' is not a tunnel and its port: write NAME=PORT, such as \
            vxlan=8473"
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_in_decimal_and_hexadecimal() {
        assert_eq!(ether_type("0x9300"), Ok(0x9300));
        assert_eq!(ether_type("0X93ab"), Ok(0x93AB));
        assert_eq!(ether_type("37632"), Ok(0x9300));
        for wrong in ["", "0x", "0x10000", "65536", "-1", "+1", "0x+1", "vlan", "é"] {
            assert!(ether_type(wrong).is_err(), "{wrong}");
        }
        assert_eq!(tunnel("vxlan=8473"), Ok((String::from("vxlan"), 8473)));
        for wrong in ["vxlan", "vxlan=", "vxlan=99999", "vxlan=-1", "=,"] {
            assert!(tunnel(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn number_with_another_meaning_is_refused_by_name() {
        let options = |tag_type, tunnel: &str| DecodingOptions {
            tag_type: vec![tag_type],
            tunnel: vec![(tunnel.to_owned(), 9)],
            ..DecodingOptions::default()
        };
        assert!(options(0x9901, "vxlan").options().is_ok_and(|options| options.custom.is_some()));
        let text = |options: DecodingOptions| match options.options() {
            Err(Failure::Usage(text)) => text,
            other => panic!("{other:?}"),
        };
        assert!(text(options(0x0800, "vxlan")).starts_with("--tag-type 0x0800: invalid tag type 0x0800"));
        assert!(text(options(0x9901, "vlxan")).starts_with("--tunnel vlxan=9: unknown tunnel 'vlxan'"));
        assert_eq!(options(0x9901, "vxlan").words(), ["--tag-type 0x9901", "--tunnel vxlan=9"]);
    }
}
