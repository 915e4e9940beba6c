//! Writes a run as a part: records of flows that are complete, and the states of the others.

use flowloom::apps::EndedFlow;
use flowloom::engine::time::tick_of;
use flowloom::engine::{EndedBy, EngineConfig};
use flowloom::flow_key::FlowKey;
use flowloom::flow_table::Tick;
use flowloom_export::{ArrowWriter, RecordWriter as _};

use super::role::Ran;
use crate::exit::Failure;
use crate::flow_file::Opened;
use crate::part_file::{Header, key_bytes, save_state};
use crate::record_view::RecordPlan;

/// Writes the records of a run, and what the part is behind them. `rows` has the ticks of each
/// record's first and last packet, and whether it is live at the end, in the order of the records.
///
/// A record is complete if no packet outside of the part can belong to it: flows of an earlier part
/// have ended before it began, and it has ended in the part. Without a timeout a flow may always
/// go on, so the first and the last record of every key are fragments.
pub(super) fn write(
    config: &EngineConfig,
    ran: &Ran<'_>,
    rows: &[([u64; 2], bool)],
    (opened, plan): (Opened, RecordPlan),
    mut header: Header,
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Output(format!("cannot write the part: {error}"));
    let mut view = plan.view();
    let (stream, file) = opened.into_stream().map_err(failed)?;
    let mut out = ArrowWriter::of_part(stream, &plan.columns).map_err(failed)?;
    let begin = tick_of(ran.report.input.first_ns);
    let (mut before, mut state, mut rows) = (None::<FlowKey>, Vec::new(), rows.iter());
    let mut write = |record: &dyn EndedFlow| {
        let Some((ticks, is_live)) = rows.next() else { return Ok(()) };
        let key = *record.key();
        let is_first = before != Some(key);
        before = Some(key);
        let is_apart = config.idle_timeout.is_some_and(|timeout| timeout.is_over(begin, Tick(ticks[0])));
        let timed_out = record.ended() == EndedBy::IdleTimeout;
        let is_over = !is_live || timed_out;
        if (is_first && !is_apart) || !is_over {
            state.clear();
            save_state(record, *ticks, *is_live, &mut state);
            return out.write_fragment(&key_bytes(&key), &state);
        }
        header.flows_expired += u64::from(*is_live);
        let Some(row) = view.row(record) else { return Ok(()) };
        out.write_complete(&key_bytes(&key), row, timed_out)
    };
    ran.results.each(&mut write).map_err(failed)?;
    let about = serde_json::to_string(&header).map_err(|error| failed(error.into()))?;
    out.write_about(&about).and_then(|()| out.finish()).map_err(failed)?;
    file.map_or(Ok(()), |file| file.finish()).map_err(failed)
}
