//! The columns of features, and their values.

use std::time::{Duration, UNIX_EPOCH};

use flowloom_flow_key::Direction;
use flowloom_record::{Column, Group, Kind, Value, Word};

use super::{Both, DirectionFeatures};
use crate::accounting::fields::moments::Moments;

const NEED_LABEL: Word = Word::new("NeedManualLabel", 0);

/// A table of columns: name, kind, description.
macro_rules! columns {
    ($($name:literal $kind:ident $(($words:expr))? $description:literal)*) => {
        &[$(Column::new($name, Kind::$kind $(($words))?, $description).in_group(Group::Features),)*]
    };
}

pub(super) const COLUMNS: &[Column] = columns! {
    "timestamp" Text "`cicflowmeter`: the time of the first packet, in UTC, without fractions of a second."
    "flow_duration" Real "From the first packet to the last, in microseconds."
    "flow_byts_s" Real "Bytes on the wire per second of the duration; 0 without one."
    "flow_pkts_s" Real "Packets per second of the duration."
    "fwd_pkts_s" Real "Packets from the source per second of the flow's duration."
    "bwd_pkts_s" Real "Packets from the destination per second of the flow's duration."
    "tot_fwd_pkts" Packets "Packets from the source."
    "tot_bwd_pkts" Packets "Packets from the destination."
    "totlen_fwd_pkts" Bytes "Bytes on the wire from the source."
    "totlen_bwd_pkts" Bytes "Bytes on the wire from the destination."
    "fwd_pkt_len_max" Bytes "The largest size on the wire of packets from the source; 0 without one."
    "fwd_pkt_len_min" Bytes "The smallest of these sizes."
    "fwd_pkt_len_mean" Real "The mean of these sizes."
    "fwd_pkt_len_std" Real "The standard deviation of these sizes, of the population."
    "bwd_pkt_len_max" Bytes "The largest size on the wire of packets from the destination; 0 without one."
    "bwd_pkt_len_min" Bytes "The smallest of these sizes."
    "bwd_pkt_len_mean" Real "The mean of these sizes."
    "bwd_pkt_len_std" Real "The standard deviation of these sizes, of the population."
    "pkt_len_max" Bytes "The largest size on the wire of packets; 0 without one."
    "pkt_len_min" Bytes "The smallest of these sizes."
    "pkt_len_mean" Real "The mean of these sizes."
    "pkt_len_std" Real "The standard deviation of these sizes, of the population."
    "pkt_len_var" Real "The variance of these sizes."
    "fwd_header_len" Bytes "The bytes of the transport headers from the source."
    "bwd_header_len" Bytes "The bytes of the transport headers from the destination."
    "fwd_seg_size_min" Bytes "The smallest transport header with its payload from the source."
    "fwd_act_data_pkts" Packets "Packets with payload of TCP or UDP from the source."
    "flow_iat_mean" Real "The mean of the times between packets, in microseconds."
    "flow_iat_max" Real "The longest of these times."
    "flow_iat_min" Real "The shortest of these times."
    "flow_iat_std" Real "The standard deviation of these times, of the population."
    "fwd_iat_tot" Real "The sum of the times between packets from the source, in microseconds."
    "fwd_iat_max" Real "The longest of these times."
    "fwd_iat_min" Real "The shortest of these times."
    "fwd_iat_mean" Real "The mean of these times."
    "fwd_iat_std" Real "The standard deviation of these times."
    "bwd_iat_tot" Real "The sum of the times between packets from the destination, in microseconds."
    "bwd_iat_max" Real "The longest of these times."
    "bwd_iat_min" Real "The shortest of these times."
    "bwd_iat_mean" Real "The mean of these times."
    "bwd_iat_std" Real "The standard deviation of these times."
    "fwd_psh_flags" Packets "Packets with PSH from the source."
    "bwd_psh_flags" Packets "Packets with PSH from the destination."
    "fwd_urg_flags" Packets "Packets with URG from the source."
    "bwd_urg_flags" Packets "Packets with URG from the destination."
    "fin_flag_cnt" Packets "Packets with FIN."
    "syn_flag_cnt" Packets "Packets with SYN."
    "rst_flag_cnt" Packets "Packets with RST."
    "psh_flag_cnt" Packets "Packets with PSH."
    "ack_flag_cnt" Packets "Packets with ACK."
    "urg_flag_cnt" Packets "Packets with URG."
    "ece_flag_cnt" Packets "Packets with ECE."
    "down_up_ratio" Real "Packets from the destination by packets from the source; 0 without these."
    "pkt_size_avg" Real "The mean size of packets on the wire."
    "init_fwd_win_byts" Number "The window in the first segment from the source, not scaled; 0 without one."
    "init_bwd_win_byts" Number "The window in the first segment from the destination."
    "active_max" Real "The longest time that the flow was active before a pause of more than 5 s, in microseconds; 0 without one."
    "active_min" Real "The shortest time that the flow was active before a pause of more than 5 s, in microseconds; 0 without one."
    "active_mean" Real "The mean time that the flow was active before a pause of more than 5 s, in microseconds; 0 without one."
    "active_std" Real "The deviation of the time that the flow was active before a pause of more than 5 s, in microseconds; 0 without one."
    "idle_max" Real "The longest of these pauses, in microseconds; 0 without one."
    "idle_min" Real "The shortest of these pauses, in microseconds; 0 without one."
    "idle_mean" Real "The mean of these pauses, in microseconds; 0 without one."
    "idle_std" Real "The deviation of these pauses, in microseconds; 0 without one."
    "fwd_byts_b_avg" Real "Payload bytes by bulk from the source: at least four packets with data, none from the other end between them, and no gap above 1 s."
    "fwd_pkts_b_avg" Real "Packets by such bulk."
    "bwd_byts_b_avg" Real "Payload bytes by bulk from the destination: at least four packets with data, none from the other end between them, and no gap above 1 s."
    "bwd_pkts_b_avg" Real "Packets by such bulk."
    "fwd_blk_rate_avg" Real "Payload bytes per second of the bulks from the source."
    "bwd_blk_rate_avg" Real "Payload bytes per second of the bulks from the destination."
    "fwd_seg_size_avg" Real "As `fwd_pkt_len_mean`."
    "bwd_seg_size_avg" Real "As `bwd_pkt_len_mean`."
    "cwr_flag_count" Packets "Packets with CWR."
    "subflow_fwd_pkts" Real "Packets from the source by subflow, which a gap above 1 s ends."
    "subflow_bwd_pkts" Real "Packets from the destination by subflow, which a gap above 1 s ends."
    "subflow_fwd_byts" Real "Bytes from the source by subflow, which a gap above 1 s ends."
    "subflow_bwd_byts" Real "Bytes from the destination by subflow, which a gap above 1 s ends."
    "Label" Word(&[NEED_LABEL]) "`NeedManualLabel` in every record, as the original `CICFlowMeter` writes it."
    "ip_version" Number "`NFStream`: 4 or 6."
    "vlan_id" Number "The outer VLAN id of the first packet; 0 without one."
    "bidirectional_first_seen_ms" Number "The earliest stamp of the flow, in milliseconds since 1970; 0 without one."
    "bidirectional_last_seen_ms" Number "The latest stamp of these packets."
    "bidirectional_duration_ms" Number "The time between both."
    "bidirectional_packets" Packets "Packets."
    "bidirectional_bytes" Bytes "Bytes on the wire."
    "src2dst_first_seen_ms" Number "The earliest stamp of packets from the source, in milliseconds since 1970; 0 without one."
    "src2dst_last_seen_ms" Number "The latest stamp of these packets."
    "src2dst_duration_ms" Number "The time between both."
    "src2dst_packets" Packets "Packets."
    "src2dst_bytes" Bytes "Bytes on the wire."
    "dst2src_first_seen_ms" Number "The earliest stamp of packets from the destination, in milliseconds since 1970; 0 without one."
    "dst2src_last_seen_ms" Number "The latest stamp of these packets."
    "dst2src_duration_ms" Number "The time between both."
    "dst2src_packets" Packets "Packets."
    "dst2src_bytes" Bytes "Bytes on the wire."
    "bidirectional_min_ps" Bytes "The smallest size on the wire of the flow."
    "bidirectional_mean_ps" Real "The mean size of the flow."
    "bidirectional_stddev_ps" Real "The standard deviation of the sizes of the flow, as of a sample."
    "bidirectional_max_ps" Bytes "The largest size of the flow."
    "src2dst_min_ps" Bytes "The smallest size on the wire of packets from the source."
    "src2dst_mean_ps" Real "The mean size of packets from the source."
    "src2dst_stddev_ps" Real "The standard deviation of the sizes of packets from the source, as of a sample."
    "src2dst_max_ps" Bytes "The largest size of packets from the source."
    "dst2src_min_ps" Bytes "The smallest size on the wire of packets from the destination."
    "dst2src_mean_ps" Real "The mean size of packets from the destination."
    "dst2src_stddev_ps" Real "The standard deviation of the sizes of packets from the destination, as of a sample."
    "dst2src_max_ps" Bytes "The largest size of packets from the destination."
    "bidirectional_min_piat_ms" Real "The shortest time between packets, in milliseconds."
    "bidirectional_mean_piat_ms" Real "The mean time between packets, in milliseconds."
    "bidirectional_stddev_piat_ms" Real "The standard deviation of the times between packets, as of a sample, in milliseconds."
    "bidirectional_max_piat_ms" Real "The longest time between packets, in milliseconds."
    "src2dst_min_piat_ms" Real "The shortest time between packets from the source, in milliseconds."
    "src2dst_mean_piat_ms" Real "The mean time between packets from the source, in milliseconds."
    "src2dst_stddev_piat_ms" Real "The standard deviation of the times between packets from the source, as of a sample, in milliseconds."
    "src2dst_max_piat_ms" Real "The longest time between packets from the source, in milliseconds."
    "dst2src_min_piat_ms" Real "The shortest time between packets from the destination, in milliseconds."
    "dst2src_mean_piat_ms" Real "The mean time between packets from the destination, in milliseconds."
    "dst2src_stddev_piat_ms" Real "The standard deviation of the times between packets from the destination, as of a sample, in milliseconds."
    "dst2src_max_piat_ms" Real "The longest time between packets from the destination, in milliseconds."
    "bidirectional_syn_packets" Packets "Packets with SYN."
    "bidirectional_cwr_packets" Packets "Packets with CWR."
    "bidirectional_ece_packets" Packets "Packets with ECE."
    "bidirectional_urg_packets" Packets "Packets with URG."
    "bidirectional_ack_packets" Packets "Packets with ACK."
    "bidirectional_psh_packets" Packets "Packets with PSH."
    "bidirectional_rst_packets" Packets "Packets with RST."
    "bidirectional_fin_packets" Packets "Packets with FIN."
    "src2dst_syn_packets" Packets "Packets with SYN from the source."
    "src2dst_cwr_packets" Packets "Packets with CWR from the source."
    "src2dst_ece_packets" Packets "Packets with ECE from the source."
    "src2dst_urg_packets" Packets "Packets with URG from the source."
    "src2dst_ack_packets" Packets "Packets with ACK from the source."
    "src2dst_psh_packets" Packets "Packets with PSH from the source."
    "src2dst_rst_packets" Packets "Packets with RST from the source."
    "src2dst_fin_packets" Packets "Packets with FIN from the source."
    "dst2src_syn_packets" Packets "Packets with SYN from the destination."
    "dst2src_cwr_packets" Packets "Packets with CWR from the destination."
    "dst2src_ece_packets" Packets "Packets with ECE from the destination."
    "dst2src_urg_packets" Packets "Packets with URG from the destination."
    "dst2src_ack_packets" Packets "Packets with ACK from the destination."
    "dst2src_psh_packets" Packets "Packets with PSH from the destination."
    "dst2src_rst_packets" Packets "Packets with RST from the destination."
    "dst2src_fin_packets" Packets "Packets with FIN from the destination."
};

