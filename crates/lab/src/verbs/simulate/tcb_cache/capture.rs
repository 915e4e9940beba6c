//! Captures as traces: every TCP packet is an access, in both directions.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use flowloom::flow_key::FlowKey;
use flowloom::packet::{DecodeOptions, Fill, PacketBatch, PacketSource, decode};
use flowloom::tcb_cache::Access;
use flowloom::tcb_cache::from_packets::{Closing, Seen, TCP, is_from_client, session_key};
use flowloom::traffic::capture::{CaptureOptions, CaptureSet, Input, SetOptions, UnpackLimits};

use crate::args::simulate::tcb_cache::TcbCache;
use crate::exit::Failure;
use crate::render::simulate::tcb_cache::{ReadFigures, TraceFigures};

use super::loaded::{Loaded, Unloaded};

/// The reason why a packet is not an access: it is not TCP, or its session has ended.
const NO_SESSION: &str = "no_session";

/// Returns whether a file begins like a classic or block capture.
pub(super) fn is_capture(head: &[u8]) -> bool {
    const MAGICS: [u32; 4] = [0xA1B2_C3D4, 0xA1B2_3C4D, 0xA1B2_CD34, 0x0A0D_0D0A];
    let Some(magic) = head.first_chunk::<4>() else { return false };
    MAGICS.contains(&u32::from_le_bytes(*magic)) || MAGICS.contains(&u32::from_be_bytes(*magic))
}

/// Reads a capture.
pub(super) fn load(path: &Path, arguments: &TcbCache, stop: &dyn Fn() -> bool) -> Result<Loaded, Unloaded> {
    let input = Input::from_argument(path);
    if matches!(input, Input::Stdin) || !path.is_file() {
        return Err(Failure::Usage(String::from(
            "a capture cannot be simulated from standard input or a pipe, because it is read twice\n  \
             save it to a file first",
        ))
        .into());
    }
    let limits = UnpackLimits { bytes_max: arguments.unpack_max, ..UnpackLimits::default() };
    let capture = CaptureOptions { limits, ..CaptureOptions::default() };
    let mut source = CaptureSet::open(&[input], SetOptions { capture, ..SetOptions::default() })
        .map_err(Failure::from)?;
    let mut batch = PacketBatch::new();
    let mut sessions: HashMap<FlowKey, Closing> = HashMap::new();
    let mut accesses: Vec<Access> = Vec::new();
    let (mut origin_ns, mut latest_ms) = (None, 0);
    let (mut records, mut no_session, mut time_backwards) = (0_u64, 0_u64, 0_u64);
    let mut limited = false;
    let failed =
        |error: &dyn std::fmt::Display| Failure::Input(format!("cannot read {}: {error}", path.display()));
    while !stop() && !limited {
        match source.next_batch(&mut batch) {
            Ok(Fill::Packets) => {}
            Ok(Fill::Starved) => continue,
            Ok(Fill::End) => break,
            Err(error) => return Err(failed(&error).into()),
        }
        let Some(block) = &batch.block else { continue };
        for raw in &batch.packets {
            if accesses.len() as u64 == arguments.limit {
                limited = true;
                break;
            }
            records += 1;
            let bytes = raw.bytes_in(block.bytes());
            let headers = decode(raw.link, bytes, DecodeOptions::default()).ok();
            let Some(headers) = headers.filter(|h| h.key.protocol() == TCP && !h.later_fragment) else {
                no_session += 1;
                continue;
            };
            let closing = sessions.entry(headers.key).or_default();
            let seen = closing.packet(headers.tcp_flags, is_from_client(&headers.key, headers.direction));
            if seen == Seen::Over {
                no_session += 1;
                continue;
            }
            let origin = *origin_ns.get_or_insert(raw.time_ns);
            let time_ms = raw.time_ns.saturating_sub(origin) / 1_000_000;
            time_backwards += u64::from(time_ms < latest_ms);
            latest_ms = time_ms.max(latest_ms);
            let access = Access::new(closing.key(session_key(&headers.key)), latest_ms);
            accesses.push(if seen == Seen::Closes { access.closing() } else { access });
        }
    }
    if accesses.is_empty() {
        return Err(Unloaded::TooLittle(Failure::Usage(format!(
            "{} has no TCP packets among its {records}: there are no sessions to simulate",
            path.display()
        ))));
    }
    let mut figures = TraceFigures::new(&path.display().to_string(), "capture");
    figures.sessions = Some(sessions.len() as u64);
    let mut skipped = BTreeMap::new();
    if no_session > 0 {
        skipped.insert(NO_SESSION, no_session);
    }
    figures.read =
        Some(ReadFigures { records, used: accesses.len() as u64, skipped, time_backwards, limited });
    // Packets of other protocols do not count as damaged.
    Ok(Loaded { accesses, figures, skipped: 0, foreign: false, fault: None })
}
