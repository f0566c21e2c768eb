use crate::record::Mode;

/// What the layers of configuration decided, compiled once for many calls.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    pub mode: Mode,
}
