use std::borrow::Cow;
use std::collections::BTreeSet;

use anyhow::{Context, bail, ensure};
use serde_json::{Map, Value, json};

use toolcell_spec::{
    InputContract, MutationPolicy, MutationRight, MutationSource, RedactionRule, ToolDeclaration,
    ToolInterface, property_names,
};

use super::listed::ListedSchema;
use super::listing::{self, HiddenNames};
use super::load::LoadBudget;
use super::marking;
use super::schema::{CheckFailure, LazySchema, json_text};

use super::{fields, nulls, references, sensitive};
use toolcell_spec::regex_search::{SearchPattern, states};

/// Every value is searched for each internal-only or sensitive field.
const FIELDS_MAX: usize = 256;
const EXAMPLES_MAX: usize = 100;
/// Each takes up to a quarter of a second to check.
const HEAVY_EXAMPLES_MAX: usize = 4;
/// Bytes of JSON text times fields searched for: at most 1 ms.
const LOOKED_FOR_LIGHT_MAX: usize = 256 << 10;

const REDACTION_RULES_MAX: usize = 32;

/// The contracts of one tool, compiled once: JSON Schema 2020-12, no remote references, patterns in linear time.
#[derive(Debug)]
pub struct ToolContract {
    /// Without internal-only fields.
    model_schema: Value,
    listed: ListedSchema,
    model: LazySchema,
    /// As declared.
    runtime: Option<LazySchema>,
    /// Derived from the model's schema: with its internal-only fields.
    derived: Option<LazySchema>,
    /// Marks internal-only fields, for records; `None` if it is the model schema.
    runtime_schema: Option<Value>,
    output: Option<LazySchema>,
    output_schema: Option<Value>,
    internal_only_fields: Vec<String>,
    /// Names that texts for a model must not contain.
    internal_names: HiddenNames,
    sensitive_fields: Vec<String>,
    sensitive_names: Vec<String>,
    names: BTreeSet<String>,
    redaction: RedactionRules,
    defaults: Map<String, Value>,
    mutation_policy: Option<MutationPolicy>,
}

impl ToolContract {
    pub(super) fn compile(
        declaration: &ToolDeclaration,
        interface: Option<&ToolInterface>,
        budget: &mut LoadBudget,
    ) -> anyhow::Result<Self> {
        let input = declaration.input_contract.clone().unwrap_or_default();
        for (what, fields) in [
            ("internal_only_fields", &input.internal_only_fields),
            ("sensitive_fields", &input.sensitive_fields),
        ] {
            ensure!(
                fields.len() <= FIELDS_MAX,
                "{what} names {} fields, more than {FIELDS_MAX}",
                fields.len()
            );
        }
        let given = input
            .model_input_schema
            .clone()
            .or_else(|| interface.and_then(|i| i.model_input_schema.clone()));
        // A tool without an input contract takes no arguments.
        let mut model_schema =
            given.unwrap_or_else(|| json!({"type": "object", "maxProperties": 0}));
        references::anchor(&mut model_schema);
        let described = (!input.internal_only_fields.is_empty()).then(|| model_schema.clone());
        let is_given = input.model_input_schema.is_some()
            || interface.is_some_and(|interface| interface.model_input_schema.is_some());
        let policy = input
            .mutation_policy
            .as_ref()
            .and_then(MutationPolicy::read);
        let mut internal_names = listing::list(&mut model_schema, &input.internal_only_fields)
            .context("model_input_schema")?;
        let strict =
            input.strict || interface.is_some_and(|interface| interface.strict == Some(true));
        let mut names = BTreeSet::new();
        property_names(&model_schema, &mut names);
        let model =
            LazySchema::new(closed(&model_schema, strict), budget).context("model_input_schema")?;
        let runtime = input
            .runtime_input_schema
            .clone()
            .or_else(|| interface.and_then(|i| i.runtime_input_schema.clone()));
        let runtime_schema = for_records(runtime.clone(), described, &input, policy.as_ref());
        // The schema of a tool that takes no arguments describes none of its internal-only fields.
        let derived = runtime_schema
            .as_ref()
            .filter(|_| runtime.is_none() && is_given)
            .map(|schema| LazySchema::new(closed(schema, strict), budget))
            .transpose()
            .context("model_input_schema")?;
        let mut compile = |mut schema: Value| {
            references::anchor(&mut schema);
            property_names(&schema, &mut names);
            LazySchema::new(schema, budget)
        };
        let runtime = runtime
            .map(&mut compile)
            .transpose()
            .context("runtime_input_schema")?;
        let output = declaration
            .output_contract
            .as_ref()
            .and_then(|contract| contract.structured_schema.clone());
        let output = output.or_else(|| interface.and_then(|i| i.output_schema.clone()));
        let mut output_schema = output.clone();
        if let Some(schema) = &mut output_schema {
            references::anchor(schema);
            let names =
                listing::list(schema, &input.internal_only_fields).context("structured_schema")?;
            internal_names.extend(names);
        }
        let output = output
            .map(&mut compile)
            .transpose()
            .context("structured_schema")?;
        let listed = ListedSchema::from_schema(&model_schema, budget);
        let redaction = RedactionRules::read(declaration, budget).context("redaction_rules")?;
        let contract = Self {
            model_schema,
            listed,
            model,
            runtime,
            derived,
            runtime_schema,
            output,
            output_schema,
            internal_only_fields: input.internal_only_fields,
            internal_names,
            sensitive_names: input
                .sensitive_fields
                .iter()
                .filter_map(|field| fields::last_name(field))
                .collect(),
            sensitive_fields: input.sensitive_fields,
            names,
            redaction,
            defaults: input.defaults,
            mutation_policy: policy,
        };
        if !budget.is_accepted() {
            contract.check_examples(&input.examples, budget)?;
        }
        Ok(contract)
    }