const FIN: usize = 0;
const SYN: usize = 1;
const RST: usize = 2;
const PSH: usize = 3;
const ACK: usize = 4;
const URG: usize = 5;
const ECE: usize = 6;
const CWR: usize = 7;

/// Returns the ratio, or 0 without a divisor.
fn ratio(sum: f64, divisor: f64) -> f64 {
    if divisor > 0.0 { sum / divisor } else { 0.0 }
}

#[expect(clippy::cast_precision_loss, reason = "a part in 2^53 is less than these formats print")]
fn real(number: u64) -> f64 {
    number as f64
}

impl Both {
    /// Appends the values of both dialects. `way` is the direction of packets from the source.
    pub(super) fn values(mut self, way: Direction, out: &mut Vec<Value>) {
        self.sides.iter_mut().for_each(DirectionFeatures::end_run);
        let [source, destination] = [way, way.reversed()].map(|way| &self.sides[way.index()]);
        let sizes = source.sizes.with(&destination.sizes);
        let times = match (source.times_ns, destination.times_ns) {
            (Some(one), Some(other)) => (one.0.min(other.0), one.1.max(other.1)),
            (one, other) => one.or(other).unwrap_or_default(),
        };
        self.cicflowmeter([source, destination], &sizes, times, out);
        self.nfstream([source, destination], &sizes, times, out);
    }

