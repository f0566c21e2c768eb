//! Stacks of guests that use the component model's concurrency: no limit of the engine counts them, so each is charged
//! to its call's memory, before it is made.

use std::ops::Range;
use std::ptr;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use wasmtime::{Error, StackCreator, StackMemory};

use super::limiter::{MemoryCharge, charge_stack};

/// A call has no memory left for the stack of another task.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("no memory is left for the stack of another task")]
pub(super) struct NoStack;

/// Each stack has a page below it that cannot be used.
pub(super) struct StackAllocator;

struct StackMapping {
    start: usize,
    guard_bytes: usize,
    length: usize,
    _charge: MemoryCharge,
}

impl StackMapping {
    #[allow(
        unsafe_code,
        reason = "the mapping is new, and nothing else knows its address"
    )]
    fn make(bytes: usize, charge: MemoryCharge) -> Result<Self, Error> {
        let page = rustix::param::page_size();
        let usable = bytes.next_multiple_of(page).max(page);
        let length = usable.saturating_add(page);
        // SAFETY: the kernel chooses the address of a private mapping without content, and so of one that nothing uses.
        let start = unsafe {
            mmap_anonymous(
                ptr::null_mut(),
                length,
                ProtFlags::empty(),
                MapFlags::PRIVATE,
            )
        }?;
        let stack = Self {
            start: start.expose_provenance(),
            guard_bytes: page,
            length,
            _charge: charge,
        };
        // SAFETY: the range is within the mapping, behind its first page.
        unsafe {
            mprotect(
                start.byte_add(page),
                usable,
                MprotectFlags::READ | MprotectFlags::WRITE,
            )
        }?;
        Ok(stack)
    }

    fn end(&self) -> usize {
        self.start.saturating_add(self.length)
    }

    fn bottom(&self) -> usize {
        self.start.saturating_add(self.guard_bytes)
    }
}

impl Drop for StackMapping {
    #[allow(unsafe_code, reason = "the mapping is that of this stack")]
    fn drop(&mut self) {
        // SAFETY: the engine drops a stack after the last task on it, and the mapping is of this stack alone.
        let _ = unsafe { munmap(ptr::with_exposed_provenance_mut(self.start), self.length) };
    }
}

#[allow(
    unsafe_code,
    reason = "the engine relies on what is returned: memory of this stack alone, zeroed, above a guard page"
)]
// SAFETY: a new private mapping is zeroed, and its first page cannot be used.
unsafe impl StackCreator for StackAllocator {
    fn new_stack(&self, bytes: usize, _zeroed: bool) -> Result<Box<dyn StackMemory>, Error> {
        let charge = charge_stack(bytes).ok_or(NoStack)?;
        Ok(Box::new(StackMapping::make(bytes, charge)?))
    }
}

#[allow(unsafe_code, reason = "the engine relies on these addresses")]
// SAFETY: the addresses are the mapping's, in whole pages.
unsafe impl StackMemory for StackMapping {
    fn top(&self) -> *mut u8 {
        ptr::with_exposed_provenance_mut(self.end())
    }

    fn range(&self) -> Range<usize> {
        self.bottom()..self.end()
    }

    fn guard_range(&self) -> Range<*mut u8> {
        ptr::with_exposed_provenance_mut(self.start)
            ..ptr::with_exposed_provenance_mut(self.bottom())
    }
}
