//! Sequences of packets whose connection states differ: complete connections, replies without a
//! request, errors about known and unknown connections.

use super::frames::{
    ACK, Connection, FIN, Frames, ICMP, ICMPV6, PSH, RST, SCTP, SYN, TCP, UDP, sctp, segment,
};

/// Segments of TCP: flags, then the direction; see [`Frames::step`] for errors.
const OF_TCP: [&str; 19] = [
    "S> SA< A> PA> PA< FA> FA< A>", "SA< A> PA<", "A> PA< A>", "PA< A>", "R> S> SA<", "FA> FA< S>",
    "S> RA< S> SA< A>", "S> S< SA> SA< A>", "S> S> SA< SA< A>", "S> SA< A> FA> FA< A> S> SA<",
    "S> SA< A> RA> PA< S> SA<", "S> A> PA>", "S> SA< A> S< A>", "S> e> SA< e< A>",
    "S> SA< A> u> e> w> E< PA<", "w> e> S>", "S> R> SA<", "S> SA< R< A> S>", "SF> 0> P> S> SF< FPU>",
];

/// Datagrams.
const OF_UDP: [&str; 6] = ["d> d< d>", "d< d< d>", "d> e> d< e<", "u> d> w> d>", "e> d> e<", "d> d> u< d<"];

/// Messages of ICMP by their types. Those of ICMPv6 follow after a slash.
const OF_ICMP: [&str; 6] = [
    "8/128> 0/129< 8/128> 0/129<",
    "0/129< 8/128> 0/129<",
    "0/129> 8/128<",
    "8/128> e> 0/129< u> e<",
    "13/128> 14/129< 14/129> 17/130> 18/131<",
    "8/128> 13/135> 0/129< 14/136<",
];

/// Chunks of SCTP by their types.
const OF_SCTP: [&str; 11] = [
    "1> 2< 10> 11< 0> 0<", "2< 10> 0>", "0> 1> 2<", "4> 5< 0>", "1> 2< 10> 11< 7> 8< 14>",
    "1> e> 2< u> 10>", "1> 6< 0>", "1> 10> 2< 10> 0<", "4> 3< 1< 5< 3< 0>", "8> 0> 14< 5>",
    "5> 0> 0< 1< 2>",
];

impl Frames<'_> {
    /// Returns the next frame of the sequence in progress, or of a new one.
    pub(super) fn next_of_sequence(&mut self) -> Vec<u8> {
        while self.sequence.is_empty() {
            let mut connection = self.connection();
            let steps = match connection.protocol {
                TCP => self.draw.pick(&OF_TCP),
                UDP => self.draw.pick(&OF_UDP),
                ICMP | ICMPV6 => self.draw.pick(&OF_ICMP),
                SCTP => self.draw.pick(&OF_SCTP),
                _ => continue,
            };
            let steps: Vec<&str> = steps.split(' ').collect();
            self.sequence = steps.into_iter().map(|step| self.step(&mut connection, step)).collect();
            self.sequence.reverse();
        }
        self.sequence.pop().unwrap_or_default()
    }

    /// Returns the frame of a step: a word, and `>` or `<` for its direction. An error is about a
    /// packet in that direction: `e` and `E` go to its sender, `w` to another host, and `u` is
    /// about a connection that sends nothing.
    fn step(&mut self, connection: &mut Connection, step: &str) -> Vec<u8> {
        let is_reply = step.ends_with('<');
        let word = step.trim_end_matches(['<', '>']);
        match word {
            "e" | "E" => return self.icmp_error(connection, Some(is_reply), true),
            "w" => return self.icmp_error(connection, Some(is_reply), false),
            "u" => {
                let mut unknown = connection.clone();
                unknown.ports = [9, 11];
                return self.icmp_error(&unknown, Some(is_reply), true);
            }
            _ => {}
        }
        let [mut from, mut to] = connection.ports;
        if is_reply {
            (from, to) = (to, from);
        }
        let ports = [from.to_be_bytes(), to.to_be_bytes()].concat();
        let transport = match connection.protocol {
            TCP => {
                let named = [('S', SYN), ('A', ACK), ('F', FIN), ('R', RST), ('P', PSH), ('U', 32)];
                let set = named.iter().filter(|(name, _)| word.contains(*name));
                let flags = set.fold(0, |flags, (_, flag)| flags | flag);
                segment(connection, is_reply, flags, self.draw.below(30))
            }
            UDP => [ports, vec![0, 8, 0xff, 0xff]].concat(),
            SCTP => [ports, sctp(word.parse().unwrap_or(0))].concat(),
            protocol => {
                let (v4, v6) = word.split_once('/').unwrap_or((word, word));
                let kind = if protocol == ICMP { v4 } else { v6 };
                vec![kind.parse().unwrap_or(0), 0, 0, 0, 0, 1, 0, 1]
            }
        };
        let [from, to] = connection.hosts.clone();
        let (from, to) = if is_reply { (to, from) } else { (from, to) };
        self.network(connection.family, &from, &to, connection.protocol, transport)
    }
}

#[cfg(test)]
mod tests {
    use super::super::hosts::Family;
    use super::*;
    use crate::draw::Draw;

    #[test]
    fn packet_sequence_has_both_directions_in_order() {
        let mut draw = Draw::new(3);
        let mut frames = Frames::new(&mut draw, &[Family::V4], true, (false, true));
        let mut connection = frames.connection();
        (connection.protocol, connection.ports) = (TCP, [20, 80]);
        let sent: Vec<Vec<u8>> =
            ["S>", "SA<", "e>", "w<"].iter().map(|step| frames.step(&mut connection, step)).collect();
        let [from, to] = &connection.hosts;
        let transport = |frame: &[u8]| 14 + usize::from(frame[14] & 15) * 4;
        assert_eq!((&sent[0][26..30], &sent[1][26..30]), (&from[..], &to[..]));
        assert_eq!([0, 1].map(|at| sent[at][transport(&sent[at]) + 13]), [2, 0x12]);
        assert_eq!((sent[2][23], &sent[2][30..34]), (ICMP, &from[..]), "an error goes to the sender");
        assert_eq!(sent[3][23], ICMP);
    }
}