    fn cicflowmeter(
        &self,
        sides: [&DirectionFeatures; 2],
        sizes: &Moments,
        times: (u64, u64),
        out: &mut Vec<Value>,
    ) {
        let [source, destination] = sides;
        let micros = |moments: &Moments| moments.real().map(|ns| ns / 1e3);
        let seconds = real(times.1 - times.0) / 1e9;
        let packets = sides.map(|side| side.sizes.count());
        let bytes = sides.map(|side| side.sizes.sum());
        out.push(Value::Text(date(times.0).into()));
        out.push(Value::real(seconds * 1e6));
        for count in [bytes[0] + bytes[1], sizes.count(), packets[0], packets[1]] {
            out.push(Value::real(ratio(real(count), seconds)));
        }
        out.extend([packets[0], packets[1], bytes[0], bytes[1]].map(Value::Number));
        for moments in [&source.sizes, &destination.sizes, sizes] {
            let [_, mean, _, deviation] = moments.real();
            out.extend([Value::Number(moments.largest()), Value::Number(moments.least())]);
            out.extend([mean, deviation].map(Value::real));
        }
        out.push(Value::real(sizes.variance()));
        let counts =
            [source.header_bytes, destination.header_bytes, source.segment_bytes_min, source.data_packets];
        out.extend(counts.map(Value::Number));
        let [least, mean, largest, deviation] = micros(&self.gaps);
        out.extend([mean, largest, least, deviation].map(Value::real));
        for side in sides {
            let [least, mean, largest, deviation] = micros(&side.gaps);
            let total = real(side.gaps.sum()) / 1e3;
            out.extend([total, largest, least, mean, deviation].map(Value::real));
        }
        for flag in [PSH, URG] {
            out.extend(sides.map(|side| Value::Number(side.flags[flag])));
        }
        for flag in [FIN, SYN, RST, PSH, ACK, URG, ECE] {
            out.push(Value::Number(source.flags[flag] + destination.flags[flag]));
        }
        out.push(Value::real(ratio(real(packets[1]), real(packets[0]))));
        out.push(Value::real(sizes.real()[1]));
        out.extend(sides.map(|side| Value::Number(side.window.unwrap_or(0).into())));
        for moments in [&self.active, &self.idle] {
            let [least, mean, largest, deviation] = micros(moments);
            out.extend([largest, least, mean, deviation].map(Value::real));
        }
        for side in sides {
            let sums = [side.bulk_bytes, side.bulk_packets];
            out.extend(sums.map(|sum| Value::real(ratio(real(sum), real(side.bulks)))));
        }
        out.extend(sides.map(|side| Value::real(ratio(real(side.bulk_bytes), real(side.bulk_ns) / 1e9))));
        out.extend(sides.map(|side| Value::real(side.sizes.real()[1])));
        out.push(Value::Number(source.flags[CWR] + destination.flags[CWR]));
        for sum in packets.into_iter().chain(bytes) {
            out.push(Value::real(ratio(real(sum), real(self.subflows))));
        }
        out.push(Value::Word(NEED_LABEL.name));
    }

