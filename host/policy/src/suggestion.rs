//! Options that would let a refused call run, for a shell.
//!
//! A model wrote the paths and origins. They are looked at as text alone, so that no answer says what is on the disk,
//! and nothing that a shell would expand is suggested.

use std::path::{Component, Path};

use toolcell_spec::PermissionProfile;

use super::DecisionCase;
use super::call_subjects::NamedPath;
use super::decide::Ruling;
use super::network::{Origin, wished};

/// Arguments can name very many.
const OPTIONS_MAX: usize = 5;
const VALUE_CHARS_MAX: usize = 200;

/// Has `DIR` for a folder that is not known, or must not be shown.
pub(super) fn folders<'p>(
    case: &DecisionCase<'_>,
    option: &str,
    paths: impl Iterator<Item = &'p NamedPath>,
) -> String {
    let folders: Option<Vec<String>> = if case.declared.hides_input {
        None
    } else {
        paths
            .map(|path| folder_of(&path.typed).map(|folder| format!("{option}={folder}")))
            .collect()
    };
    together(folders.unwrap_or_default()).unwrap_or_else(|| format!("{option}=DIR"))
}

/// For `named`, or else the profile's; `HOST` stands for any host.
pub(super) fn hosts(profile: &PermissionProfile, named: &[Origin]) -> String {
    let options = targets(profile, named)
        .iter()
        .map(|target| quoted("--allow-net=", target))
        .collect::<Option<Vec<_>>>();
    together(options.unwrap_or_default()).unwrap_or_else(|| "--allow-net=HOST".to_owned())
}

/// For the only origin that the call can want.
pub(super) fn secret(name: &str, profile: &PermissionProfile, named: &[Origin]) -> String {
    let known = match targets(profile, named).as_slice() {
        [one] => {
            quoted(&format!("--allow-secret={name}@"), one).filter(|_| !one.contains(['*', '@']))
        }
        _ => None,
    };
    known.unwrap_or_else(|| format!("--allow-secret={name}@https://HOST"))
}

/// Anything that no grant can give comes first, and alone.
pub(super) fn together_refused(mut lacking: Vec<Ruling>) -> Option<Box<Ruling>> {
    let can_be_granted = |ruling: &Ruling| {
        ruling
            .refusal
            .as_ref()
            .is_some_and(|refusal| refusal.needs_authorization.is_some())
    };
    if let Some(at) = lacking.iter().position(|ruling| !can_be_granted(ruling)) {
        return Some(Box::new(lacking.swap_remove(at)));
    }
    let mut rest = lacking.into_iter();
    let mut first = rest.next()?;
    let mut options = Vec::new();
    let mut causes = Vec::new();
    for ruling in rest {
        let Some(refusal) = ruling.refusal else {
            continue;
        };
        let option = refusal
            .needs_authorization
            .map(|needed| needed.next_action)
            .unwrap_or_default();
        options.extend((!options.contains(&option)).then_some(option));
        causes.extend((!causes.contains(&refusal.message)).then_some(refusal.message));
    }
    if let Some(refusal) = &mut first.refusal
        && let Some(needed) = refusal.needs_authorization.as_deref_mut()
        && !causes.is_empty()
    {
        options.retain(|option| *option != needed.next_action);
        options.insert(0, needed.next_action.clone());
        needed.next_action = options.join(" ");
        causes.retain(|cause| *cause != refusal.message);
        let message = format!(
            "{}; {}; all of it: {}",
            refusal.message,
            causes.join("; "),
            needed.next_action
        );
        first.message.clone_from(&message);
        refusal.message = message;
    }
    Some(Box::new(first))
}

fn targets(profile: &PermissionProfile, named: &[Origin]) -> Vec<String> {
    match named {
        [] => wished(profile)
            .iter()
            .map(|target| target.trim_start_matches("*://").to_owned())
            .collect(),
        named => named.iter().map(ToString::to_string).collect(),
    }
}

fn together(mut options: Vec<String>) -> Option<String> {
    options.sort_unstable();
    options.dedup();
    (1..=OPTIONS_MAX)
        .contains(&options.len())
        .then(|| options.join(" "))
}

/// A name with an extension is a file's. `None` if an option or a shell could read the path differently.
fn folder_of(typed: &str) -> Option<String> {
    let path = Path::new(typed);
    let is_file = !typed.ends_with(['/', '.']) && path.extension().is_some();
    let folder = if is_file { path.parent()? } else { path };
    let folder: std::path::PathBuf = folder
        .components()
        .filter(|name| *name != Component::CurDir)
        .collect();
    let folder = folder.to_str()?;
    is_plain(folder).then(|| {
        if folder.is_empty() {
            ".".to_owned()
        } else {
            folder.to_owned()
        }
    })
}

fn is_plain(value: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:".contains(c);
    value.chars().count() <= VALUE_CHARS_MAX && value.chars().all(is_plain)
}

/// Quotes what a shell would expand; `None` for a value that means any host.
fn quoted(start: &str, value: &str) -> Option<String> {
    let fits = |c: char| c.is_ascii_graphic() && !"',\\".contains(c);
    let is_any = value
        .split('@')
        .next_back()
        .is_some_and(|host| host.starts_with('*') && !host.starts_with("*."));
    if !value.chars().all(fits) || value.chars().count() > VALUE_CHARS_MAX || is_any {
        None
    } else if is_plain(value) {
        Some(format!("{start}{value}"))
    } else {
        Some(format!("'{start}{value}'"))
    }
}

#[cfg(test)]
mod tests {
    use super::{folder_of, quoted};

    #[test]
    fn a_folder_is_read_from_the_text_of_a_path() {
        for (typed, folder) in [
            ("a.txt", Some(".")),
            (".", Some(".")),
            ("..", Some("..")),
            ("src", Some("src")),
            ("./src/main.rs", Some("src")),
            ("/etc/passwd", Some("/etc/passwd")),
            ("../ws/cities.csv", Some("../ws")),
            ("/x/$(id).d/a.txt", None),
            ("/x/a=b/c.txt", None),
            ("a b/c.txt", None),
        ] {
            assert_eq!(folder_of(typed).as_deref(), folder, "{typed}");
        }
    }

    #[test]
    fn what_a_shell_expands_is_quoted_or_left_out() {
        let net = |value| quoted("--allow-net=", value);
        assert_eq!(
            net("http://127.0.0.1:18080").as_deref(),
            Some("--allow-net=http://127.0.0.1:18080")
        );
        assert_eq!(
            net("*.example.com").as_deref(),
            Some("'--allow-net=*.example.com'")
        );
        assert_eq!(
            net("http://[::1]:8080").as_deref(),
            Some("'--allow-net=http://[::1]:8080'")
        );
        assert_eq!((net("a'b"), net("a,b"), net("a b")), (None, None, None));
        assert_eq!(
            (net("*"), net("*:*"), net("GET@*:8080")),
            (None, None, None)
        );
    }
}
