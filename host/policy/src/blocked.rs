//! Tools that a surface withholds by name: denied for all arguments, or missing from the role.

use anyhow::Context;

use toolcell_spec::{Behavior, RiskLevel, ToolDeclaration};

use super::Policy;
use super::pattern::WordPattern;
use super::rule_match::is_named;

impl Policy {
    /// Rules that deny every call of the tool. `risk` is the declared one, as a call's can only be higher.
    pub fn blocking(
        &self,
        declaration: &ToolDeclaration,
        risk: RiskLevel,
        component: &str,
    ) -> Vec<String> {
        let blocking = self.rules().iter().filter(|rule| {
            rule.behavior == Behavior::Deny
                && rule.path.is_none()
                && rule.url.is_none()
                && rule.resource.is_none()
                && rule.command.is_none()
                && rule.native_operation_id.is_none()
                && rule.actor.is_none()
                && rule.risk.is_none_or(|least| risk >= least)
                && is_named(rule, self, declaration, component).is_ok()
        });
        blocking.map(|rule| rule.words.clone()).collect()
    }
}

/// Patterns of qualified names, names and ids of tools.
///
/// ```
/// use toolcell_policy::ToolPatterns;
///
/// let patterns = ToolPatterns::compile(&["files.*"])?;
/// assert_eq!(patterns.texts(), ["files.*"]);
/// # Ok::<(), anyhow::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct ToolPatterns {
    texts: Vec<String>,
    compiled: Vec<WordPattern>,
}

impl ToolPatterns {
    /// `*` matches any text. Fails on a pattern that is empty or not valid.
    pub fn compile<S: AsRef<str>>(texts: &[S]) -> anyhow::Result<Self> {
        let compile = |text: &S| {
            WordPattern::compile(text.as_ref()).with_context(|| format!("tool {:?}", text.as_ref()))
        };
        let compiled: anyhow::Result<Vec<WordPattern>> = texts.iter().map(compile).collect();
        Ok(Self {
            compiled: compiled?,
            texts: texts.iter().map(|text| text.as_ref().to_owned()).collect(),
        })
    }

    pub fn matches(&self, declaration: &ToolDeclaration) -> bool {
        let qualified = declaration.qualified_name();
        let names = [
            qualified.as_str(),
            declaration.name.as_str(),
            declaration.tool_id.as_str(),
        ];
        self.compiled
            .iter()
            .any(|pattern| names.iter().any(|name| pattern.matches(name)))
    }

    /// One pattern matches, and no installed tool with different bytes has that name.
    pub fn allow(&self, declaration: &ToolDeclaration, component: &str, policy: &Policy) -> bool {
        let means = |name: &str| self.compiled.iter().any(|pattern| pattern.matches(name));
        self.matches(declaration) && !policy.is_impostor(declaration, component, means)
    }

    pub fn texts(&self) -> &[String] {
        &self.texts
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::ToolPatterns;
    use crate::{Policy, Provenance, Rule, RuleWords};
    use toolcell_spec::{Mode, RiskLevel, ToolDeclaration};

    fn declaration() -> ToolDeclaration {
        serde_json::from_value(json!({
            "schema_version": "0.2.0", "tool_id": "files.read", "namespace": "files", "name": "read", "description": "d",
            "lifecycle": "available", "tool_kind": "function",
        }))
        .unwrap()
    }

    fn blocks(words: &RuleWords<'_>, risk: RiskLevel) -> bool {
        let rule = Rule::compile(words, &Provenance::COMMAND_LINE).unwrap();
        !Policy::new(Mode::Default, vec![rule])
            .blocking(&declaration(), risk, "sha256:00")
            .is_empty()
    }

    #[test]
    fn a_rule_blocks_a_tool_only_if_it_denies_each_of_its_calls() {
        let deny = RuleWords {
            behavior: "deny",
            ..RuleWords::default()
        };
        let tool = RuleWords {
            tool: Some("files.*"),
            ..deny
        };
        assert!(blocks(&deny, RiskLevel::Low) && blocks(&tool, RiskLevel::Low));
        for other in [
            RuleWords {
                behavior: "ask",
                ..tool
            },
            RuleWords {
                tool: Some("jq.*"),
                ..deny
            },
            RuleWords {
                namespace: Some("jq"),
                ..tool
            },
            RuleWords {
                path: Some("/etc/**"),
                ..tool
            },
            RuleWords {
                url: Some("https://a.test/"),
                ..tool
            },
            RuleWords {
                resource: Some("x"),
                ..tool
            },
            RuleWords {
                command: Some("x"),
                ..tool
            },
            RuleWords {
                native_operation_id: Some("x"),
                ..tool
            },
            RuleWords {
                actor: Some("*"),
                ..tool
            },
        ] {
            assert!(!blocks(&other, RiskLevel::Critical), "{other:?}");
        }
        let risky = RuleWords {
            risk: Some("high"),
            ..tool
        };
        assert!(blocks(&risky, RiskLevel::Critical) && !blocks(&risky, RiskLevel::Medium));
    }

    #[test]
    fn a_pattern_matches_each_name_of_a_tool() {
        for (pattern, expected) in [
            ("read", true),
            ("files.read", true),
            ("files.*", true),
            ("write", false),
        ] {
            assert_eq!(
                ToolPatterns::compile(&[pattern])
                    .unwrap()
                    .matches(&declaration()),
                expected,
                "{pattern}"
            );
        }
        assert!(
            !ToolPatterns::compile::<&str>(&[])
                .unwrap()
                .matches(&declaration())
        );
        ToolPatterns::compile(&[""]).unwrap_err();
    }
}
