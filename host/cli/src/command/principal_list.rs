//! `toolcell policy principals`: each `[[principal]]` of the configuration.

use std::path::PathBuf;

use clap::Args;
use serde_json::{Value, json};
use toolcell::Home;
use toolcell_config::{ConfigLayers, LayerOptions, Principal};
use toolcell_engine::scheduler::{CallerQuotas, Quotas};
use toolcell_policy::WordPattern;

use super::exit::Exit;
use super::show;
use crate::principals::quotas;

/// Counted by the process that serves, and not written down.
const OF_PROCESS: [&str; 2] = ["calls_at_once", "calls_per_minute"];

#[derive(Debug, Args)]
pub(super) struct PrincipalList {
    /// Read this file, too, as `toolcell serve --config` does
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

impl PrincipalList {
    pub(super) fn run(self) -> anyhow::Result<Exit> {
        let home = Home::find()?;
        let options = LayerOptions {
            file: self.config,
            none: false,
        };
        let folder = std::env::current_dir().ok();
        let layers = ConfigLayers::read(&home, folder.as_deref(), &options)?;
        let used = Quotas::default();
        used.keep_in(&home.quotas());
        used.set(quotas(&layers));
        let one = |principal: &Principal| document(principal, used.usage_of(&principal.caller()));
        let all: Vec<Value> = layers.principals.iter().map(one).collect();
        if self.json {
            return show::print_json(&json!({ "principals": all }));
        }
        show::text(&for_people(&all))?;
        Ok(Exit::Succeeded)
    }
}

fn document(principal: &Principal, used: Option<CallerQuotas>) -> Value {
    let quotas = used.into_iter().flat_map(|used| used.quotas);
    let quotas = quotas.map(|quota| {
        let used = (!OF_PROCESS.contains(&quota.name)).then_some(quota.used);
        json!({ "name": quota.name, "used": used, "limit": quota.limit })
    });
    json!({
        "name": principal.name,
        "tokens": principal.tokens.len(),
        "issuer": principal.jwt.as_ref().map(|jwt| &jwt.issuer),
        "tools": principal.tools(),
        "approves": principal.approves.iter().map(WordPattern::text).collect::<Vec<_>>(),
        "page": principal.page,
        "quotas": quotas.collect::<Vec<_>>(),
    })
}

fn for_people(all: &[Value]) -> String {
    if all.is_empty() {
        return "no caller has rules of its own: [[principal]] in toolcell.toml gives them\n"
            .to_owned();
    }
    all.iter().map(paragraph).collect()
}

fn paragraph(one: &Value) -> String {
    let texts = |field: &str| {
        let texts = one[field].as_array().into_iter().flatten();
        texts
            .filter_map(Value::as_str)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let mut lines = vec![one["name"].as_str().unwrap_or_default().to_owned()];
    let tokens = one["tokens"].as_u64().unwrap_or_default();
    let mut known = vec![show::counted(tokens, "token")];
    known.extend(one["issuer"].as_str().map(str::to_owned));
    lines.push(format!("  known by   {}", known.join(", ")));
    for (label, field) in [("tools", "tools"), ("approves", "approves")] {
        let said = texts(field);
        if !said.is_empty() {
            lines.push(format!("  {label:<10} {said}"));
        }
    }
    if one["page"] == true {
        lines.push("  page       yes".to_owned());
    }
    for quota in one["quotas"].as_array().into_iter().flatten() {
        let name = quota["name"].as_str().unwrap_or_default().replace('_', " ");
        let limit = &quota["limit"];
        lines.push(match quota["used"].as_f64() {
            Some(used) => format!("  quota      {name}: {used:.1} of {limit}"),
            None => format!("  quota      {name}: {limit}"),
        });
    }
    lines.push(String::new());
    lines.join("\n")
}
