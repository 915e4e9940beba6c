//! Writes a run as a part: records of flows that are complete, and the states of the others.

use flowloom::engine::time::tick_of;
use flowloom::engine::{EndedBy, EngineConfig, RunReport};
use flowloom::flow_key::FlowKey;
use flowloom::flow_table::Tick;
use flowloom_export::{ArrowWriter, RecordWriter as _};

use super::role::{FlowOf, Role};
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
pub(super) fn write<R: Role>(
    config: &EngineConfig,
    report: &RunReport<FlowOf<R>>,
    rows: &[([u64; 2], bool)],
    (opened, plan): (Opened, RecordPlan),
    mut header: Header,
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::Output(format!("cannot write the part: {error}"));
    let Some(save) = R::save_with() else {
        return Err(Failure::Usage(format!("--fragments is for --app accounting, this is {}", R::NAME)));
    };
    let mut view = plan.view();
    let (stream, file) = opened.into_stream().map_err(failed)?;
    let mut out = ArrowWriter::of_part(stream, &plan.columns).map_err(failed)?;
    let begin = tick_of(report.input.first_ns);
    let (mut before, mut state) = (None::<FlowKey>, Vec::new());
    for (record, (ticks, is_live)) in report.flows.iter().zip(rows) {
        let is_first = before != Some(record.key);
        before = Some(record.key);
        let is_apart = config.idle_timeout.is_some_and(|timeout| timeout.is_over(begin, Tick(ticks[0])));
        let is_over = !is_live || record.ended == EndedBy::IdleTimeout;
        if (is_first && !is_apart) || !is_over {
            state.clear();
            save_state(record, *ticks, *is_live, save, &mut state);
            out.write_fragment(&key_bytes(&record.key), &state).map_err(failed)?;
        } else {
            header.flows_expired += u64::from(*is_live);
            let Some(row) = view.of(record) else { continue };
            let timed_out = record.ended == EndedBy::IdleTimeout;
            out.write_complete(&key_bytes(&record.key), row, timed_out).map_err(failed)?;
        }
    }
    let about = serde_json::to_string(&header).map_err(|error| failed(error.into()))?;
    out.write_about(&about).and_then(|()| out.finish()).map_err(failed)?;
    file.map_or(Ok(()), |file| file.finish()).map_err(failed)
}
