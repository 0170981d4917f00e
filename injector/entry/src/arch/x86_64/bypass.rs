//! Branches of the allocator to its own entries, which must not meet the hook: never count one
//! call twice.

use super::jump::{TooFar, rel32};
use heapattach_process::addr::{Bias, ImageAddr, RemoteAddr};

/// What a branch of the allocator leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Callee {
    /// The hooked function, as the list of hooked functions gave it.
    pub function: ImageAddr,
    /// The slot of the GOT by way of which the branch leads there, if it leads to a PLT stub. It is
    /// a call of this function only while the slot holds its address (or is not yet bound and no
    /// other module's definition wins); if it holds another allocator's, leave the branch alone.
    pub slot: Option<ImageAddr>,
}

/// One direct branch inside the allocator to an entry that is to be patched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bypass {
    /// The instruction.
    pub site: ImageAddr,
    /// Where it leads.
    pub callee: Callee,
    /// The four bytes of its rel32 as the file has them; compare before writing.
    pub old: [u8; 4],
    /// Where in the instruction the rel32 lies; always its last four bytes.
    pub(crate) rel32_offset: u8,
    /// The hooked function whose window holds the site. If that is patched, the instruction has
    /// moved, and [`crate::EntryPlan::relocate`] has led it past the hook.
    pub(crate) moved_with: Option<ImageAddr>,
}

impl Bypass {
    /// Where the loader put the four bytes that [`Self::rewrite`] gives.
    pub fn field(&self, bias: Bias) -> RemoteAddr {
        bias.place(self.site).offset(u64::from(self.rel32_offset))
    }

    /// The rel32 that makes the branch lead to `trampoline`, that of the function it leads to.
    ///
    /// # Errors
    /// When `trampoline` is not within 2 GiB of the branch.
    pub fn rewrite(&self, bias: Bias, trampoline: RemoteAddr) -> Result<[u8; 4], TooFar> {
        rel32(bias.place(self.site), u64::from(self.rel32_offset) + 4, trampoline)
    }
}
