// SPDX-License-Identifier: GPL-2.0

//! Tests of looking up regions.

use super::*;
use provider::selftest::{
    Consumer,
    Target,
    Test, //
};

/// The tests, each with its name, which is its claim.
pub(crate) const TESTS: &[(&str, Test)] = &[(
    "a region that was found in a round is not found by the number that it has lost",
    lost_number_finds_nothing,
)];

fn lost_number_finds_nothing() -> Result<bool> {
    let table = KBox::pin_init(Regions::new(), GFP_KERNEL)?;
    let target = Target::new(&table)?;
    let memory = RegisteredMemory {
        regions: &RoundRegions::new(&table),
        pd: Consumer::PD,
        access: region::AccessFlags {
            remote_read: false,
            remote_write: true,
        },
    };
    let range = stag::Range {
        stag: Stag(target.stag()),
        offset: 0,
        length: 4,
    };
    let find = || memory.check(range, stag::Access::RemoteWrite);
    let before = find();
    // Another region may have it now. This one is still registered.
    target.lose_number(&table);
    Ok(before.is_ok() && find() == Err(stag::Denied::Invalid))
}
