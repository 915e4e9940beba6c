//! Finds the next event with a tournament tree over the next event of each source.

/// The next event of each of a fixed number of sources; the earliest is at the root.
#[derive(Clone, Debug)]
pub(super) struct Events {
    /// A complete binary tree: times of the sources in the upper half of the array, and in every
    /// other place the earlier of its two children.
    times: Vec<u64>,
    leaves: usize,
}

/// No event.
pub(super) const NEVER: u64 = u64::MAX;

impl Events {
    pub(super) fn new(sources: usize) -> Self {
        let leaves = sources.next_power_of_two();
        Self { times: vec![NEVER; 2 * leaves], leaves }
    }

    /// Sets the time of a source's next event. The cost is logarithmic in the number of sources.
    #[inline]
    pub(super) fn set(&mut self, source: usize, time: u64) {
        let mut at = self.leaves + source;
        self.times[at] = time;
        while at > 1 {
            at /= 2;
            let earlier = self.times[2 * at].min(self.times[2 * at + 1]);
            if self.times[at] == earlier {
                return;
            }
            self.times[at] = earlier;
        }
    }

    /// Returns the earliest event; of simultaneous events, that of the first source.
    #[inline]
    pub(super) fn next(&self) -> Option<(u64, usize)> {
        let time = self.times[1];
        if time == NEVER {
            return None;
        }
        let mut at = 1;
        while at < self.leaves {
            at *= 2;
            if self.times[at] != time {
                at += 1;
            }
        }
        Some((time, at - self.leaves))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flowloom_flow_key::hash::fold::split_mix;

    #[test]
    fn earliest_event_comes_first_and_ties_go_to_the_first_source() {
        for sources in [1, 2, 5, 64] {
            let mut events = Events::new(sources);
            let mut times = vec![NEVER; sources];
            assert_eq!(events.next(), None);
            let mut state = 1;
            for _ in 0..2000 {
                let word = split_mix(&mut state);
                let source = (word >> 32) as usize % sources;
                let time = if word.is_multiple_of(5) { NEVER } else { word % 50 };
                times[source] = time;
                events.set(source, time);
                let least = *times.iter().min().unwrap();
                let expected = (least != NEVER)
                    .then(|| (least, times.iter().position(|&time| time == least).unwrap()));
                assert_eq!(events.next(), expected);
            }
        }
    }
}
