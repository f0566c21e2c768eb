//! One tool on its way into a lock.

use std::path::Path;

use toolcell::Refusal;
use toolcell_install::component;
use toolcell_install::lock::LockEntry;
use toolcell_install::lock_location::{self, InstalledTools};
use toolcell_install::obtain::{FetchRequest, VerifiedComponent, obtain};
use toolcell_install::plan::{InstallPlan, ToolVersion};
use toolcell_install::reference::ComponentReference;
use toolcell_install::signature::{SignatureCheck, ValidSignature};
use toolcell_install::store;
use toolcell_install::verifier::{SignatureSubject, Signer};
use toolcell_spec::{ErrorCode, ToolDeclaration};

use super::offer::{self, Offer};
use super::options::Consent;
use super::report::{Report, State};
use super::shop::{Shop, declared_by};

pub(super) struct Want {
    pub(super) name: String,
    pub(super) reference: ComponentReference,
    pub(super) written: String,
    pub(super) pinned: Option<LockEntry>,
    pub(super) is_unsigned_allowed: bool,
    pub(super) is_declared: bool,
    /// If `true`, `[tools]` of a project gets the name.
    pub(super) is_new: bool,
    pub(super) is_locked: bool,
}

impl Want {
    pub(super) fn new(name: &str, written: String, reference: ComponentReference) -> Self {
        Self {
            name: name.to_owned(),
            reference,
            written,
            pinned: None,
            is_unsigned_allowed: false,
            is_declared: false,
            is_new: false,
            is_locked: false,
        }
    }

    pub(super) fn locked(self, is_locked: bool) -> Self {
        Self { is_locked, ..self }
    }
}

impl Shop {
    /// Installs what is not installed already, if the user agrees.
    pub(super) fn take(
        &self,
        want: &Want,
        consent: &Consent,
        is_dry: bool,
        report: &mut Report,
    ) -> Result<(), Refusal> {
        let installed = self.place.read()?;
        if let Some(entry) = self.is_there(want, &installed) {
            if !is_dry && want.is_new {
                self.place.change(|_| self.declare(want))?;
            }
            report.add(State::Unchanged, entry, None, &[]);
            return Ok(());
        }
        let last = installed.last(&want.name);
        let (mut after, obtained, mut notes) =
            self.candidate(want, last.and_then(|entry| entry.signer.as_ref()))?;
        let taken = installed.give_way(&mut after.entry, want.pinned.as_ref());
        notes.extend(taken.iter().map(|(name, owner)| {
            format!(
                "rules that name `{name}` mean `{owner}`, which has the name already; they can name `{}`",
                want.name
            )
        }));
        if want.is_locked && want.pinned.as_ref() != Some(&after.entry) {
            return Err(out_of_date(want, self.place.file()));
        }
        let digests = (after.entry.ceiling, after.entry.declarations);
        let before = last.map(|entry| self.version(entry, digests));
        let policy = self.verifier.policy();
        let names_both =
            |one: &Signer, other: &Signer| policy.names_both(&want.reference, one, other);
        let plan = InstallPlan::new(before.as_ref(), &after, names_both)?;
        let offer = Offer {
            entry: &after.entry,
            before: last,
            ceiling: after.declared.as_ref().map(|(ceiling, _)| ceiling),
            plan: &plan,
            notes: &notes,
            details: consent.details,
        };
        let is_kept = store::read(self.home.folder(), &after.entry.component).is_ok();
        let state = match last {
            None => State::Installed,
            Some(last) if *last != after.entry => State::Updated,
            Some(_) if is_kept && installed.lock.0.get(&want.name) == last => State::Unchanged,
            Some(_) => State::Restored,
        };
        if is_dry {
            report.show(&offer);
            report.add(state, &after.entry, Some(&offer), &notes);
            return Ok(());
        }
        if plan.asks() && guard!("install_consent") {
            offer::agree(&offer, consent, report)?;
        }
        if let Some(obtained) = obtained {
            obtained.keep(&self.store)?;
        }
        let seen = installed.lock.0.get(&want.name);
        self.place.change(|installed| {
            // First, so that a process that is killed leaves a name to install, and not one to remove.
            self.declare(want)?;
            installed.put(after.entry.clone(), seen)
        })?;
        report.add(state, &after.entry, Some(&offer), &notes);
        Ok(())
    }