    fn check_examples(&self, examples: &[Value], budget: &mut LoadBudget) -> anyhow::Result<()> {
        ensure!(
            examples.len() <= EXAMPLES_MAX,
            "examples has {} entries, more than {EXAMPLES_MAX}",
            examples.len()
        );
        let mut heavy = 0;
        for (at, example) in examples.iter().enumerate() {
            budget.in_time()?;
            let bytes = example.to_string().len();
            if !self.model_is_light(example, bytes) {
                heavy += 1;
                budget.take_heavy_example()?;
            }
            ensure!(
                heavy <= HEAVY_EXAMPLES_MAX,
                "examples[{at}] and those before it are too large for model_input_schema"
            );
            if let Err(problem) = self.check_model_input(example) {
                bail!("examples[{at}] does not satisfy model_input_schema: {problem}");
            }
        }
        Ok(())
    }

    /// The schema of arguments without internal-only fields (AT-N-10), as checked.
    pub fn model_schema(&self) -> &Value {
        &self.model_schema
    }

    /// The listed schema: one object, without references.
    pub fn listed_schema(&self) -> &Value {
        self.listed.schema().unwrap_or(&self.model_schema)
    }

    pub fn listed(&self) -> &ListedSchema {
        &self.listed
    }

    /// Removes fields that are null, optional, and of another type; `None` if there are none. Models send null for an
    /// omitted argument.
    pub fn without_nulls(&self, input: &Value) -> Option<Value> {
        nulls::left_out(self.listed_schema(), input)
    }

    /// The schema of what runs, for records, with marked internal-only fields (AT-IN-11); `None` if the model's schema
    /// describes it.
    pub(super) fn runtime_schema(&self) -> Option<&Value> {
        self.runtime_schema.as_ref()
    }

    pub(super) fn without_internal(&self, shown: &mut Value) {
        self.internal_only_fields
            .iter()
            .for_each(|field| fields::remove(shown, field));
    }

