use serde_json::{Value, json};
use toolcell_spec::{ToolInvocation, ToolResult};

use super::NameRule::{Function, SnakeCase};
use super::openai::{self, responses};
use super::otc::{self, OtcMode};
use super::{
    FinishedCall, ListedTool, MessageError, ModelCall, NameRule, agentool, amplifier, anthropic,
    mcp,
};

/// Makes the messages that follow finished calls, in the terms of a dialect.
type ResultMessages = fn(&[FinishedCall<'_>]) -> Vec<Value>;

/// How a dialect carries calls in the messages of a model.
#[derive(Clone, Copy)]
pub struct MessageExchange {
    /// Reads the calls of a message.
    pub read: fn(&str) -> Result<Vec<ModelCall>, MessageError>,
    /// The result of one call, for a caller that makes the messages.
    pub result: fn(&ToolInvocation, &ToolResult) -> Value,
    /// The messages for the results of all calls; `None` if each result is a message.
    pub(crate) messages: Option<ResultMessages>,
}

impl MessageExchange {
    /// The messages that give the model the results of all calls, in their order.
    pub fn answers(&self, ended: &[FinishedCall<'_>]) -> Vec<Value> {
        if let Some(messages) = self.messages {
            return messages(ended);
        }
        let message = |(invocation, ended): &FinishedCall<'_>| (self.result)(invocation, ended);
        ended.iter().map(message).collect()
    }
}

/// Features of a dialect.
struct DialectFeatures {
    name: &'static str,
    rule: NameRule,
    tool: fn(&ListedTool<'_>, is_deferred: bool) -> Value,
    /// `true` if a model can load deferred tools.
    defers: bool,
    exchange: Option<MessageExchange>,
}

impl DialectFeatures {
    fn new(name: &'static str, rule: NameRule, tool: fn(&ListedTool<'_>, bool) -> Value) -> Self {
        Self {
            name,
            rule,
            tool,
            defers: false,
            exchange: None,
        }
    }

    fn defers(self) -> Self {
        Self {
            defers: true,
            ..self
        }
    }

    fn calls(
        self,
        read: fn(&str) -> Result<Vec<ModelCall>, MessageError>,
        result: fn(&ToolInvocation, &ToolResult) -> Value,
        messages: Option<ResultMessages>,
    ) -> Self {
        Self {
            exchange: Some(MessageExchange {
                read,
                result,
                messages,
            }),
            ..self
        }
    }
}

/// Makes the type of all dialects, each of them one row.
macro_rules! dialects {
    ($($variant:ident => $facts:expr;)+) => {
        /// A format in which others describe and call tools.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Dialect {
            $($variant),+
        }

        impl Dialect {
            /// Every dialect.
            pub const ALL: &[Self] = &[$(Self::$variant),+];

            fn facts(self) -> DialectFeatures {
                match self {
                    $(Self::$variant => $facts),+
                }
            }
        }
    };
}

dialects! {
    Mcp => DialectFeatures::new("mcp", NameRule::Exported, |listed, _| json!(mcp::tool(*listed)));
    OpenAi => DialectFeatures::new("openai", Function, |listed, _| openai::tool(listed))
        .calls(openai::read, openai::result, Some(openai::answers));
    OpenAiResponses => DialectFeatures::new("openai-responses", Function, responses::tool)
        .defers()
        .calls(responses::read, responses::result, None);
    Anthropic => DialectFeatures::new("anthropic", Function, anthropic::tool)
        .defers()
        .calls(anthropic::read, anthropic::result, Some(anthropic::answers));
    Agentool => DialectFeatures::new("agentool", SnakeCase, |listed, _| agentool::spec(listed));
    Otc => DialectFeatures::new("otc", NameRule::Exported, |listed, _| otc::definition(listed, OtcMode::Otc));
    OtcSeed => DialectFeatures::new("otc-seed", NameRule::Exported, |listed, _| otc::definition(listed, OtcMode::OtcSeed));
    Arcade => DialectFeatures::new("arcade", NameRule::Exported, |listed, _| otc::definition(listed, OtcMode::Arcade));
    Amplifier => DialectFeatures::new("amplifier", SnakeCase, |listed, _| amplifier::tool(listed))
        .calls(amplifier::read, amplifier::answer, None);
    AmplifierSeed => DialectFeatures::new("amplifier-seed", SnakeCase, |listed, _| amplifier::tool(listed))
        .calls(amplifier::read, amplifier::seed_answer, None);
}

impl Dialect {
    /// Its name on the command line.
    pub fn as_str(self) -> &'static str {
        self.facts().name
    }

    /// The dialect with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .iter()
            .copied()
            .find(|dialect| dialect.as_str() == name)
    }

    /// The rule for the names of its tools.
    pub fn rule(self) -> NameRule {
        self.facts().rule
    }

    /// Returns whether a model can load deferred tools itself. Otherwise the list omits them.
    pub fn defers(self) -> bool {
        self.facts().defers
    }

    /// Describes a tool.
    pub fn tool(self, listed: &ListedTool<'_>, is_deferred: bool) -> Value {
        (self.facts().tool)(listed, is_deferred)
    }

    /// How it carries calls in the messages of a model; `None` for a dialect that only describes tools, or has a server.
    pub fn exchange(self) -> Option<MessageExchange> {
        self.facts().exchange
    }
}

#[cfg(test)]
mod tests {
    use super::Dialect;

    #[test]
    fn each_dialect_has_a_name_of_its_own() {
        for dialect in Dialect::ALL {
            assert_eq!(Dialect::named(dialect.as_str()), Some(*dialect));
        }
        assert_eq!(Dialect::named("esperanto"), None);
    }
}