    fn nfstream(
        &self,
        sides: [&DirectionFeatures; 2],
        sizes: &Moments,
        times: (u64, u64),
        out: &mut Vec<Value>,
    ) {
        let [source, destination] = sides;
        out.extend([if self.is_v6 { 6 } else { 4 }, u64::from(self.vlan)].map(Value::Number));
        let of_flow = (Some(times), sizes);
        for (times, sizes) in
            [of_flow, (source.times_ns, &source.sizes), (destination.times_ns, &destination.sizes)]
        {
            let (first_ms, last_ms) =
                times.map_or((0, 0), |(first, last)| (first / 1_000_000, last / 1_000_000));
            let numbers = [first_ms, last_ms, last_ms - first_ms, sizes.count(), sizes.sum()];
            out.extend(numbers.map(Value::Number));
        }
        for moments in [sizes, &source.sizes, &destination.sizes] {
            let [_, mean, _, _] = moments.real();
            out.extend([Value::Number(moments.least()), Value::real(mean)]);
            out.extend([Value::real(moments.sample_deviation()), Value::Number(moments.largest())]);
        }
        for moments in [&self.gaps, &source.gaps, &destination.gaps] {
            let [least, mean, largest, _] = moments.real();
            let millis = [least, mean, moments.sample_deviation(), largest].map(|ns| ns / 1e6);
            out.extend(millis.map(Value::real));
        }
        let flags = |packets: &[u64; 8]| [SYN, CWR, ECE, URG, ACK, PSH, RST, FIN].map(|flag| packets[flag]);
        let sum = std::array::from_fn(|flag| source.flags[flag] + destination.flags[flag]);
        for packets in [&sum, &source.flags, &destination.flags] {
            out.extend(flags(packets).map(Value::Number));
        }
    }
}