    /// Reason why `source` may not make this change; `None` if `mutation_policy` allows it (AT-IN-09).
    pub(crate) fn forbids(
        &self,
        source: MutationSource,
        from: &Value,
        to: &Value,
    ) -> Option<&'static str> {
        let policy = self.mutation_policy.as_ref()?;
        // What is left of both has to be the same.
        let differs = |allowed: &[String]| {
            let mut from = from.clone();
            let mut to = to.clone();
            allowed.iter().for_each(|field| {
                [&mut from, &mut to]
                    .into_iter()
                    .for_each(|value| fields::remove(value, field))
            });
            from != to
        };
        match policy.right(source) {
            MutationRight::Deny if from != to => Some("mutation_policy of the tool forbids it"),
            MutationRight::InternalOnly if differs(&self.internal_only_fields) => {
                Some("mutation_policy of the tool allows changes of internal-only fields alone")
            }
            _ if !policy.fields().is_empty() && differs(policy.fields()) => {
                Some("mutation_policy of the tool allows changes of the fields that it names alone")
            }
            _ => None,
        }
    }

    /// The schema of structured output for a model, if promised.
    pub fn output_schema(&self) -> Option<&Value> {
        self.output_schema.as_ref()
    }

    /// Estimates whether [`Self::check_model_input`] takes at most 1 ms and little stack for `bytes` bytes of JSON
    /// text.
    pub fn model_is_light(&self, input: &Value, bytes: usize) -> bool {
        self.looks_quickly(bytes) && self.model.is_light(input)
    }

    fn looks_quickly(&self, bytes: usize) -> bool {
        bytes.saturating_mul(self.internal_only_fields.len()) <= LOOKED_FOR_LIGHT_MAX
    }

    /// Checks a model's arguments. A check that is not light takes up to a quarter of a second and much stack: use a
    /// thread for checks.
    pub fn check_model_input(&self, input: &Value) -> Result<(), CheckFailure> {
        if !input.is_object() {
            let hint = json_text(input, &["object"])
                .map(|hint| format!(": {hint}"))
                .unwrap_or_default();
            return Err(CheckFailure::whole(format!(
                "arguments must be a JSON object{hint}"
            )));
        }
        if let Some(field) = self
            .internal_only_fields
            .iter()
            .find(|field| fields::contains(input, field))
        {
            // The caller sent the name of the internal field, so the error discloses nothing.
            return Err(CheckFailure::whole(format!(
                "`{field}` cannot be given by a caller"
            )));
        }
        // All schemas at the first check: a call that was canceled keeps its output, and compiles nothing for it.
        self.runtime
            .iter()
            .chain(&self.derived)
            .chain(&self.output)
            .for_each(|schema| _ = schema.compiled());
        self.model.check(input)
    }

    /// As [`Self::model_is_light`], for [`Self::check_call_input`].
    pub fn call_is_light(&self, input: &Value, bytes: usize) -> bool {
        match &self.runtime {
            Some(runtime) => runtime.is_light(input),
            None => {
                let derived = self.derived.as_ref();
                self.model_is_light(input, bytes)
                    && derived.is_none_or(|schema| schema.is_light(input))
            }
        }
    }

    /// Checks the final input, whose internal-only fields hooks and approvers may have filled. As costly as twice
    /// [`Self::check_model_input`].
    pub fn check_call_input(&self, input: &Value) -> Result<(), CheckFailure> {
        if let Some(runtime) = &self.runtime {
            return runtime.check(input);
        }
        if !self.has_internal_fields() {
            return self.check_model_input(input);
        }
        let mut shown = input.clone();
        self.internal_only_fields
            .iter()
            .for_each(|field| fields::remove(&mut shown, field));
        self.check_model_input(&shown)?;
        self.derived
            .as_ref()
            .map_or(Ok(()), |derived| derived.check(input))
    }

    /// Returns whether some fields are hidden from models.
    pub fn has_internal_fields(&self) -> bool {
        !self.internal_only_fields.is_empty()
    }

    pub fn has_runtime_schema(&self) -> bool {
        self.runtime.is_some()
    }

    /// Replaces the names of internal-only fields for a model (AT-N-10).
    pub fn shown<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.internal_names.hidden_in(text)
    }

    /// As [`Self::model_is_light`], for [`Self::check_output`].
    pub fn output_is_light(&self, output: &Value) -> bool {
        self.output
            .as_ref()
            .is_none_or(|schema| schema.is_light(output))
    }

    /// As costly as [`Self::check_model_input`].
    pub fn check_output(&self, output: &Value) -> Result<(), CheckFailure> {
        self.output
            .as_ref()
            .map_or(Ok(()), |schema| schema.check(output))
    }

    pub fn promises_structured_output(&self) -> bool {
        self.output.is_some()
    }

    pub fn has_sensitive_fields(&self) -> bool {
        !self.sensitive_fields.is_empty()
    }

    pub fn sensitive_names(&self) -> &[String] {
        &self.sensitive_names
    }

    pub fn names(&self, name: &str) -> bool {
        self.names.contains(name)
    }

    /// Calls `seen` with every argument that must not be recorded, and its JSON Pointer (AT-IN-06), perhaps twice: also
    /// unnamed fields beside named ones, and texts that are JSON with a sensitive field.
    pub fn each_sensitive(&self, input: &mut Value, seen: &mut dyn FnMut(&str, &mut Value)) {
        if !self.has_sensitive_fields() {
            return;
        }
        self.sensitive_fields
            .iter()
            .for_each(|field| fields::visit(input, field, seen));
        if guard!("sensitive_shape") {
            sensitive::encoded(&self.sensitive_names, input, &mut String::new(), seen);
            sensitive::unnamed(&self.model_schema, &self.internal_only_fields, input, seen);
        }
    }

    /// Calls `seen` with every value of output that only the tool may see, the index of its rule, and its place
    /// (AT-OUT-08).
    pub fn each_redacted(&self, output: &mut Value, seen: &mut dyn FnMut(usize, &str, &mut Value)) {
        for (rule, field) in &self.redaction.fields {
            fields::visit(output, field, &mut |at, value| seen(*rule, at, value));
        }
    }

    /// Returns whether values of the output are redacted that are not known before.
    pub fn redacts_fields(&self) -> bool {
        !self.redaction.fields.is_empty()
    }

    /// The index of the rule that redacts all of the output.
    pub fn redacts_everything(&self) -> Option<usize> {
        let mut fields = self.redaction.fields.iter();
        fields
            .find(|(_, field)| field.is_empty())
            .map(|(rule, _)| *rule)
    }

    /// The index, among the rules, of one of [`Self::redacted_patterns`].
    pub fn rule_of_pattern(&self, at: usize) -> Option<usize> {
        self.redaction.pattern_rules.get(at).copied()
    }

    pub fn redacts_output(&self) -> bool {
        !(self.redaction.fields.is_empty() && self.redaction.patterns.is_empty())
    }

    /// Matches are redacted from all texts of the tool.
    pub fn redacted_patterns(&self) -> &[SearchPattern] {
        &self.redaction.patterns
    }

    /// Fills in defaults; `None` if none is missing.
    pub fn with_defaults(&self, input: &Value) -> Option<Value> {
        let given = input.as_object()?;
        let missing: Vec<_> = self
            .defaults
            .iter()
            .filter(|(name, _)| !given.contains_key(*name))
            .collect();
        if missing.is_empty() {
            return None;
        }
        let mut filled = given.clone();
        filled.extend(
            missing
                .into_iter()
                .map(|(name, value)| (name.clone(), value.clone())),
        );
        Some(Value::Object(filled))
    }
}

