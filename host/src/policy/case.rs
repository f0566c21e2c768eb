use crate::record::{Input, PermissionProfile};

use super::{Grants, Limits, Policy, Subject};

/// Everything that a decision is made from.
#[derive(Debug)]
pub struct Case<'a> {
    pub subject: Subject,
    /// `permission_input`: exactly what would run.
    pub input: Input,
    pub limits: Limits,
    pub declared: Declared<'a>,
    pub grants: &'a Grants,
    pub policy: &'a Policy,
}

/// What the tool says of itself. Claims, all of them: they can make a decision more careful, never less.
#[derive(Clone, Copy, Debug)]
pub struct Declared<'a> {
    pub tool_id: &'a str,
    pub namespace: &'a str,
    pub name: &'a str,
    pub profile: &'a PermissionProfile,
}
