//! Pointers to values that readers may be using.
//!
//! A value is published once, from a box, and is reachable through links. It is freed in two steps.
//! A writer overwrites the last link to it and retires it; the collector frees it when no guard is
//! left that was held at that time. This file contains the unsafe code of reading. The shard keeps
//! the promises of [`Published::retire`] and [`Published::get`].
//!
//! A guard keeps the collector alive, and neither has a lifetime. The types that own guards and
//! handles of the collector, and that callers see, therefore implement `Drop` for themselves: their
//! drop is a use of the table and of everything that its values borrow.
#![expect(unsafe_code, reason = "values behind pointers that readers follow without a lock")]

use core::marker::PhantomData;
use core::mem;
use core::ptr::{self, NonNull};

use crossbeam_epoch::Guard;

use super::sync::{AtomicPtr, Ordering, load_own_pointer};

/// A pointer to a published value.
pub(super) struct Published<T>(NonNull<T>);

impl<T> Clone for Published<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Published<T> {}

impl<T> Published<T> {
    /// Takes ownership of a value to publish it through links.
    pub(super) fn new(value: T) -> Self {
        Self(NonNull::from(Box::leak(Box::new(value))))
    }

    /// Returns the value.
    ///
    /// # Safety
    ///
    /// The caller guarantees that it was not retired before `guard` was created and is not freed
    /// with [`free`](Self::free).
    #[inline(always)]
    pub(super) unsafe fn get(self, _guard: &Guard) -> &T {
        // SAFETY: the pointer came from a box, which nothing frees while the guard is held; there
        // is no exclusive reference to a published value.
        unsafe { self.0.as_ref() }
    }

    /// Lets the collector drop the value when no reader can use it any more.
    ///
    /// # Safety
    ///
    /// The caller guarantees: no link leads to the value, and none will, except links of values
    /// that were retired before; the call happens once; `guard` and all guards passed to
    /// [`Link::load`] for links that led to it belong to one collector. `T` may be dropped on
    /// another thread, and every handle and guard of the collector is dropped, or leaked, while `T`
    /// is alive.
    pub(super) unsafe fn retire(self, guard: &Guard) {
        let pointer = self.0;
        // SAFETY: the box is made again once, and when no guard is left that was held when a link
        // led to the value. That is in a call by a handle or a guard of the collector, or when the
        // last of them and the collector itself are dropped.
        unsafe { guard.defer_unchecked(move || drop(Box::from_raw(pointer.as_ptr()))) };
    }
}

/// Values that are dropped with it. If the drop of one panics, the others are dropped nevertheless,
/// and the panic continues.
pub(super) struct Freed<'a, T>(&'a mut dyn Iterator<Item = Published<T>>);

impl<'a, T> Freed<'a, T> {
    /// Takes ownership of values.
    ///
    /// # Safety
    ///
    /// The caller guarantees for each value from when it comes: no reader uses it, no link to it is
    /// followed any more, and it was not retired.
    pub(super) unsafe fn new(values: &'a mut dyn Iterator<Item = Published<T>>) -> Self {
        Self(values)
    }
}

impl<T> Drop for Freed<'_, T> {
    fn drop(&mut self) {
        while let Some(value) = self.0.next() {
            let others = Freed(self.0);
            // SAFETY: the pointer came from a box, and `new` guarantees that nothing uses it.
            drop(unsafe { Box::from_raw(value.0.as_ptr()) });
            mem::forget(others);
        }
    }
}

/// A link to a published value, or to none.
pub(super) struct Link<T> {
    pointer: AtomicPtr<T>,
    /// A link counts as its value: a type that may not cross threads keeps its table from crossing
    /// threads.
    value: PhantomData<Box<T>>,
}

impl<T> Link<T> {
    /// Returns a link to nothing.
    pub(super) fn empty() -> Self {
        Self { pointer: AtomicPtr::new(ptr::null_mut()), value: PhantomData }
    }

    /// Returns a link to a value.
    pub(super) fn to(value: Published<T>) -> Self {
        Self { pointer: AtomicPtr::new(value.0.as_ptr()), value: PhantomData }
    }

    /// Returns the value, with everything written before it was published.
    #[inline(always)]
    pub(super) fn load<'g>(&self, _guard: &'g Guard) -> Option<&'g T> {
        let pointer = self.pointer.load(Ordering::Acquire);
        // SAFETY: the pointer is null, or belongs to a published value. If the value with this link
        // was not retired when the guard was created, the other value was not either (`retire`: no
        // link leads to it, except links of values that were retired before), and the collector
        // keeps it until the guard is dropped. A link of a value that was retired before the guard
        // cannot be reached with it.
        unsafe { pointer.as_ref() }
    }

    /// Returns the value, for the only thread that may change the link.
    #[inline(always)]
    pub(super) fn load_own<'g>(&self, _guard: &'g Guard) -> Option<&'g T> {
        // SAFETY: as in `load`.
        unsafe { load_own_pointer(&self.pointer).as_ref() }
    }

    /// Returns the value's pointer, for the only thread that may change the link.
    #[inline(always)]
    pub(super) fn published(&self) -> Option<Published<T>> {
        NonNull::new(load_own_pointer(&self.pointer)).map(Published)
    }

    /// Makes the link lead to another value, or to none.
    #[inline(always)]
    pub(super) fn set(&self, value: Option<Published<T>>) {
        let pointer = value.map_or(ptr::null_mut(), |value| value.0.as_ptr());
        self.pointer.store(pointer, Ordering::Release);
    }
}
