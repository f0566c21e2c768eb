//! Removals of `toolcell install` without a reference.

use std::collections::BTreeMap;

use toolcell::Refusal;
use toolcell_install::lock::LockEntry;
use toolcell_install::lock_location::InstalledTools;
use toolcell_spec::ErrorCode;

use super::report::{Report, State};
use super::shop::Shop;

/// Takes out the names that `[tools]` names no more, and orphans, which the lock lost, such as by a pull. With
/// `--locked`, fails instead; with `--dry-run`, only says what would be removed.
pub(super) fn forget(
    shop: &Shop,
    installed: &InstalledTools,
    (is_locked, is_dry): (bool, bool),
    report: &mut Report,
) -> Result<(), Refusal> {
    let is_gone = |entry: &&LockEntry| entry.declared && !shop.declared().contains_key(&entry.name);
    let locked = installed.lock.0.values();
    let gone = installed
        .orphans()
        .filter(|_| !is_locked)
        .chain(locked)
        .filter(is_gone);
    let gone: BTreeMap<&str, &LockEntry> = gone.map(|entry| (entry.name.as_str(), entry)).collect();
    for entry in gone.into_values() {
        if is_locked {
            let message = format!(
                "`{}` is in {}, and [tools] does not name it any more: run `toolcell install` without --locked",
                entry.name,
                shop.place.file().display()
            );
            return Err(Refusal::new(ErrorCode::LockOutOfDate, message));
        }
        if !is_dry {
            shop.place.change(|installed| {
                installed.remove(&entry.name);
                Ok(())
            })?;
        }
        report.add(State::Removed, entry, None, &[]);
    }
    Ok(())
}
