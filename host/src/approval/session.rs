use std::fs;

/// What "for the rest of the session" means for a call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Session {
    /// Nothing: every call is asked about.
    #[default]
    None,
    Named(String),
    /// The terminal session of this process: as long as its leader lives.
    Terminal,
}

impl Session {
    /// Names the session; two sessions never have the same name. Nothing where there is none.
    pub fn id(&self) -> Option<String> {
        match self {
            Self::None => None,
            Self::Named(name) => Some(format!("named:{name}")),
            Self::Terminal => terminal(),
        }
    }
}

/// Process ids come again, and so do times since the start of the machine: the three together do not.
fn terminal() -> Option<String> {
    let leader = rustix::process::getsid(None).ok()?.as_raw_nonzero();
    let stat = fs::read_to_string(format!("/proc/{leader}/stat")).ok()?;
    // The name of the program, in parentheses, may hold anything; after it, the start is field 22 of all.
    let (_, fields) = stat.rsplit_once(") ")?;
    let start = fields.split(' ').nth(19)?;
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(format!("terminal:{}:{leader}:{start}", boot.trim()))
}
