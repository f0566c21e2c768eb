//! Subjects in a call's arguments: the tool declares which arguments name them; the host resolves them.

mod paths;

use std::path::PathBuf;

use serde_json::Value;
use url::Url;

use toolcell_spec::{
    ErrorCode, Input, PermissionProfile, Refusal, SubjectField, SubjectKind, pointed, pointed_mut,
    pointer_steps,
};

use super::network::{Origin, is_plain};
use super::plain_path::plain;
use super::{Capability, Grants, PathPattern};

pub(super) use paths::{below, mount_of};
use paths::{guest_path, joined, locate};

/// Paths and URLs are each compared with every grant and every rule.
const SUBJECTS_MAX: usize = 1_000;
/// Path components of a call, link targets included. Each costs a system call.
pub(super) const STEPS_MAX: usize = 20_000;
/// No system opens a longer path. It is left as it was written, because each of its names costs as much as all before it.
pub(super) const PATH_BYTES_MAX: usize = 4_096;
const QUICK_SUBJECTS_MAX: usize = 16;
const QUICK_BYTES_MAX: usize = 4 << 10;

#[derive(Debug, Default)]
pub(super) struct CallSubjects {
    pub(super) paths: Vec<NamedPath>,
    pub(super) urls: Vec<NamedUrl>,
    pub(super) resources: Vec<String>,
    pub(super) commands: Vec<NamedCommand>,
    pub(super) operations: Vec<String>,
}

#[derive(Debug)]
pub(super) struct NamedCommand {
    pub(super) text: String,
    /// `true` if every shell reads it as these words.
    pub(super) plain: bool,
}

impl NamedCommand {
    /// Reads a command line, or a list of words, which no shell splits.
    fn read(value: &Value) -> Option<Self> {
        let words: Vec<&str> = match value {
            Value::String(line) => line.split_whitespace().collect(),
            Value::Array(words) => words.iter().map(Value::as_str).collect::<Option<_>>()?,
            _ => return None,
        };
        let is_plain = |c: char| c.is_alphanumeric() || "_-./:,@%+=".contains(c);
        // A word such as `A=b` before the program sets a variable.
        let sets_variable = words.first().is_some_and(|first| first.contains('='));
        let plain = !sets_variable
            && words
                .iter()
                .all(|word| !word.is_empty() && word.chars().all(is_plain));
        Some(Self {
            text: words.join(" "),
            plain,
        })
    }

    pub(super) fn by_name(&self) -> &str {
        let program = self.text.split(' ').next().unwrap_or_default();
        let folder = program.rfind('/').map_or(0, |at| at + 1);
        self.text.get(folder..).unwrap_or_default()
    }
}

#[derive(Debug)]
pub(super) struct NamedUrl {
    pub(super) url: Url,
    /// `true` if every server interprets the typed path alike. Dot segments in `url` are already resolved.
    pub(super) plain: bool,
}

#[derive(Debug)]
pub(super) struct NamedPath {
    pub(super) typed: String,
    /// Absolute, as the guest would open it.
    pub(super) guest: String,
    /// Canonical as far as it exists, even if out of reach.
    pub(super) host: PathBuf,
    pub(super) links: Vec<PathBuf>,
    /// Index of the guest's mount; `None` if out of reach.
    pub(super) mount: Option<usize>,
}

/// Resolves the arguments in `fields`. Fails with `subject_unreadable`, `too_many_subjects` or `subjects_too_long`.
pub(super) fn named(
    fields: &[SubjectField],
    input: &Input,
    capability: &Capability,
) -> Result<CallSubjects, Refusal> {
    let mut named = CallSubjects::default();
    let mut steps = STEPS_MAX;
    let Ok(value) = input.value() else {
        return Ok(named);
    };
    for field in fields {
        if field.kind == SubjectKind::Command {
            named.add_commands(field, value)?;
            continue;
        }
        let found = subjects(value, field);
        let given = found.iter().any(|value| !value.is_null());
        for value in found.into_iter().filter(|value| !value.is_null()) {
            let text = value
                .as_str()
                .ok_or_else(|| unreadable(field, "is not a string"))?;
            named.add(field, text, capability, &mut steps)?;
        }
        if let (false, Some(default)) = (given, &field.default) {
            named.add(field, default, capability, &mut steps)?;
        }
    }
    Ok(named)
}

