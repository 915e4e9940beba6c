//! Sends the packets of captures through an interface.

use crate::args::Common;
use crate::args::send::Send;
use crate::exit::{Failure, Status};

/// Runs the command.
pub(crate) fn run(arguments: &Send, common: &Common) -> Result<Status, Failure> {
    #[cfg(target_os = "linux")]
    return on_linux::run(arguments, common);
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (arguments, common);
        Err(Failure::Usage(String::from("send needs Linux, whose kernel provides the ports")))
    }
}

#[cfg(target_os = "linux")]
mod on_linux {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use flowloom::engine::{Control, Pace};
    use flowloom::io::{PacketOptions, PacketPort, Port, PortFrame};
    use flowloom::packet::clock::PacketClock;
    use flowloom::packet::{Fill, LinkType, PacketBatch, PacketSource};
    use flowloom::traffic::capture::{CaptureSet, Input, SetOptions};

    use crate::args::Common;
    use crate::args::send::Send;
    use crate::exit::{Failure, Status};
    use crate::host::tool;
    use crate::render::print;
    use crate::render::send::SendResult;
    use crate::signals::stop_on_signals;

    /// A shorter sleep would end too late; the thread spins for the rest.
    const SLEEP_MIN: Duration = Duration::from_micros(200);
    /// Maximum sleep, after which the thread checks for a stop.
    const SLEEP_MAX: Duration = Duration::from_millis(100);

    /// The due times of packets.
    struct Timing {
        pace: Pace,
        begun: Instant,
        first_ns: Option<u64>,
        clock: PacketClock,
        taken: u64,
    }

    impl Timing {
        /// Returns the due time of the next packet, whose capture time is `time_ns`.
        fn due(&mut self, time_ns: u64) -> Duration {
            let time_ns = self.clock.tick(time_ns);
            let first_ns = *self.first_ns.get_or_insert(time_ns);
            let due = match self.pace {
                Pace::Times(factor) => {
                    Duration::from_nanos((time_ns.saturating_sub(first_ns) as f64 / factor) as u64)
                }
                Pace::PerSecond(rate) => {
                    Duration::try_from_secs_f64(self.taken as f64 / rate).unwrap_or(Duration::MAX)
                }
                // Due at once.
                _ => Duration::ZERO,
            };
            self.taken += 1;
            due
        }

        /// Waits until a packet is due. Returns how late the packet is, or `None` if the run is
        /// stopped.
        fn wait(&self, due: Duration, control: &Control) -> Option<Duration> {
            loop {
                let now = self.begun.elapsed();
                if let Some(late) = now.checked_sub(due) {
                    return Some(late);
                }
                let left = due.saturating_sub(now);
                if control.is_stopped() {
                    return None;
                }
                if left > SLEEP_MIN {
                    std::thread::sleep(left.saturating_sub(SLEEP_MIN).min(SLEEP_MAX));
                } else {
                    std::hint::spin_loop();
                }
            }
        }
    }

    pub(super) fn run(arguments: &Send, common: &Common) -> Result<Status, Failure> {
        let inputs: Vec<Input> = arguments.inputs.iter().map(|path| Input::from_argument(path)).collect();
        let options = SetOptions { passes: arguments.passes, ..SetOptions::default() };
        let mut source = CaptureSet::open(&inputs, options)?;
        let options =
            PacketOptions { is_promiscuous: false, keeps_from_host: false, ..PacketOptions::default() };
        let refused = |error: flowloom::io::IoError| Failure::Usage(error.to_string());
        let mut port = PacketPort::open(&arguments.iface, &options).map_err(refused)?;
        // Received packets are for other programs.
        port.close().map_err(refused)?;
        let control = Arc::new(Control::default());
        stop_on_signals(&control);
        let mut result = SendResult {
            schema: "flowloom/send/1",
            tool: tool(),
            interface: arguments.iface.clone(),
            packets: 0,
            sent: 0,
            sent_bytes: 0,
            refused: 0,
            cut: 0,
            other_link: 0,
            late_ns_max: 0,
            seconds: 0.0,
        };
        let mut timing = Timing {
            pace: arguments.speed,
            begun: Instant::now(),
            first_ns: None,
            clock: PacketClock::default(),
            taken: 0,
        };
        let ended = send_all(&mut source, &port, arguments, &control, &mut timing, &mut result);
        result.seconds = timing.begun.elapsed().as_secs_f64();
        print(&result, common)?;
        ended?;
        Ok(if control.is_stopped() { Status::Interrupted } else { Status::Ok })
    }

    fn send_all(
        source: &mut CaptureSet,
        port: &PacketPort,
        arguments: &Send,
        control: &Control,
        timing: &mut Timing,
        result: &mut SendResult,
    ) -> Result<(), Failure> {
        let mut batch = PacketBatch::new();
        let mut taken = Vec::new();
        let limit = arguments.limit.unwrap_or(u64::MAX);
        while !control.is_stopped() && result.packets < limit {
            match source.next_batch(&mut batch).map_err(|error| Failure::Input(error.to_string()))? {
                Fill::Packets => {}
                Fill::Starved => {
                    std::thread::sleep(SLEEP_MIN);
                    continue;
                }
                Fill::End => break,
            }
            let Some(block) = batch.block.clone() else { continue };
            let mut frames: Vec<PortFrame<'_>> = Vec::with_capacity(batch.packets.len());
            let mut send = |frames: &mut Vec<PortFrame<'_>>, result: &mut SendResult| {
                port.send(frames, &mut taken);
                for (frame, _) in frames.iter().zip(&taken).filter(|(_, is_taken)| **is_taken) {
                    result.sent += 1;
                    result.sent_bytes += frame.bytes.len() as u64;
                }
                result.refused += taken.iter().filter(|is_taken| !**is_taken).count() as u64;
                frames.clear();
            };
            for raw in &batch.packets {
                if result.packets == limit {
                    break;
                }
                result.packets += 1;
                let bytes = raw.bytes_in(block.bytes());
                if raw.link != LinkType::ETHERNET {
                    result.other_link += 1;
                    continue;
                }
                if bytes.len() < raw.wire_bytes as usize || bytes.is_empty() {
                    result.cut += 1;
                    continue;
                }
                let due = timing.due(raw.time_ns);
                // Packets with the same due time leave together.
                if due > timing.begun.elapsed() {
                    send(&mut frames, result);
                }
                let Some(late) = timing.wait(due, control) else {
                    result.packets -= 1;
                    break;
                };
                if timing.pace != Pace::Max {
                    let late_ns = u64::try_from(late.as_nanos()).unwrap_or(u64::MAX);
                    result.late_ns_max = result.late_ns_max.max(late_ns);
                }
                frames.push(PortFrame::new(bytes));
            }
            send(&mut frames, result);
        }
        Ok(())
    }
}
