// SPDX-License-Identifier: GPL-2.0

//! Models, one per file of the modules. Each claim holds in each order of its tasks.

mod cells;
mod credits;
