//! The public surface of the library: every exported name with its public fields, variants, methods and traits, read
//! from the sources and compared with `surface.txt`, so that a change of it is seen in a diff.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use quote::ToTokens;
use syn::parse::{ParseStream, Parser};
use syn::{
    Attribute, Fields, Ident, ImplItem, Item, ItemImpl, ItemMacro, LitStr, Token, TraitItem, Type,
    UseTree,
};
use syn::{Meta, Visibility};

/// The library's crates, and their folders.
const CRATES: [(&str, &str); 8] = [
    ("toolcell", "toolcell"),
    ("toolcell_engine", "engine"),
    ("toolcell_executor", "executor"),
    ("toolcell_journal", "journal"),
    ("toolcell_policy", "policy"),
    ("toolcell_sandbox", "sandbox"),
    ("toolcell_spec", "spec"),
    ("toolcell_system", "system"),
];
/// Crates that are not part of the surface: an embedder would depend on their versions.
const HIDDEN: [&str; 5] = ["rmcp", "clap", "wasmtime", "hyper", "indicatif"];
const UPDATE: &str = "TOOLCELL_UPDATE_SURFACE=1 cargo test -p toolcell --test surface";

#[test]
fn the_public_surface_is_the_recorded_one() {
    let text: String = Sources::read()
        .surface()
        .iter()
        .map(|(name, exported)| exported.text(name))
        .collect();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/surface.txt");
    if std::env::var_os("TOOLCELL_UPDATE_SURFACE").is_some_and(|set| !set.is_empty()) {
        fs::write(&file, text).unwrap();
        return;
    }
    let recorded = fs::read_to_string(&file).unwrap_or_default();
    let difference = difference(&recorded, &text);
    assert!(
        difference.is_empty(),
        "the public surface is not the one in {}; if that is intended, record it with\n  {UPDATE}\n{difference}",
        file.display()
    );
}

/// A program that embeds the host has to learn no more than these.
const NAMES_MAX: usize = 81;

#[test]
fn the_library_exports_few_names() {
    let names = Sources::read().surface().len();
    assert!(
        (40..=NAMES_MAX).contains(&names),
        "{names} names are exported, and at most {NAMES_MAX} may be"
    );
}

#[test]
fn no_signature_names_a_type_of_a_hidden_crate() {
    let sources = Sources::read();
    let found: Vec<String> = sources
        .surface()
        .iter()
        .flat_map(|(name, exported)| {
            let hidden = |(part, items): (&String, &&[Item])| {
                Some(format!("{name}: {part}: {}", hidden(part, items)?))
            };
            exported.parts.iter().filter_map(hidden).collect::<Vec<_>>()
        })
        .collect();
    assert!(found.is_empty(), "{found:#?}");
}

#[test]
fn a_type_of_a_hidden_crate_is_found_under_any_name() {
    let file =
        syn::parse_file("use {std::fmt::Debug, wasmtime_wasi::p2::{self, WasiCtx as World}};")
            .unwrap();
    let hidden = |part: &str| hidden(part, &file.items);
    assert_eq!(
        hidden("fn world(&self) -> &World").as_deref(),
        Some("World")
    );
    assert_eq!(
        hidden("fn body(self) -> hyper::Body").as_deref(),
        Some("hyper")
    );
    assert_eq!(hidden("fn world(&self) -> &dyn Debug"), None);
}

#[test]
fn every_exported_type_has_an_example() {
    let sources = Sources::read();
    let surface = sources.surface();
    let is_type = |kind: &str| {
        ["struct", "enum", "trait", "type"]
            .iter()
            .any(|word| kind.starts_with(word))
    };
    let without = surface
        .iter()
        .filter(|(_, exported)| is_type(&exported.kind) && !exported.has_example);
    let without: Vec<&String> = without.map(|(name, _)| name).collect();
    assert!(
        without.is_empty(),
        "without an example in their documentation: {without:#?}"
    );
}