/// Makes paths absolute, because only some languages heed a working directory, and none knows the caller's where it was
/// not granted; `None` if nothing changes, or no folder is granted.
pub(super) fn absolute(
    fields: &[SubjectField],
    input: &Input,
    capability: &Capability,
) -> Option<Input> {
    if capability.mounts.is_empty() || !names_paths(fields) {
        return None;
    }
    let given = input.value().ok()?;
    let mut value = given.clone();
    for field in fields
        .iter()
        .filter(|field| field.kind == SubjectKind::Path)
    {
        let steps = pointer_steps(&field.pointer);
        let mut is_given = false;
        for place in places_mut(&mut value, &steps) {
            is_given |= !place.is_null();
            if let Some(text) = place.as_str().filter(|text| !text.is_empty()) {
                *place = guest_path(text, capability).into();
            }
        }
        // The guest would look for its own default in its working directory.
        let default = field.default.as_deref().filter(|_| !is_given);
        if let Some(path) = default.and_then(|default| elsewhere(default, capability)) {
            give(&mut value, &steps, path);
        }
    }
    (value != *given).then(|| input.with_value(value))
}

pub fn names_paths(fields: &[SubjectField]) -> bool {
    fields.iter().any(|field| field.kind == SubjectKind::Path)
}

/// The values at `steps`; the items of a list one by one.
fn places_mut<'v>(value: &'v mut Value, steps: &[String]) -> Vec<&'v mut Value> {
    let found = pointed_mut(value, steps).into_iter();
    found
        .flat_map(|(_, place)| match place {
            Value::Array(items) => items.as_mut_slice(),
            one => std::slice::from_mut(one),
        })
        .collect()
}

/// Makes paths absolute as a guest with `profile` and `grants` would get them, and canonical; `None` if nothing changes.
pub fn with_whole_paths(
    profile: &PermissionProfile,
    fields: &[SubjectField],
    grants: &Grants,
    input: &Input,
) -> Option<Input> {
    let capability = Capability::effective(profile, grants, &[]);
    let whole = absolute(fields, input, &capability);
    let input = whole.as_ref().unwrap_or(input);
    let given = input.value().ok()?;
    let mut value = given.clone();
    let mut steps = STEPS_MAX;
    for field in fields
        .iter()
        .filter(|field| field.kind == SubjectKind::Path)
    {
        for place in places_mut(&mut value, &pointer_steps(&field.pointer)) {
            if let Some(text) = place.as_str().filter(|text| !text.is_empty()) {
                *place = plain(text, &capability.mounts, &mut steps).into();
            }
        }
    }
    let seen = (value != *given).then(|| input.with_value(value));
    seen.or(whole)
}

/// Target of `default`, if the guest would not find it in its own working directory.
fn elsewhere(default: &str, capability: &Capability) -> Option<String> {
    let own = joined(capability.cwd.as_deref().unwrap_or_default(), default);
    let path = guest_path(default, capability);
    let is_found = |path: &str| mount_of(path, &capability.mounts).is_some();
    (!is_found(&own) && is_found(&path)).then_some(path)
}

/// Sets the value at the end of the steps of a pointer, where the objects on the way exist.
fn give(mut value: &mut Value, steps: &[String], path: String) {
    let Some((last, outer)) = steps.split_last() else {
        return;
    };
    for step in outer {
        let Some(inner) = value.get_mut(step.as_str()) else {
            return;
        };
        value = inner;
    }
    if let Value::Object(fields) = value
        && fields.get(last).is_none_or(Value::is_null)
    {
        fields.insert(last.clone(), path.into());
    }
}

/// `true` if many or long subjects could delay other calls during an inline decision.
pub fn names_much(fields: &[SubjectField], input: &Input) -> bool {
    let Ok(value) = input.value() else {
        return false;
    };
    let found: Vec<&Value> = fields
        .iter()
        .flat_map(|field| subjects(value, field))
        .collect();
    let bytes = found
        .iter()
        .filter_map(|value| value.as_str())
        .map(str::len)
        .sum::<usize>();
    found.len() > QUICK_SUBJECTS_MAX || bytes > QUICK_BYTES_MAX
}

