//! JSON as a tree that opens and closes without script, and a list of alike objects as a table.

use maud::{Markup, html};
use serde_json::{Map, Value};

use super::text::{in_url, line};

/// Of all nodes of a tree.
const NODES_MAX: usize = 2_000;
const DEPTH_MAX: usize = 12;
/// Deeper ones begin closed.
const OPEN_DEPTH: usize = 2;
const ROWS_MAX: usize = 200;
const COLUMNS_MAX: usize = 12;

/// All of it is at `whole`.
pub(crate) fn tree(value: &Value, whole: Option<&str>) -> Markup {
    let mut left = NODES_MAX;
    let shown = match alike(value) {
        Some((columns, rows)) => table(&columns, &rows),
        None => html! { div class="tree" { (node(value, 0, &mut left)) } },
    };
    html! {
        (shown)
        @if left == 0 { p class="cut" { "Cut after " (NODES_MAX) " values." } }
        @if let Some(whole) = whole { p class="cut" { a href=(whole) { "Show all of it as text" } } }
    }
}

fn node(value: &Value, depth: usize, left: &mut usize) -> Markup {
    if *left == 0 {
        return html! { ".." };
    }
    *left -= 1;
    let (size, items): (String, Vec<(String, &Value)>) = match value {
        Value::Array(items) if !items.is_empty() && depth < DEPTH_MAX => {
            let named = items.iter().enumerate();
            let named = named.map(|(at, item)| (at.to_string(), item));
            (
                format!("[{}]", items.len()),
                named.take(*left + 1).collect(),
            )
        }
        Value::Object(fields) if !fields.is_empty() && depth < DEPTH_MAX => {
            let named = fields.iter().map(|(name, value)| (line(name), value));
            (
                format!("{{{}}}", fields.len()),
                named.take(*left + 1).collect(),
            )
        }
        Value::String(text) => return html! { span class="said" { (line(text)) } },
        other => return html! { code { (line(&other.to_string())) } },
    };
    html! {
        details open[depth < OPEN_DEPTH] {
            summary { (size) }
            dl {
                @for (name, value) in items {
                    @if *left > 0 { dt { (name) } dd { (node(value, depth + 1, left)) } }
                }
            }
        }
    }
}

type Rows<'a> = Vec<&'a Map<String, Value>>;

/// The columns and rows of a list, or of the only list in an object, whose items are objects of plain values.
fn alike(value: &Value) -> Option<(Vec<&String>, Rows<'_>)> {
    let items = match value {
        Value::Array(items) => items,
        Value::Object(fields) if fields.len() == 1 => fields.values().next()?.as_array()?,
        _ => return None,
    };
    if items.len() < 2 || items.len() > ROWS_MAX {
        return None;
    }
    let rows: Rows<'_> = items.iter().map(Value::as_object).collect::<Option<_>>()?;
    let mut columns: Vec<&String> = Vec::new();
    for (name, value) in rows.iter().flat_map(|row| row.iter()) {
        if value.is_object() || value.is_array() {
            return None;
        }
        if !columns.contains(&name) {
            columns.push(name);
        }
        if columns.len() > COLUMNS_MAX {
            return None;
        }
    }
    (!columns.is_empty()).then_some((columns, rows))
}

fn table(columns: &[&String], rows: &[&Map<String, Value>]) -> Markup {
    let cell = |row: &Map<String, Value>, name: &str| match row.get(name) {
        None => String::new(),
        Some(Value::String(text)) => line(text),
        Some(other) => line(&other.to_string()),
    };
    html! {
        div class="scroll" tabindex="0" {
            table {
                thead { tr { @for name in columns { th scope="col" { (line(name)) } } } }
                tbody {
                    @for row in rows {
                        tr { @for name in columns { td class="said" { (cell(row, name)) } } }
                    }
                }
            }
        }
    }
}

/// Where all of a part of a call is.
pub(crate) fn whole(id: &str, part: &str) -> String {
    format!("/calls/{}/whole/{}", in_url(id), in_url(part))
}