/// Returns the lines that only one of the texts has, each below the name that it belongs to.
fn difference(recorded: &str, now: &str) -> String {
    fn lines(text: &str) -> BTreeSet<(&str, &str)> {
        let mut name = "";
        let named = text.lines().map(|line| {
            if !line.starts_with(' ') {
                name = line.split(": ").next().unwrap_or(line);
            }
            (name, line)
        });
        named.collect()
    }
    let recorded = lines(recorded);
    let now = lines(now);
    let gone = recorded
        .difference(&now)
        .map(|(name, line)| (name, '-', line));
    let new = now
        .difference(&recorded)
        .map(|(name, line)| (name, '+', line));
    let sorted: BTreeSet<_> = gone.chain(new).collect();
    sorted
        .into_iter()
        .map(|(name, sign, line)| format!("{sign} {line}   [{name}]\n"))
        .collect()
}

/// The items of every source file of the crates, by path.
struct Sources(BTreeMap<PathBuf, Vec<Item>>);

/// A module: its file, and its items.
#[derive(Clone, Copy)]
struct Module<'a> {
    file: &'a Path,
    items: &'a [Item],
}

/// An exported name.
struct Exported<'a> {
    kind: String,
    /// Public fields, variants, methods and implemented traits, each with the items of the file that it is in.
    parts: BTreeMap<String, &'a [Item]>,
    has_example: bool,
}

impl Exported<'_> {
    fn text(&self, name: &str) -> String {
        let parts: String = self
            .parts
            .keys()
            .map(|part| format!("    {part}\n"))
            .collect();
        format!("{name}: {}\n{parts}", self.kind)
    }
}

impl Sources {
    fn read() -> Self {
        let mut sources = Self(BTreeMap::new());
        CRATES
            .iter()
            .for_each(|(_, folder)| sources.add(&source_folder(folder)));
        let spec = source_folder("spec");
        let file = spec.join("error_code.rs");
        sources.0.entry(file).or_default().push(error_codes(&spec));
        sources
    }

