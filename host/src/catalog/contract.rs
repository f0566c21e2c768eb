use anyhow::{Context, bail};
use jsonschema::{Draft, PatternOptions, Validator};
use regex::{Regex, RegexBuilder};
use serde_json::{Map, Value, json};

use crate::record::{RedactionRule, ToolDeclaration, ToolInterface};

use super::fields;

/// Violations that one error names at the most.
const VIOLATIONS_MAX: usize = 5;

/// Redaction rules of one tool, and bytes that one of their patterns may take when it is compiled.
const REDACTION_RULES_MAX: usize = 32;
const PATTERN_BYTES_MAX: usize = 256 << 10;

/// The contracts of one tool, compiled once: JSON Schema 2020-12, no remote references, patterns in linear time.
#[derive(Debug)]
pub struct Contract {
    /// What the model is shown: without internal-only fields.
    model_schema: Value,
    model: Validator,
    runtime: Option<Validator>,
    output: Option<Validator>,
    /// What the model is shown of the output contract: without internal-only fields.
    output_schema: Option<Value>,
    internal_only_fields: Vec<String>,
    sensitive_fields: Vec<String>,
    /// Of the output: fields, and what matches a pattern.
    redacted_fields: Vec<String>,
    redacted_patterns: Vec<Regex>,
    defaults: Map<String, Value>,
}

impl Contract {
    /// Compiles the contracts of `declaration`; schemas that it lacks come from `interface`.
    pub(super) fn compile(declaration: &ToolDeclaration, interface: Option<&ToolInterface>) -> anyhow::Result<Self> {
        let input = declaration.input_contract.clone().unwrap_or_default();
        let given = input.model_input_schema.or_else(|| interface.and_then(|i| i.model_input_schema.clone()));
        // A tool without an input contract takes no arguments.
        let mut model_schema = given.unwrap_or_else(|| json!({"type": "object", "maxProperties": 0}));
        for field in &input.internal_only_fields {
            fields::strip(&mut model_schema, field);
        }
        let model = compile(&closed(&model_schema, input.strict)).context("model_input_schema")?;
        let runtime = input.runtime_input_schema.or_else(|| interface.and_then(|i| i.runtime_input_schema.clone()));
        let runtime = runtime.map(|schema| compile(&schema)).transpose().context("runtime_input_schema")?;
        let output = declaration.output_contract.as_ref().and_then(|contract| contract.structured_schema.clone());
        let output = output.or_else(|| interface.and_then(|i| i.output_schema.clone()));
        let mut output_schema = output.clone();
        if let Some(schema) = &mut output_schema {
            input.internal_only_fields.iter().for_each(|field| fields::strip(schema, field));
        }
        let output = output.map(|schema| compile(&schema)).transpose().context("structured_schema")?;
        let (redacted_fields, redacted_patterns) = redaction(declaration).context("redaction_rules")?;
        let contract = Self {
            model_schema,
            model,
            runtime,
            output,
            output_schema,
            internal_only_fields: input.internal_only_fields,
            sensitive_fields: input.sensitive_fields,
            redacted_fields,
            redacted_patterns,
            defaults: input.defaults,
        };
        for (at, example) in input.examples.iter().enumerate() {
            if let Err(problem) = contract.check_model_input(example) {
                bail!("examples[{at}] does not satisfy model_input_schema: {problem}");
            }
        }
        Ok(contract)
    }

    /// The schema that a model may see (AT-N-10).
    pub fn model_schema(&self) -> &Value {
        &self.model_schema
    }

    /// The schema of structured output that a model may see, if the tool promises any.
    pub fn output_schema(&self) -> Option<&Value> {
        self.output_schema.as_ref()
    }

    /// What is wrong with `input` as a model's arguments.
    pub fn check_model_input(&self, input: &Value) -> Result<(), String> {
        if !input.is_object() {
            return Err("arguments must be a JSON object".to_owned());
        }
        if let Some(field) = self.internal_only_fields.iter().find(|field| fields::contains(input, field)) {
            // The name of an internal field is no news to whoever sent it.
            return Err(format!("`{field}` cannot be given by a caller"));
        }
        check(&self.model, input)
    }

    /// What is wrong with `input` as what the tool is about to get, with what hooks and approvers changed. They may fill
    /// the internal-only fields, which only a runtime schema can describe; the rest is a model's input.
    pub fn check_call_input(&self, input: &Value) -> Result<(), String> {
        if let Some(runtime) = &self.runtime {
            return check(runtime, input);
        }
        if !self.has_internal_fields() {
            return self.check_model_input(input);
        }
        let mut shown = input.clone();
        self.internal_only_fields.iter().for_each(|field| fields::remove(&mut shown, field));
        self.check_model_input(&shown)
    }

