use serde_json::{Value, json};
use strum::{EnumString, IntoStaticStr, VariantArray};
use toolcell_spec::{ToolInvocation, ToolResult};

use super::openai::{self, responses};
use super::otc::{self, OtcMode};
use super::{
    FinishedCall, ListedTool, MessageError, ModelCall, NameRule, agentool, amplifier, anthropic,
    mcp,
};

type ReadCalls = fn(&str) -> Result<Vec<ModelCall>, MessageError>;
type DescribeResult = fn(&ToolInvocation, &ToolResult) -> Value;
type ResultMessages = fn(&[FinishedCall<'_>]) -> Vec<Value>;

#[derive(Clone, Copy)]
pub struct MessageExchange {
    /// Reads the calls of a message.
    pub read: ReadCalls,
    /// The result of one call, for a caller that makes the messages.
    pub result: DescribeResult,
    /// `None` if each result is a message.
    pub(crate) messages: Option<ResultMessages>,
}

impl MessageExchange {
    /// In the order of the calls.
    pub fn answers(&self, ended: &[FinishedCall<'_>]) -> Vec<Value> {
        if let Some(messages) = self.messages {
            return messages(ended);
        }
        let message = |(invocation, ended): &FinishedCall<'_>| (self.result)(invocation, ended);
        ended.iter().map(message).collect()
    }
}

/// A format in which others describe and call tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum Dialect {
    Mcp,
    #[strum(serialize = "openai")]
    OpenAi,
    #[strum(serialize = "openai-responses")]
    OpenAiResponses,
    Anthropic,
    Agentool,
    Otc,
    OtcSeed,
    Arcade,
    Amplifier,
    AmplifierSeed,
}

impl Dialect {
    /// Every dialect.
    pub const ALL: &[Self] = Self::VARIANTS;

    /// The name on the command line.
    pub fn as_str(self) -> &'static str {
        self.into()
    }

    pub fn named(name: &str) -> Option<Self> {
        name.parse().ok()
    }

    pub fn rule(self) -> NameRule {
        match self {
            Self::Mcp | Self::Otc | Self::OtcSeed | Self::Arcade => NameRule::Exported,
            Self::OpenAi | Self::OpenAiResponses | Self::Anthropic => NameRule::Function,
            Self::Agentool | Self::Amplifier | Self::AmplifierSeed => NameRule::SnakeCase,
        }
    }

    /// Returns whether a model can load deferred tools itself; otherwise the list omits them.
    pub fn defers(self) -> bool {
        matches!(self, Self::OpenAiResponses | Self::Anthropic)
    }

    pub fn tool(self, listed: &ListedTool<'_>, is_deferred: bool) -> Value {
        match self {
            Self::Mcp => json!(mcp::tool(*listed)),
            Self::OpenAi => openai::tool(listed),
            Self::OpenAiResponses => responses::tool(listed, is_deferred),
            Self::Anthropic => anthropic::tool(listed, is_deferred),
            Self::Agentool => agentool::spec(listed),
            Self::Otc => otc::definition(listed, OtcMode::Otc),
            Self::OtcSeed => otc::definition(listed, OtcMode::OtcSeed),
            Self::Arcade => otc::definition(listed, OtcMode::Arcade),
            Self::Amplifier | Self::AmplifierSeed => amplifier::tool(listed),
        }
    }

    /// `None` for a dialect that only describes tools, or has a server.
    pub fn exchange(self) -> Option<MessageExchange> {
        let (read, result, messages): (ReadCalls, DescribeResult, Option<ResultMessages>) =
            match self {
                Self::OpenAi => (openai::read, openai::result, Some(openai::answers)),
                Self::OpenAiResponses => (responses::read, responses::result, None),
                Self::Anthropic => (anthropic::read, anthropic::result, Some(anthropic::answers)),
                Self::Amplifier => (amplifier::read, amplifier::answer, None),
                Self::AmplifierSeed => (amplifier::read, amplifier::seed_answer, None),
                Self::Mcp | Self::Agentool | Self::Otc | Self::OtcSeed | Self::Arcade => {
                    return None;
                }
            };
        Some(MessageExchange {
            read,
            result,
            messages,
        })
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