    fn add(&mut self, folder: &Path) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                self.add(&path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).unwrap();
                let file = syn::parse_file(&text)
                    .unwrap_or_else(|error| panic!("parse {}: {error}", path.display()));
                self.0.insert(path, file.items);
            }
        }
    }

    /// Returns the module at `path`, which begins with a crate.
    fn module(&self, path: &[String]) -> Option<Module<'_>> {
        let (name, modules) = path.split_first()?;
        let (_, folder) = CRATES.iter().find(|(known, _)| *known == name.as_str())?;
        let mut folder = source_folder(folder);
        let (file, items) = self.0.get_key_value(&folder.join("lib.rs"))?;
        let mut found = Module { file, items };
        for name in modules {
            let inner = found.items.iter().find_map(|item| match item {
                Item::Mod(inner) if inner.ident == *name => Some(inner),
                _ => None,
            })?;
            if let Some((_, items)) = &inner.content {
                found.items = items;
            } else {
                let files = [
                    folder.join(format!("{name}.rs")),
                    folder.join(name).join("mod.rs"),
                ];
                let (file, items) = files.iter().find_map(|file| self.0.get_key_value(file))?;
                found = Module { file, items };
            }
            folder.push(name);
        }
        Some(found)
    }

    /// Follows `name` of the module at `path` through re-exports, to the module that defines it and its name there.
    fn definition(&self, path: &[String], name: &str) -> Option<(Module<'_>, String)> {
        let module = self.module(path)?;
        let plain = module
            .items
            .iter()
            .any(|item| ident(item).is_some_and(|ident| *ident == *name));
        if plain {
            return Some((module, name.to_owned()));
        }
        let imported = imports(module.items)
            .into_iter()
            .find(|(_, imported)| imported == name);
        match imported {
            Some((from, _)) => {
                let (name, from) = from.split_last()?;
                self.definition(&absolute(path, from), name)
            }
            None => made_by(module.items, name).map(|_| (module, name.to_owned())),
        }
    }

    /// Everything that the library exports, by its name.
    fn surface(&self) -> BTreeMap<String, Exported<'_>> {
        let root = ["toolcell".to_owned()];
        let mut surface = BTreeMap::new();
        let module = self.module(&root).unwrap();
        self.export(module.items, &root, "", &mut surface);
        surface
    }

    /// Adds what `items`, those of the module at `path`, export, with `prefix` before each name.
    fn export<'a>(
        &'a self,
        items: &'a [Item],
        path: &[String],
        prefix: &str,
        surface: &mut BTreeMap<String, Exported<'a>>,
    ) {
        for item in items {
            match item {
                Item::Use(item) if is_public(&item.vis) => {
                    for (from, name) in leaves(&item.tree) {
                        let (last, from) = from.split_last().unwrap();
                        let (module, defined) = self
                            .definition(&absolute(path, from), last)
                            .unwrap_or_else(|| {
                                panic!("{prefix}{name} is exported, and defined nowhere")
                            });
                        surface.insert(format!("{prefix}{name}"), self.exported(module, &defined));
                    }
                }
                Item::Mod(inner) if is_public(&inner.vis) => {
                    let (_, items) = inner.content.as_ref().unwrap_or_else(|| {
                        panic!(
                            "the whole module {} is exported; name what of it is public",
                            inner.ident
                        )
                    });
                    let mut path = path.to_vec();
                    path.push(inner.ident.to_string());
                    self.export(items, &path, &format!("{prefix}{}::", inner.ident), surface);
                }
                _ => {}
            }
        }
    }

    fn exported<'a>(&'a self, module: Module<'a>, name: &str) -> Exported<'a> {
        let mut exported = match module
            .items
            .iter()
            .find(|item| ident(item).is_some_and(|ident| *ident == *name))
        {
            Some(item) => plain(item, module.items),
            None => made(module.items, name),
        };
        // Methods and traits are implemented in the folder of the type; a file of another folder may have a type of its
        // own with the same name.
        let beside = self
            .0
            .iter()
            .filter(|(file, _)| file.parent() == module.file.parent());
        for (_, items) in beside {
            let of_this = |item: &'a Item| match item {
                Item::Impl(block) if is_of(&block.self_ty, name) => Some(block),
                _ => None,
            };
            let parts = items.iter().filter_map(of_this).flat_map(implemented);
            exported
                .parts
                .extend(parts.map(|part| (part, items.as_slice())));
        }
        exported
    }
}

/// The type that the build script of `spec` makes, with a variant for each code of `errors.toml`.
fn error_codes(spec: &Path) -> Item {
    let codes = fs::read_to_string(spec.join("../errors.toml")).unwrap();
    let named = codes
        .lines()
        .filter_map(|line| line.strip_prefix("[code.")?.strip_suffix(']'));
    let variants: Vec<String> = named.map(camel_case).collect();
    assert!(variants.len() > 300, "{} codes only", variants.len());
    let script = fs::read_to_string(spec.join("../build.rs")).unwrap();
    let (before, _) = script.split_once("pub enum ErrorCode").unwrap();
    let (_, derives) = before.rsplit_once("#[derive(").unwrap();
    let derives = derives.split(')').next().unwrap();
    let example = if before.contains("/// ```") {
        "```"
    } else {
        ""
    };
    let variants = variants.join(", ");
    let text =
        format!("#[doc = {example:?}] #[derive({derives})] pub enum ErrorCode {{ {variants} }}");
    syn::parse_str(&text).unwrap()
}

/// `NotGranted` of `not_granted`.
fn camel_case(name: &str) -> String {
    let words = name.split('_').map(|word| {
        let (first, rest) = word.split_at_checked(1).unwrap_or_default();
        format!("{}{rest}", first.to_ascii_uppercase())
    });
    words.collect()
}

