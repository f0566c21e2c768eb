//! The meaning of each error code, with its cause and its remedy.

mod page;

use clap::Args;
use serde_json::{Value, json};
use toolcell_spec::ErrorClass;

use crate::exit::{BadRequest, Exit};
use crate::show;

use page::Page;

const SIMILAR_MAX: usize = 3;

/// Explains an error code: what it means, its cause, and what to do.
#[derive(Debug, Args)]
#[command(
    after_help = "Exit 0 if the code is known, else 2. `toolcell policy check --explain` explains the decision on a call.\n\n\
                  Examples:\n  toolcell explain memory_limit\n  toolcell explain sandbox_violation/memory_limit\n  \
                  toolcell explain timeout"
)]
pub(crate) struct Explain {
    /// A code as an error prints it, with or without its class; or a class, to list its codes; default: list all codes
    code: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl Explain {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        let pages = page::all();
        let Some(typed) = &self.code else {
            return list(&pages, self.json);
        };
        let code = plain(typed);
        if let Some(page) = pages.iter().find(|page| page.is_of(code)) {
            return one(page, self.json);
        }
        let class = ErrorClass::ALL
            .into_iter()
            .find(|class| class.as_str() == code)
            .ok_or_else(|| unknown(code, &pages))?;
        let of_class: Vec<Page> = pages.into_iter().filter(|page| page.has(class)).collect();
        list(&of_class, self.json)
    }
}

/// The code in what an error prints: `[class/code]`.
fn plain(typed: &str) -> &str {
    let inner = typed.trim().trim_start_matches('[').trim_end_matches(']');
    inner.rsplit('/').next().unwrap_or(inner)
}

fn unknown(code: &str, pages: &[Page]) -> BadRequest {
    let shown: String = code.chars().take(100).collect();
    let mut near: Vec<(usize, &str)> = pages
        .iter()
        .map(|page| (strsim::osa_distance(&shown, page.code()), page.code()))
        .collect();
    near.sort_unstable();
    let near: Vec<String> = near
        .into_iter()
        .take(SIMILAR_MAX)
        .filter(|(distance, known)| distance * 2 <= known.len())
        .map(|(_, known)| format!("`{known}`"))
        .collect();
    let similar = match near.as_slice() {
        [] => String::new(),
        near => format!("similar codes: {}; ", near.join(", ")),
    };
    BadRequest(format!(
        "unknown error code {shown:?}; {similar}list all codes with `toolcell explain`. Tools can define codes of \
         their own"
    ))
}

fn one(page: &Page, as_json: bool) -> anyhow::Result<Exit> {
    if as_json {
        return show::print_json(&page.json());
    }
    let mut text = format!("{}: {}\n\n", page.code(), page.texts.means);
    for (label, row) in page.rows() {
        text += &format!("{label:<10} {row}\n");
    }
    show::print(text)
}

fn list(pages: &[Page], as_json: bool) -> anyhow::Result<Exit> {
    if as_json {
        let codes: Vec<Value> = pages.iter().map(Page::json).collect();
        return show::print_json(&json!({ "codes": codes }));
    }
    let width = pages.iter().map(|page| page.code().len()).max();
    let width = width.unwrap_or_default();
    let rows = pages
        .iter()
        .map(|page| format!("{:<width$}  {}\n", page.code(), page.texts.means));
    show::print(rows.collect::<String>())
}

#[cfg(test)]
mod tests {
    use super::{page, plain, unknown};

    #[test]
    fn a_code_is_read_as_errors_print_it() {
        for typed in [
            "memory_limit",
            "sandbox_violation/memory_limit",
            "[sandbox_violation/memory_limit]",
        ] {
            assert_eq!(plain(typed), "memory_limit");
        }
    }

    #[test]
    fn a_family_has_one_page() {
        let pages = page::all();
        let of = |code: &str| pages.iter().filter(|page| page.is_of(code)).count();
        assert_eq!(
            [of("exit_3"), of("exit_N"), of("exit_"), of("exit_x")],
            [1, 1, 0, 0]
        );
    }

    #[test]
    fn what_is_similar_is_named() {
        let said = unknown("memory_limits", &page::all()).to_string();
        assert!(said.contains("similar codes: `memory_limit`"), "{said}");
        assert!(!unknown("zz", &page::all()).to_string().contains("similar"));
    }
}