    /// This user confirmed the entry, and the store has its bytes.
    fn is_there<'a>(&self, want: &Want, installed: &'a InstalledTools) -> Option<&'a LockEntry> {
        let pinned = want.pinned.as_ref()?;
        let entry = installed.lock.0.get(&want.name);
        let entry = entry.filter(|entry| *entry == pinned && installed.is_confirmed(entry))?;
        let is_same =
            entry.declared == want.is_declared && entry.allow_unsigned == want.is_unsigned_allowed;
        (is_same && store::read(self.home.folder(), &entry.component).is_ok()).then_some(entry)
    }

    /// The new lock entry for `want`, and its bytes unless they are in the store. `last_signer` signed the version installed under its name.
    fn candidate(
        &self,
        want: &Want,
        last_signer: Option<&Signer>,
    ) -> Result<(ToolVersion, Option<VerifiedComponent>, Vec<String>), Refusal> {
        if let Some((version, notes)) = self.known(want)? {
            return Ok((version, None, notes));
        }
        let pinned = want.pinned.as_ref();
        // The locked bytes are in the package of their version, whatever is the newest now.
        let locked = pinned.and_then(|entry| entry.version.as_deref());
        let reference = match (&want.reference, locked) {
            (ComponentReference::Package(package), Some(version)) => {
                &ComponentReference::Package(package.at(version))
            }
            (reference, _) => reference,
        };
        let wanted = FetchRequest {
            reference,
            pinned: pinned.map(|entry| (entry.digest, entry.component)),
            is_unsigned_allowed: want.is_unsigned_allowed,
            last_signer,
        };
        let place = (&self.store, self.home.folder());
        let obtained = obtain(&wanted, &self.sources, &self.verifier, place);
        let obtained = self.runtime.block_on(obtained)?;
        let tools = self.load(&obtained.bytes)?;
        let (ceiling, words) = declared_by(&tools);
        let sorted = |name: fn(&ToolDeclaration) -> String| {
            let mut names: Vec<String> =
                tools.iter().map(|tool| name(tool.declaration())).collect();
            names.sort();
            names
        };
        let entry = LockEntry {
            name: want.name.clone(),
            reference: want.written.clone(),
            digest: obtained.digest(),
            component: obtained.component,
            size: obtained.bytes.len() as u64,
            version: version(&obtained),
            ceiling: ceiling.digest(),
            declarations: words.digest(),
            tools: sorted(ToolDeclaration::qualified_name),
            tool_ids: sorted(|declaration| declaration.tool_id.clone()),
            taken: Vec::new(),
            declared: want.is_declared,
            allow_unsigned: want.is_unsigned_allowed,
            signed_at: obtained.verdict.signed_at,
            signer: obtained.verdict.signer.clone(),
        };
        let mut notes = obtained.verdict.notes.clone();
        if entry.signer.is_some() && !obtained.verdict.is_named {
            let note = "no [[signer]] names this signer: it is remembered, and another one will be asked about";
            notes.push(note.to_owned());
        }
        let declared = Some((ceiling, words));
        Ok((ToolVersion { entry, declared }, Some(obtained), notes))
    }

    /// The pinned bytes, without a network: the store has them, and this user has confirmed an entry with the same
    /// reference, digests and signer in any lock. Fails on a signer whom the settings do not allow.
    fn known(&self, want: &Want) -> Result<Option<(ToolVersion, Vec<String>)>, Refusal> {
        let Some(pinned) = want.pinned.as_ref().filter(|_| self.sources.offline) else {
            return Ok(None);
        };
        let home = self.home.folder();
        let same = |entry: &LockEntry| {
            let digests = (entry.digest, entry.component) == (pinned.digest, pinned.component);
            digests && (&entry.reference, &entry.signer) == (&pinned.reference, &pinned.signer)
        };
        let Some(known) = lock_location::known(home)?.into_iter().find(same) else {
            return Ok(None);
        };
        let Ok(bytes) = store::read(home, &known.component) else {
            return Ok(None);
        };
        let notes = self.judged(want, &known)?;
        let tools = self.load(&bytes)?;
        let entry = LockEntry {
            name: want.name.clone(),
            declared: want.is_declared,
            allow_unsigned: want.is_unsigned_allowed,
            ..known
        };
        let declared = Some(declared_by(&tools));
        Ok(Some((ToolVersion { entry, declared }, notes)))
    }

    /// Applies this project's settings to a signature checked before: another lock may have been less strict.
    fn judged(&self, want: &Want, known: &LockEntry) -> Result<Vec<String>, Refusal> {
        let earlier = known.signer.iter().map(|signer| SignatureCheck {
            found: known.reference.clone(),
            format: "unknown",
            outcome: Ok(ValidSignature {
                signer: signer.clone(),
                signed_at: None,
                is_logged: false,
            }),
        });
        let subject = SignatureSubject {
            reference: &want.reference,
            digest: known.digest,
            bytes: &[],
            is_unsigned_allowed: want.is_unsigned_allowed,
            last_signer: known.signer.as_ref(),
        };
        let mut notes = match self.verifier.judge(&subject, &earlier.collect::<Vec<_>>()) {
            Err(refusal) if guard!("known_signers") => return Err(refusal),
            judged => judged.map(|verdict| verdict.notes).unwrap_or_default(),
        };
        if known.signer.is_some() {
            let note = "its signature was checked when it was first installed, not again";
            notes.push(note.to_owned());
        }
        Ok(notes)
    }
}

/// The publisher's, in the manifest or else in the component: without it, an older version behind a URL could not be
/// told from a newer one.
fn version(obtained: &VerifiedComponent) -> Option<String> {
    obtained
        .resolved
        .version()
        .map(str::to_owned)
        .or_else(|| component::version(&obtained.bytes))
}

fn out_of_date(want: &Want, lock: &Path) -> Refusal {
    let message = format!(
        "`{}` ({}) is not in {} as it would be installed, and --locked keeps that file as it is: run `toolcell install` \
         without it, and commit the lock",
        want.name,
        want.reference,
        lock.display()
    );
    Refusal::new(ErrorCode::LockOutOfDate, message)
}
