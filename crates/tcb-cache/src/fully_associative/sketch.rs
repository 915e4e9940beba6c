//! Approximate use counts of keys: four rows of four-bit counters, which are halved periodically.

use flowloom_flow_key::hash::fold::fold;

const ROWS: usize = 4;
const COUNT_MAX: u8 = 15;
/// Number of samples per counter of a row after which all counters are halved.
const SAMPLES_PER_LINE: u64 = 10;

#[derive(Clone, Debug)]
pub(crate) struct Sketch {
    rows: Vec<[u8; ROWS]>,
    added: u64,
    halve_at: u64,
}

impl Sketch {
    pub(crate) fn new(lines: usize) -> Self {
        let width = lines.max(16).next_power_of_two() * 4;
        Self { rows: vec![[0; ROWS]; width], added: 0, halve_at: SAMPLES_PER_LINE * lines.max(16) as u64 }
    }

    fn places(&self, key: u64) -> [usize; ROWS] {
        let mask = self.rows.len() as u64 - 1;
        let word = fold(key ^ 0x2545_F491_4F6C_DD1D, 0x9E37_79B9_7F4A_7C15);
        core::array::from_fn(|row| (word.rotate_right(16 * row as u32) & mask) as usize)
    }

    pub(crate) fn add(&mut self, key: u64) {
        for (row, place) in self.places(key).into_iter().enumerate() {
            let count = &mut self.rows[place][row];
            *count = (*count + 1).min(COUNT_MAX);
        }
        self.added += 1;
        if self.added == self.halve_at {
            self.added /= 2;
            for count in self.rows.iter_mut().flatten() {
                *count /= 2;
            }
        }
    }

    pub(crate) fn estimate(&self, key: u64) -> u8 {
        let counts = self.places(key).into_iter().enumerate().map(|(row, place)| self.rows[place][row]);
        counts.min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sketch_never_underestimates_before_it_ages() {
        let mut sketch = Sketch::new(512);
        for key in 0..600_u64 {
            for _ in 0..key % 7 {
                sketch.add(key * 0x1_0001);
            }
        }
        for key in 0..600_u64 {
            assert!(u64::from(sketch.estimate(key * 0x1_0001)) >= key % 7);
        }
        assert_eq!(sketch.added, 1795);
        for _ in 0..5000 {
            sketch.add(7);
        }
        assert_eq!(sketch.estimate(7), COUNT_MAX);
        assert!(sketch.estimate(6 * 0x1_0001) <= 6, "halved by now");
    }
}