impl NamedUrl {
    pub(super) fn origin(&self) -> Option<Origin> {
        Origin::of_url(&self.url)
    }
}

impl NamedPath {
    /// `true` if the pattern of a denial or a question covers the target or a link.
    pub(super) fn touches(&self, pattern: &PathPattern) -> bool {
        let links = self.links.iter().filter(|_| guard!("denied_names"));
        links.chain([&self.host]).any(|place| pattern.covers(place))
    }
}

impl CallSubjects {
    /// A list is one command.
    fn add_commands(&mut self, field: &SubjectField, input: &Value) -> Result<(), Refusal> {
        let mut found = pointed(input, &pointer_steps(&field.pointer));
        found.retain(|value| !value.is_null());
        let default = field.default.clone().map(Value::String);
        for value in found
            .iter()
            .copied()
            .chain(default.as_ref().filter(|_| found.is_empty()))
        {
            let command = NamedCommand::read(value);
            self.commands.push(
                command
                    .ok_or_else(|| unreadable(field, "is neither a text nor a list of texts"))?,
            );
        }
        Ok(())
    }

    fn add(
        &mut self,
        field: &SubjectField,
        text: &str,
        capability: &Capability,
        steps: &mut usize,
    ) -> Result<(), Refusal> {
        let full = self.paths.len() + self.urls.len() >= SUBJECTS_MAX;
        if full && matches!(field.kind, SubjectKind::Path | SubjectKind::Url) {
            let message = format!(
                "the arguments name more than {SUBJECTS_MAX} paths and URLs; name fewer, in several calls if need be"
            );
            return Err(Refusal::new(ErrorCode::TooManySubjects, message));
        }
        match field.kind {
            SubjectKind::Path => {
                if text.is_empty() || text.contains('\0') {
                    return Err(unreadable(field, "is not a path"));
                }
                self.paths.push(locate(text, capability, steps));
                if *steps == 0 {
                    return Err(too_long());
                }
            }
            SubjectKind::Url => {
                let url = Url::parse(text).ok().filter(Url::has_host);
                let url = url.ok_or_else(|| unreadable(field, "is not a URL with a host"))?;
                self.urls.push(NamedUrl {
                    url,
                    plain: is_plain_url(text),
                });
            }
            SubjectKind::Resource => self.resources.push(text.to_owned()),
            SubjectKind::NativeOperationId => self.operations.push(text.to_owned()),
            SubjectKind::Command => {}
        }
        Ok(())
    }
}

/// `true` if parsing drops, converts and resolves nothing.
fn is_plain_url(typed: &str) -> bool {
    let Some((_, rest)) = typed.split_once("://") else {
        return false;
    };
    let path = rest.split(['?', '#']).next().unwrap_or_default();
    is_plain(path) && !typed.contains(|c: char| c.is_control() || c.is_whitespace())
}

pub(super) fn too_long() -> Refusal {
    let message = format!(
        "the paths among the arguments lead through more than {STEPS_MAX} names, those in links included; name fewer or \
         shorter paths, in several calls if need be"
    );
    Refusal::new(ErrorCode::SubjectsTooLong, message)
}

fn unreadable(field: &SubjectField, what: &str) -> Refusal {
    let message = format!(
        "cannot decide on this call: the argument {} {what}",
        field.pointer
    );
    Refusal::new(ErrorCode::SubjectUnreadable, message)
}

