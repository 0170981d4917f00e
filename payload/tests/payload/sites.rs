//! Call sites by the thousand: a few instructions each, that call one address.
//!
//! # Safety
//! The instructions keep to the C calling convention and the stack's alignment.
#![allow(unsafe_code)]

use libc::{PROT_EXEC, PROT_READ};

use crate::mapped::Mapped;

const SIZE: usize = 64;
const RETURN: usize = 16;

/// Places that call the same function.
pub struct Sites {
    code: Mapped,
}

impl Sites {
    /// `count` places that call what lies at `callee`.
    pub fn new(callee: u64, count: usize) -> Self {
        let code = Mapped::new((count * SIZE).next_multiple_of(4096), PROT_READ | PROT_EXEC);
        for site in 0..count {
            code.write(site * SIZE, &[0x48, 0x83, 0xec, 0x08, 0x48, 0xb8]); // sub rsp, 8; mov rax,
            code.write(site * SIZE + 6, &callee.to_le_bytes());
            code.write(site * SIZE + 14, &[0xff, 0xd0, 0x48, 0x83, 0xc4, 0x08, 0xc3]); // call rax
        }
        Self { code }
    }

    /// The address to which the call at a site returns.
    pub fn return_address(&self, site: usize) -> u64 {
        self.code.address + (site * SIZE + RETURN) as u64
    }

    /// Calls from a site.
    pub fn call(&self, site: usize, a: u64, b: u64, c: u64) -> u64 {
        (self.function(site))(a, b, c)
    }

    /// A site as a function.
    pub fn function(&self, site: usize) -> extern "C" fn(u64, u64, u64) -> u64 {
        let address = self.code.address + (site * SIZE) as u64;
        // SAFETY: a whole function with this signature was written there.
        unsafe { std::mem::transmute::<u64, extern "C" fn(u64, u64, u64) -> u64>(address) }
    }
}

/// An original that tells that it was reached.
pub extern "C" fn sum(a: u64, b: u64, c: u64) -> u64 {
    a.wrapping_add(b).wrapping_add(c)
}

/// The address of [`sum`].
pub fn original() -> u64 {
    sum as extern "C" fn(u64, u64, u64) -> u64 as usize as u64
}
