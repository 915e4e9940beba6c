//! The id of a flow.

use flowloom_cpu::pages::Generation;

/// The id of one flow in one table: a slot, and the generation of the slot's tenant.
///
/// It takes eight bytes, also as an `Option`. It is stable for the life of the flow. Generations
/// count the flows inserted into the table, and repeat after 2³¹. An id kept for longer refers to
/// another flow if that flow took the same slot exactly that many insertions later, or a multiple.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FlowId {
    slot: u32,
    generation: Generation,
}

const _: () = assert!(size_of::<Option<FlowId>>() == 8, "a batch of 32 ids is four lines");

impl FlowId {
    /// Returns the id of a slot's tenant; `None` unless the generation is odd, as the generation of
    /// every tenant is.
    #[inline]
    pub const fn new(slot: u32, generation: u32) -> Option<Self> {
        match Generation::new(generation) {
            Some(generation) => Some(Self { slot, generation }),
            None => None,
        }
    }

    /// Returns the id of a tenant.
    #[inline(always)]
    pub(crate) const fn from_parts(slot: u32, generation: Generation) -> Self {
        Self { slot, generation }
    }

    /// Returns the generation of the slot, as stored in the states.
    #[inline(always)]
    pub(crate) const fn tenant(self) -> Generation {
        self.generation
    }

    /// Returns the slot, below [`FlowTable::slot_count`](crate::FlowTable::slot_count).
    #[inline]
    pub const fn slot(self) -> u32 {
        self.slot
    }

    /// Returns the generation of the slot's tenant.
    #[inline]
    pub const fn generation(self) -> u32 {
        self.generation.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_has_an_odd_generation() {
        assert_eq!(FlowId::new(3, 4), None);
        assert_eq!(FlowId::new(3, 0), None);
        let id = FlowId::new(3, 5).unwrap();
        assert_eq!((id.slot(), id.generation()), (3, 5));
    }
}