    /// Whether the tool takes fields that no model sees.
    pub fn has_internal_fields(&self) -> bool {
        !self.internal_only_fields.is_empty()
    }

    /// Whether a call input has to be checked beyond the model schema.
    pub fn has_runtime_schema(&self) -> bool {
        self.runtime.is_some()
    }

    /// What is wrong with the structured output of the tool.
    pub fn check_output(&self, output: &Value) -> Result<(), String> {
        self.output.as_ref().map_or(Ok(()), |validator| check(validator, output))
    }

    /// Whether the tool promises structured output.
    pub fn promises_structured_output(&self) -> bool {
        self.output.is_some()
    }

    /// Whether some arguments must not be recorded.
    pub fn has_sensitive_fields(&self) -> bool {
        !self.sensitive_fields.is_empty()
    }

    /// Shows `seen` every argument that must not be recorded, with its place as a JSON Pointer (AT-IN-06).
    pub fn each_sensitive(&self, input: &mut Value, seen: &mut dyn FnMut(&str, &mut Value)) {
        self.sensitive_fields.iter().for_each(|field| fields::visit(input, field, seen));
    }

    /// Shows `seen` every value of structured output that nobody but the tool may see, with its place (AT-OUT-08).
    pub fn each_redacted(&self, output: &mut Value, seen: &mut dyn FnMut(&str, &mut Value)) {
        self.redacted_fields.iter().for_each(|field| fields::visit(output, field, seen));
    }

    /// Whether nothing of the output may be seen: a rule names all of it.
    pub fn redacts_everything(&self) -> bool {
        self.redacted_fields.iter().any(String::is_empty)
    }

    /// Whether there are rules for the output.
    pub fn redacts_output(&self) -> bool {
        !self.redacted_fields.is_empty() || !self.redacted_patterns.is_empty()
    }

    /// What matches one of these is taken out of all texts of the tool.
    pub fn redacted_patterns(&self) -> &[Regex] {
        &self.redacted_patterns
    }

    /// `input` with the defaults that it lacks; `None` when it lacks none.
    pub fn with_defaults(&self, input: &Value) -> Option<Value> {
        let given = input.as_object()?;
        let missing: Vec<_> = self.defaults.iter().filter(|(name, _)| !given.contains_key(*name)).collect();
        if missing.is_empty() {
            return None;
        }
        let mut filled = given.clone();
        filled.extend(missing.into_iter().map(|(name, value)| (name.clone(), value.clone())));
        Some(Value::Object(filled))
    }
}

/// The rules of the output contract: fields, and patterns that take linear time and bounded memory.
fn redaction(declaration: &ToolDeclaration) -> anyhow::Result<(Vec<String>, Vec<Regex>)> {
    let rules = declaration.output_contract.as_ref().map_or(&[][..], |contract| &contract.redaction_rules);
    if rules.len() > REDACTION_RULES_MAX {
        bail!("more than {REDACTION_RULES_MAX} rules");
    }
    let (mut fields, mut patterns) = (Vec::new(), Vec::new());
    for rule in rules {
        match rule {
            RedactionRule::Field(field) => fields.push(field.clone()),
            RedactionRule::Pattern { pattern, .. } => {
                patterns.push(RegexBuilder::new(pattern).size_limit(PATTERN_BYTES_MAX).build()?);
            }
        }
    }
    Ok((fields, patterns))
}

/// `strict` refuses properties that the schema does not name, even where it forgot to say so (AT-IN-03).
fn closed(schema: &Value, strict: bool) -> Value {
    let mut schema = schema.clone();
    if let (true, Some(fields)) = (strict, schema.as_object_mut())
        && !fields.contains_key("additionalProperties")
        && !fields.contains_key("unevaluatedProperties")
    {
        fields.insert("unevaluatedProperties".to_owned(), Value::Bool(false));
    }
    schema
}

pub(super) fn compile(schema: &Value) -> anyhow::Result<Validator> {
    jsonschema::options()
        .with_draft(Draft::Draft202012)
        .with_pattern_options(PatternOptions::regex())
        .offline()
        .build(schema)
        .map_err(|error| anyhow::anyhow!("{error}, at {}", pointer(error.instance_path().as_str())))
}

pub(super) fn check(validator: &Validator, value: &Value) -> Result<(), String> {
    if validator.is_valid(value) {
        return Ok(());
    }
    let mut problems: Vec<String> = validator
        .iter_errors(value)
        .take(VIOLATIONS_MAX)
        .map(|error| {
            let at = pointer(error.instance_path().as_str()).to_owned();
            format!("{} (at {at})", cut(&error.masked_with("the value").to_string()))
        })
        .collect();
    problems.dedup();
    Err(problems.join("; "))
}

fn pointer(path: &str) -> &str {
    if path.is_empty() { "the top" } else { path }
}

fn cut(text: &str) -> String {
    text.chars().take(300).collect()
}