/// The declared runtime schema, or the model schema with its internal-only fields, none required; they are marked with
/// their sources.
fn for_records(
    declared: Option<Value>,
    described: Option<Value>,
    input: &InputContract,
    policy: Option<&MutationPolicy>,
) -> Option<Value> {
    let is_declared = declared.is_some();
    let mut schema = declared.or(described)?;
    let may = |(source, _): &(MutationSource, &str)| {
        policy.is_none_or(|policy| policy.right(*source) != MutationRight::Deny)
    };
    let sources = [
        (MutationSource::Hook, "hook"),
        (MutationSource::PermissionPrompt, "permission_prompt"),
    ];
    let sources: Vec<&str> = sources
        .into_iter()
        .filter(may)
        .map(|(_, word)| word)
        .collect();
    marking::mark(
        &mut schema,
        &input.internal_only_fields,
        &sources,
        !is_declared,
    );
    Some(schema)
}

/// The redactions of the output contract, each with its place among the rules.
#[derive(Debug, Default)]
struct RedactionRules {
    fields: Vec<(usize, String)>,
    patterns: Vec<SearchPattern>,
    pattern_rules: Vec<usize>,
}

impl RedactionRules {
    /// Patterns must take linear time and bounded memory.
    fn read(declaration: &ToolDeclaration, budget: &mut LoadBudget) -> anyhow::Result<Self> {
        let rules = declaration
            .output_contract
            .as_ref()
            .map_or(&[][..], |contract| &contract.redaction_rules);
        if rules.len() > REDACTION_RULES_MAX {
            bail!("more than {REDACTION_RULES_MAX} rules");
        }
        let mut read = Self::default();
        for (at, rule) in rules.iter().enumerate() {
            match rule {
                RedactionRule::Field(field) => read.fields.push((at, field.clone())),
                RedactionRule::Pattern { pattern, .. } => {
                    let shown: String = pattern.chars().take(100).collect();
                    let compiled = compile_pattern(pattern, budget)
                        .with_context(|| format!("the pattern {shown:?}"))?;
                    read.patterns.push(compiled);
                    read.pattern_rules.push(at);
                }
            }
        }
        Ok(read)
    }
}

/// Counts states first, because the compiled pattern takes several times the counted memory.
fn compile_pattern(pattern: &str, budget: &mut LoadBudget) -> anyhow::Result<SearchPattern> {
    budget.take_pattern_states(states(pattern)?)?;
    SearchPattern::compile(pattern)
}

/// If `strict`, the schema refuses unnamed properties even without a keyword for it (AT-IN-03).
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