fn source_folder(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .unwrap()
        .join(folder)
        .join("src")
}

/// Returns the path of a module that a `use` in the module `at` calls `from`.
fn absolute(at: &[String], from: &[String]) -> Vec<String> {
    let Some((first, rest)) = from.split_first() else {
        return at.to_vec();
    };
    match first.as_str() {
        "crate" => at.iter().take(1).chain(rest).cloned().collect(),
        "self" => at.iter().chain(rest).cloned().collect(),
        "super" => absolute(at.split_last().map_or(at, |(_, outer)| outer), rest),
        name if CRATES.iter().any(|(known, _)| *known == name) => from.to_vec(),
        _ => at.iter().chain(from).cloned().collect(),
    }
}

/// All paths of a `use`, each with the name that it gets.
fn leaves(tree: &UseTree) -> Vec<(Vec<String>, String)> {
    match tree {
        UseTree::Path(path) => leaves(&path.tree)
            .into_iter()
            .map(|(rest, name)| {
                // `a::{self}` gives `a` its own name.
                let name = if name == "self" {
                    path.ident.to_string()
                } else {
                    name
                };
                let rest = rest.into_iter().filter(|word| word != "self");
                (
                    std::iter::once(path.ident.to_string())
                        .chain(rest)
                        .collect(),
                    name,
                )
            })
            .collect(),
        UseTree::Name(name) => vec![(vec![name.ident.to_string()], name.ident.to_string())],
        UseTree::Rename(name) => vec![(vec![name.ident.to_string()], name.rename.to_string())],
        UseTree::Group(group) => group.items.iter().flat_map(leaves).collect(),
        UseTree::Glob(_) => Vec::new(),
    }
}

fn imports(items: &[Item]) -> Vec<(Vec<String>, String)> {
    let trees = items.iter().filter_map(|item| match item {
        Item::Use(item) => Some(&item.tree),
        _ => None,
    });
    trees.flat_map(leaves).collect()
}