/// Returns a time in UTC as `2023-11-22 21:42:52`.
fn date(time_ns: u64) -> String {
    let time = UNIX_EPOCH + Duration::from_secs(time_ns / 1_000_000_000);
    let text = humantime::format_rfc3339_seconds(time).to_string();
    text.trim_end_matches('Z').replace('T', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_feature_has_its_value() {
        let mut values = Vec::new();
        Both::default().values(Direction::LowToHigh, &mut values);
        assert_eq!(values.len(), COLUMNS.len());
    }

    #[test]
    fn features_of_a_flow_are_those_of_its_packets() {
        let (key, way) = flowloom_flow_key::FlowKey::from_v4(1, 2, 30_000, 53, 17);
        let mut features = Both::default();
        // Times in milliseconds, directions and bytes of payload.
        let packets = [
            (0, 0, 10),
            (1, 0, 20),
            (2, 0, 30),
            (4, 0, 0),
            (6, 0, 40),
            (8, 1, 100),
            (8008, 1, 0),
            (8009, 0, 8),
        ];
        for (time_ms, back, payload_bytes) in packets {
            let mut headers =
                flowloom_packet::Headers::new(key, if back == 0 { way } else { way.reversed() });
            (headers.transport_offset, headers.payload_offset, headers.payload_bytes) =
                (34, 42, payload_bytes);
            features.add(&flowloom_packet::PacketView::new(
                &[],
                headers,
                time_ms * 1_000_000,
                42 + payload_bytes,
            ));
        }
        let mut values = Vec::new();
        features.values(way, &mut values);
        let value =
            |name: &str| values[COLUMNS.iter().position(|column| column.name == name).unwrap()].to_string();
        for (name, expected) in [
            ("flow_duration", "8009000"),
            ("tot_fwd_pkts", "6"),
            ("totlen_bwd_pkts", "184"),
            ("fwd_pkt_len_mean", "60"),
            ("bwd_pkt_len_std", "50"),
            ("pkt_len_max", "142"),
            ("fwd_header_len", "48"),
            ("fwd_seg_size_min", "8"),
            ("fwd_act_data_pkts", "5"),
            ("flow_iat_max", "8000000"),
            ("bwd_iat_tot", "8000000"),
            ("fwd_iat_min", "1000"),
            ("active_mean", "8000"),
            ("idle_max", "8000000"),
            ("fwd_byts_b_avg", "100"),
            ("fwd_pkts_b_avg", "4"),
            ("bwd_pkts_b_avg", "0"),
            ("fwd_blk_rate_avg", "16666.666666666668"),
            ("subflow_fwd_pkts", "3"),
            ("ip_version", "4"),
            ("src2dst_packets", "6"),
            ("dst2src_first_seen_ms", "8"),
            ("dst2src_stddev_ps", "70.71067811865476"),
            ("bidirectional_min_piat_ms", "1"),
        ] {
            assert_eq!(value(name), expected, "{name}");
        }
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_782_399, "2000-02-28 23:59:59"),
            (951_782_400, "2000-02-29 00:00:00"),
            (1_700_689_372, "2023-11-22 21:42:52"),
            (4_107_542_400, "2100-03-01 00:00:00"),
        ] {
            assert_eq!(date(seconds * 1_000_000_000), text);
        }
    }
}
