//! Packet sources: captures, generators and, with the feature `live`, interfaces.
//!
//! [`CaptureSet`](capture::CaptureSet) reads one or many captures. [`MixConfig`](synth::MixConfig)
//! describes generated traffic, and [`Generated`](synth::Generated) makes it a source.
//! [`Defrag`](defrag::Defrag) joins fragments of any source, and [`Dedup`](dedup::Dedup) drops
//! copies. The types of packets come from
//! [`packet`].
//!
//! # Examples
//!
//! The example prints every packet of a capture with its time, source and destination:
//!
//! ```
//! use flowloom_traffic::capture::{CaptureSet, Input, SetOptions};
//! use flowloom_traffic::packet::{DecodeOptions, Fill, PacketBatch, PacketSource, decode};
//!
//! # use flowloom_traffic::synth::{Generate, Sample};
//! # use flowloom_traffic::write::{PcapOptions, PcapWriter};
//! # let directory = tempfile::tempdir()?;
//! # let path = directory.path().join("campus.pcap");
//! # let mut campus = Sample::named("campus").expect("a sample").generator();
//! # let mut frame = Vec::new();
//! # let mut writer = PcapWriter::new(std::fs::File::create(&path)?, PcapOptions::default())?;
//! # while let Some(meta) = campus.next_into(&mut frame) {
//! #     writer.write(meta.time_ns, meta.wire_bytes, &frame)?;
//! # }
//! # writer.finish()?;
//! let mut source = CaptureSet::open(&[Input::Path(path.into())], SetOptions::default())?;
//! let mut batch = PacketBatch::new();
//! let mut decoded = 0;
//! while source.next_batch(&mut batch)? != Fill::End {
//!     let Some(block) = &batch.block else { continue };
//!     for packet in &batch.packets {
//!         match decode(packet.link, packet.bytes_in(block.bytes()), DecodeOptions::default()) {
//!             Ok(headers) => {
//!                 println!("{} ns  {}", packet.time_ns, headers.tuple());
//!                 decoded += 1;
//!             }
//!             Err(reason) => println!("{} ns  no flow: {reason}", packet.time_ns),
//!         }
//!     }
//! }
//! assert_eq!(decoded, 5952);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Features
//!
//! * `live`: enables interfaces through libpcap, a C library, in the module `live`.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod capture;
pub mod dedup;
pub mod defrag;
#[cfg(feature = "live")]
pub mod live;
pub mod sample;
pub mod synth;
pub mod write;

pub use flowloom_packet as packet;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