/// Returns the word of `part` that is a hidden crate, or a name that its file, of `items`, imports from one.
fn hidden(part: &str, items: &[Item]) -> Option<String> {
    let is_hidden = |word: &str| {
        HIDDEN.iter().any(|name| {
            word.strip_prefix(*name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
        })
    };
    let mut names: BTreeSet<String> = BTreeSet::new();
    for (from, name) in imports(items) {
        if from.first().is_some_and(|first| is_hidden(first)) {
            names.insert(name);
        }
    }
    words(part)
        .find(|word| is_hidden(word) || names.contains(*word))
        .map(str::to_owned)
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
}

fn is_public(visibility: &Visibility) -> bool {
    matches!(visibility, Visibility::Public(_))
}

/// Whether `ty` is the type `name`, with whatever parameters.
fn is_of(ty: &Type, name: &str) -> bool {
    matches!(ty, Type::Path(path) if path.path.segments.last().is_some_and(|last| last.ident == *name))
}

/// The name that a plain item defines.
fn ident(item: &Item) -> Option<&Ident> {
    match item {
        Item::Struct(item) => Some(&item.ident),
        Item::Enum(item) => Some(&item.ident),
        Item::Trait(item) => Some(&item.ident),
        Item::Type(item) => Some(&item.ident),
        Item::Const(item) => Some(&item.ident),
        Item::Fn(item) => Some(&item.sig.ident),
        _ => None,
    }
}

/// Describes an item that is written out, of a file with `items`.
fn plain<'a>(item: &'a Item, items: &'a [Item]) -> Exported<'a> {
    let (attributes, kind, parts) = match item {
        Item::Struct(item) => {
            let kind = format!("struct{}", tidy(&item.generics));
            (&item.attrs, kind, fields(&item.fields, true))
        }
        Item::Enum(item) => {
            let variant = |variant: &syn::Variant| {
                let fields = fields(&variant.fields, false).join(", ");
                let fields = if fields.is_empty() {
                    fields
                } else {
                    format!(" {{ {fields} }}")
                };
                format!("variant {}{fields}", variant.ident)
            };
            (
                &item.attrs,
                format!("enum{}", tidy(&item.generics)),
                item.variants.iter().map(variant).collect(),
            )
        }
        Item::Trait(item) => {
            let parts = item.items.iter().map(|item| match item {
                TraitItem::Fn(method) => {
                    let provided = if method.default.is_some() {
                        " { .. }"
                    } else {
                        ""
                    };
                    format!("{}{provided}", tidy(&method.sig))
                }
                other => tidy(other),
            });
            let kind = format!("trait{}: {}", tidy(&item.generics), tidy(&item.supertraits));
            (
                &item.attrs,
                kind.trim_end_matches(": ").to_owned(),
                parts.collect(),
            )
        }
        Item::Type(item) => (
            &item.attrs,
            format!("type{} = {}", tidy(&item.generics), tidy(&item.ty)),
            Vec::new(),
        ),
        Item::Const(item) => (&item.attrs, format!("const {}", tidy(&item.ty)), Vec::new()),
        Item::Fn(item) => (&item.attrs, tidy(&item.sig), Vec::new()),
        _ => panic!(
            "an exported item of a kind that this test does not know: {}",
            item.to_token_stream()
        ),
    };
    let open = if attributes
        .iter()
        .any(|one| one.path().is_ident("non_exhaustive"))
    {
        ", non_exhaustive"
    } else {
        ""
    };
    let parts = parts
        .into_iter()
        .chain(derived(attributes))
        .map(|part| (part, items));
    Exported {
        kind: format!("{kind}{open}"),
        parts: parts.collect(),
        has_example: has_example(attributes),
    }
}

/// The fields, or only the public ones, as `name: Type`.
fn fields(fields: &Fields, only_public: bool) -> Vec<String> {
    let shown = fields
        .iter()
        .enumerate()
        .filter(|(_, field)| !only_public || is_public(&field.vis));
    let name = |at: usize, field: &syn::Field| {
        field
            .ident
            .as_ref()
            .map_or_else(|| at.to_string(), Ident::to_string)
    };
    shown
        .map(|(at, field)| format!("{}: {}", name(at, field), tidy(&field.ty)))
        .collect()
}

fn derived(attributes: &[Attribute]) -> Vec<String> {
    let lists = attributes
        .iter()
        .filter(|one| one.path().is_ident("derive"))
        .filter_map(|one| match &one.meta {
            Meta::List(list) => Some(tidy(&list.tokens)),
            _ => None,
        });
    lists
        .flat_map(|list| {
            list.split(", ")
                .map(|name| format!("impl {name}"))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn has_example(attributes: &[Attribute]) -> bool {
    attributes
        .iter()
        .any(|one| one.path().is_ident("doc") && one.to_token_stream().to_string().contains("```"))
}

/// The public methods and constants of an `impl`, or the trait that it implements.
fn implemented(block: &ItemImpl) -> Vec<String> {
    if let Some((path, _)) = &block.trait_ {
        return vec![format!("impl {}", tidy(path))];
    }
    let public = |item: &ImplItem| match item {
        ImplItem::Fn(method) if is_public(&method.vis) => Some(tidy(&method.sig)),
        ImplItem::Const(constant) if is_public(&constant.vis) => {
            Some(format!("const {}: {}", constant.ident, tidy(&constant.ty)))
        }
        _ => None,
    };
    block.items.iter().filter_map(public).collect()
}

/// Returns the definition and the use of the macro of this file that makes `name`.
fn made_by<'a>(items: &'a [Item], name: &str) -> Option<(&'a ItemMacro, &'a ItemMacro)> {
    let macros: Vec<&ItemMacro> = items
        .iter()
        .filter_map(|item| match item {
            Item::Macro(item) => Some(item),
            _ => None,
        })
        .collect();
    let pair = |used: &&'a ItemMacro| {
        let named = used.mac.path.get_ident()?;
        let defined = macros
            .iter()
            .find(|item| item.ident.as_ref() == Some(named))?;
        let makes = |item: &ItemMacro| words(&item.mac.tokens.to_string()).any(|word| word == name);
        (makes(defined) || makes(used)).then_some((*defined, *used))
    };
    macros.iter().find_map(pair)
}

/// Reads the names that a macro is used with, each with its value if it has one, and whether one of them is documented
/// with an example.
fn entries(input: ParseStream<'_>) -> syn::Result<(Vec<String>, bool)> {
    let mut names = Vec::new();
    let mut has_examples = false;
    while !input.is_empty() {
        has_examples |= has_example(&input.call(Attribute::parse_outer)?);
        let mut entry = input.parse::<Ident>()?.to_string();
        if input.peek(Token![=]) {
            input.parse::<Token![=]>()?;
            entry = format!("{entry} = {:?}", input.parse::<LitStr>()?.value());
        }
        names.push(entry);
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
    }
    Ok((names, has_examples))
}

/// Describes a type that a macro of its file makes of a list of names, which are its variants, or types like it. Of the
/// definition it takes what stands between `pub fn`, `impl` or `derive` and the next brace.
fn made<'a>(items: &'a [Item], name: &str) -> Exported<'a> {
    let (defined, used) = made_by(items, name).unwrap();
    let (names, has_examples) = entries.parse2(used.mac.tokens.clone()).unwrap();
    let definition = defined.mac.tokens.to_string();
    let is_enum = !names.iter().any(|entry| entry == name);
    let mut parts: BTreeSet<String> = BTreeSet::new();
    if is_enum {
        parts.extend(names.iter().map(|entry| format!("variant {entry}")));
    }
    for word in ["pub fn ", "impl ", "derive "] {
        for (at, _) in definition.match_indices(word) {
            let (_, from) = definition.split_at(at);
            let end = if word == "derive " { ")" } else { "{" };
            let part = squeeze(from.split(end).next().unwrap_or(from));
            match word {
                "pub fn " => _ = parts.insert(part.trim_start_matches("pub ").to_owned()),
                "impl " => parts.extend(part.split_once(" for$").map(|(of, _)| of.to_owned())),
                _ => parts.extend(
                    part.trim_start_matches("derive(")
                        .split(", ")
                        .map(|name| format!("impl {name}")),
                ),
            }
        }
    }
    Exported {
        kind: if is_enum { "enum" } else { "struct" }.to_owned(),
        parts: parts.into_iter().map(|part| (part, items)).collect(),
        has_example: has_examples || definition.contains("```"),
    }
}

fn tidy(tokens: &impl ToTokens) -> String {
    squeeze(&tokens.to_token_stream().to_string())
}

/// The text of tokens, with spaces as rustfmt would write them, or nearly. It does not depend on how the tokens were
/// laid out in the source.
fn squeeze(tokens: &str) -> String {
    let mut text = String::new();
    let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '\'';
    let mut rest = tokens.chars().peekable();
    while let Some(c) = rest.next() {
        let between_words =
            text.ends_with(is_word) && rest.peek().is_some_and(|next| is_word(*next));
        if !c.is_whitespace() || between_words {
            text.push(if c.is_whitespace() { ' ' } else { c });
        }
    }
    let text = text
        .replace("->", " -> ")
        .replace(',', ", ")
        .replace('+', " + ")
        .replace('=', " = ");
    let text = text
        .replace("::", "\0")
        .replace(':', ": ")
        .replace('\0', "::");
    text.replace(", )", ")")
        .replace(", >", ">")
        .trim_end_matches(", ")
        .to_owned()
}