/// The values that `field` names. An argument that is a list names each of its items.
fn subjects<'v>(input: &'v Value, field: &SubjectField) -> Vec<&'v Value> {
    let found = pointed(input, &pointer_steps(&field.pointer)).into_iter();
    found
        .flat_map(|value| match value {
            Value::Array(items) => items.as_slice(),
            value => std::slice::from_ref(value),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::Mount;
    use super::paths::settled;
    use super::*;
    use serde_json::json;

    fn field(pointer: &str, kind: SubjectKind, default: Option<&str>) -> SubjectField {
        SubjectField {
            pointer: pointer.to_owned(),
            kind,
            default: default.map(str::to_owned),
        }
    }

    fn world(mounts: &[(&str, &str)]) -> Capability {
        let mount = |(host, guest): &(&str, &str)| Mount {
            host: (*host).into(),
            guest: (*guest).to_owned(),
            writable: false,
        };
        let mut world = Capability {
            mounts: mounts.iter().map(mount).collect(),
            ..Capability::default()
        };
        world.only = world.only_folder().map(str::to_owned);
        world
    }

    #[test]
    fn arguments_are_found_at_their_places_and_in_lists() {
        let fields = ["/a~1b/*/to", "/all", "//all"]
            .map(|pointer| field(pointer, SubjectKind::Resource, None));
        let input = json!({"a/b": [{"to": "x"}, {"to": "y"}, {}], "all": ["z", null], "": {"all": "nameless"}});
        let named = named(&fields, &Input::from_value(input), &Capability::default()).unwrap();
        assert_eq!(named.resources, ["x", "y", "z", "nameless"]);
    }

    #[test]
    fn what_cannot_be_read_is_refused_and_what_is_absent_means_its_default() {
        let refused = |kind, value: Value| {
            let input = Input::from_value(json!({ "it": value }));
            named(&[field("/it", kind, None)], &input, &Capability::default())
                .unwrap_err()
                .code
        };
        assert_eq!(
            refused(SubjectKind::Url, json!("not a url")),
            ErrorCode::SubjectUnreadable
        );
        assert_eq!(
            refused(SubjectKind::Url, json!("data:text/plain,x")),
            ErrorCode::SubjectUnreadable
        );
        assert_eq!(
            refused(SubjectKind::Path, json!(7)),
            ErrorCode::SubjectUnreadable
        );
        assert_eq!(
            refused(SubjectKind::Path, json!("a\0b")),
            ErrorCode::SubjectUnreadable
        );
        let fields = [field("/it", SubjectKind::Resource, Some("here"))];
        let absent = named(
            &fields,
            &Input::from_value(json!({})),
            &Capability::default(),
        )
        .unwrap();
        assert_eq!(absent.resources, ["here"]);
    }

    #[test]
    fn the_guest_gets_relative_paths_as_they_were_decided_on() {
        let paths = ["/a~1b/*/to", "/all", "/deep/0"]
            .map(|pointer| field(pointer, SubjectKind::Path, Some("x")));
        let fields = paths
            .into_iter()
            .chain([field("/name", SubjectKind::Resource, None)])
            .collect::<Vec<_>>();
        let wide = Capability {
            cwd: Some("/w".to_owned()),
            ..world(&[("/w", "/w")])
        };
        let text = |input: &str| {
            let input = Input::from_text(input);
            absolute(&fields, &input, &wide).map(|changed| {
                let resolved = named(&fields, &input, &wide).unwrap().paths;
                let given = named(&fields, &changed, &wide).unwrap().paths;
                let guests = |paths: &[NamedPath]| {
                    paths
                        .iter()
                        .map(|path| path.guest.clone())
                        .collect::<Vec<_>>()
                };
                assert_eq!(guests(&resolved), guests(&given), "{}", changed.text());
                assert!(given.iter().all(|path| path.typed == path.guest));
                changed.text().to_owned()
            })
        };
        assert_eq!(
            text(r#"{"n":12345678901234567890123,"a/b":[{"to":"a"},{"to":"/b"},{}],"all":["../c",null,"./d"],"name":"e","deep":["f","g"]}"#)
                .as_deref(),
            Some(
                r#"{"n":12345678901234567890123,"a/b":[{"to":"/w/a"},{"to":"/b"},{}],"all":["/w/../c",null,"/w/./d"],"name":"e","deep":["/w/f","g"]}"#
            ),
        );
        // Nothing is relative, or absent: an absent argument stays absent.
        for input in [
            r#"{"all":"/c", "name":"e"}"#,
            "{}",
            r#"{"all":null}"#,
            r#"{"all":7}"#,
            "[1",
            r#"{"all":""}"#,
        ] {
            assert_eq!(text(input), None, "{input}");
        }
        let input = Input::from_text(r#"{"all":"c"}"#);
        assert!(
            absolute(
                &fields,
                &input,
                &Capability {
                    mounts: Vec::new(),
                    ..wide.clone()
                }
            )
            .is_none()
        );
        let nowhere = absolute(
            &fields,
            &input,
            &Capability {
                cwd: None,
                ..wide.clone()
            },
        )
        .unwrap();
        assert_eq!(
            nowhere.text(),
            r#"{"all":"/w/c"}"#,
            "the only folder is where a path starts"
        );
    }

    #[test]
    fn a_path_leads_into_a_mount_by_way_of_what_is_outside() {
        let from = |from: &str, mounts: &[&str], typed: &str| {
            let mounts: Vec<(&str, &str)> = mounts.iter().map(|mount| (*mount, *mount)).collect();
            guest_path(
                typed,
                &Capability {
                    from: Some(from.to_owned()),
                    ..world(&mounts)
                },
            )
        };
        let one = &["/x/ws"][..];
        assert_eq!(from("/x/cl", one, "../ws/a.csv"), "/x/ws/a.csv");
        assert_eq!(
            from("/x/cl", one, "/x/cl/.././ws/a/../b"),
            "/x/ws/a/../b",
            "links are the guest's to follow"
        );
        assert_eq!(from("/x", one, "ws/./a"), "/x/ws/./a");
        assert_eq!(
            (from("/x", one, "."), from("/", one, "a.csv")),
            ("/x/ws".to_owned(), "/x/ws/a.csv".to_owned())
        );
        assert_eq!(
            from("/x/ws/sub", one, "../a"),
            "/x/ws/sub/../a",
            "it stays in the mount, as it was typed"
        );
        let two = &["/x/cl", "/x/ws"][..];
        assert_eq!(from("/x/cl/sub", two, "../../ws/a"), "/x/ws/a");
        for (start, typed) in [
            ("/x/cl", "../../m"),
            ("/x/cl", "link/../../ws/a"),
            ("/x", "/x/ws/link/../../ws/a"),
        ] {
            assert_eq!(
                settled(
                    start,
                    typed,
                    &world(&[("/x/cl", "/x/cl"), ("/x/ws", "/x/ws")]).mounts
                ),
                None,
                "{typed}"
            );
        }
        let deep = world(&[("/x/m", "/x/m"), ("/x/ws", "/x/ws")]);
        assert_eq!(
            settled("/x/a/b", "../../m/link/../../ws/f", &deep.mounts),
            None,
            "a link may lead anywhere"
        );
        assert_eq!(
            from("/y", two, "a.csv"),
            "/a.csv",
            "of two folders, none is meant"
        );
    }

    #[test]
    fn a_guest_is_told_a_default_that_it_would_look_for_elsewhere() {
        let fields = [field("/path", SubjectKind::Path, Some("."))];
        let around = |cwd: Option<&str>, from: &str| {
            let wide = Capability {
                cwd: cwd.map(str::to_owned),
                from: Some(from.to_owned()),
                ..world(&[("/x/ws", "/x/ws")])
            };
            absolute(&fields, &Input::from_text(r#"{"n":1}"#), &wide)
                .map(|changed| changed.text().to_owned())
        };
        assert_eq!(
            around(Some("/x"), "/x").as_deref(),
            Some(r#"{"n":1,"path":"/x/ws"}"#)
        );
        assert_eq!(
            (around(Some("/x/ws"), "/x/ws"), around(Some("/x/ws"), "/y")),
            (None, None)
        );
    }

    #[test]
    fn a_mount_is_chosen_by_whole_names_and_the_longest_wins() {
        let mounts = world(&[("/w", "/w"), ("/out", "/w/out")]).mounts;
        assert_eq!(mount_of("/w/a", &mounts), Some(0));
        assert_eq!(mount_of("/w/out/a", &mounts), Some(1));
        assert_eq!(
            mount_of("/w/out/../a", &mounts),
            Some(1),
            "as the guest's own library does"
        );
        assert_eq!(mount_of("/w-evil/a", &mounts), None);
    }
}
