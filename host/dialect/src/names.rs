use std::collections::HashMap;

use super::name::free;

/// Allowed characters in a dialect's tool names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// As the server exports them.
    Exported,
    /// `^[a-zA-Z0-9_-]{1,64}$`: the APIs of models.
    Function,
    /// `^[a-z][a-z0-9_]{0,63}$`.
    SnakeCase,
}

impl NameRule {
    /// Different names can become the same.
    pub(super) fn fit(self, name: &str) -> String {
        let mut fitted = String::with_capacity(name.len());
        let mut after_lower = false;
        for c in name.chars() {
            match (self, c) {
                (Self::Exported, c) => fitted.push(c),
                (_, '.' | '/') => fitted.push_str("__"),
                (Self::Function, c) if c.is_ascii_alphanumeric() || c == '-' => fitted.push(c),
                (Self::SnakeCase, c) if c.is_ascii_uppercase() => {
                    if after_lower {
                        fitted.push('_');
                    }
                    fitted.push(c.to_ascii_lowercase());
                }
                (Self::SnakeCase, c) if c.is_ascii_alphanumeric() => fitted.push(c),
                _ => fitted.push('_'),
            }
            after_lower = c.is_ascii_lowercase() || c.is_ascii_digit();
        }
        match self {
            Self::SnakeCase if !fitted.starts_with(|c: char| c.is_ascii_lowercase()) => {
                format!("t_{fitted}")
            }
            _ => fitted,
        }
    }
}

/// Tool names in one dialect, looked up and never parsed, because the rule can make two names the same.
#[derive(Clone, Debug)]
pub struct DialectNames {
    names: Vec<String>,
    by_name: HashMap<String, usize>,
}

impl DialectNames {
    /// Takes names in the server ([`exported`](super::exported)) and `tool_id`s. A name that is taken or has over
    /// 49 characters ends in six hexadecimal digits of the id's digest.
    pub fn new<'a>(rule: NameRule, tools: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let tools: Vec<(&str, &str)> = tools.into_iter().collect();
        let fitted: Vec<String> = tools.iter().map(|(name, _)| rule.fit(name)).collect();
        let mut table = Self {
            names: vec![String::new(); tools.len()],
            by_name: HashMap::new(),
        };
        // Names that the rule leaves as they are come first, so that no tool loses its own to another one.
        for unchanged in [true, false] {
            for (at, ((name, tool_id), fitted)) in tools.iter().zip(&fitted).enumerate() {
                if (fitted == name) == unchanged {
                    table.add(at, fitted, tool_id);
                }
            }
        }
        table
    }

    pub fn name(&self, at: usize) -> Option<&str> {
        self.names.get(at).map(String::as_str)
    }

    pub fn find(&self, name: &str) -> Option<usize> {
        self.by_name.get(name).copied()
    }

    fn add(&mut self, at: usize, fitted: &str, tool_id: &str) {
        let name = free(fitted, tool_id, |name| !self.by_name.contains_key(name));
        if let Some(place) = self.names.get_mut(at) {
            place.clone_from(&name);
        }
        self.by_name.insert(name, at);
    }
}

#[cfg(test)]
mod tests {
    use super::{DialectNames, NameRule};

    fn named(rule: NameRule, tools: &[(&str, &str)]) -> Vec<String> {
        let names = DialectNames::new(rule, tools.iter().copied());
        let all: Vec<String> = (0..tools.len())
            .map(|at| names.name(at).unwrap().to_owned())
            .collect();
        for (at, name) in all.iter().enumerate() {
            assert_eq!(names.find(name), Some(at), "{name}");
        }
        assert_eq!(
            (names.name(tools.len()), names.find("no such name")),
            (None, None)
        );
        all
    }

    #[test]
    fn each_rule_has_its_characters() {
        let tools = [
            ("mcp.github/search", "a"),
            ("readFile2D", "b"),
            ("2-fast", "c"),
            ("kéy", "d"),
        ];
        let function = named(NameRule::Function, &tools);
        assert_eq!(
            function,
            ["mcp__github__search", "readFile2D", "2-fast", "k_y"]
        );
        let snake = named(NameRule::SnakeCase, &tools);
        assert_eq!(
            snake,
            ["mcp__github__search", "read_file2_d", "t_2_fast", "k_y"]
        );
        assert_eq!(
            named(NameRule::Exported, &tools),
            tools.map(|(name, _)| name)
        );
    }

    #[test]
    fn a_tool_keeps_the_name_that_another_ones_becomes() {
        let names = named(
            NameRule::Function,
            &[("a.b", "first"), ("a__b", "second"), ("a/b", "third")],
        );
        assert_eq!(names[1], "a__b");
        let digest = toolcell_spec::digest(b"first");
        assert_eq!(
            names[0],
            format!("a__b_{}", &digest["sha256:".len()..][..6])
        );
        assert!(
            names[2].starts_with("a__b_") && names[2] != names[0],
            "{names:?}"
        );
    }

    #[test]
    fn equal_ids_and_long_names_still_give_names_of_their_own() {
        let long = "n".repeat(70);
        let names = named(
            NameRule::Function,
            &[
                (&long, "same"),
                (&long, "same"),
                (&long, "same"),
                ("short", "same"),
            ],
        );
        assert!(names.iter().all(|name| name.len() <= 49), "{names:?}");
        assert_eq!((names[0].len(), names[3].as_str()), (49, "short"));
    }
}
