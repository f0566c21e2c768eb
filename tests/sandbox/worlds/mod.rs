//! Components that were not made for toolcell.

mod command;
