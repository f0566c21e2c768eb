use std::collections::HashSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail, ensure};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use toolcell_policy::{TOKEN_CALLER, token_caller};
use toolcell_system::named_file;
use toolcell_system::readers::foreign_reader;

use crate::random_name;

/// A shorter one can be guessed.
const TOKEN_CHARS_MIN: usize = 16;
/// In bytes; a larger token file is rejected.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// Kept as digests, which are all that is looked up, so that response times reveal nothing about a token.
#[derive(Clone, Default)]
pub struct Tokens {
    callers: Vec<Token>,
    approvers: Vec<Token>,
    /// `None` if callers may read metrics.
    measurers: Option<Vec<Token>>,
}

/// Whoever calls a server that needs no token.
pub(super) const ANYBODY: &str = "anybody";

/// SHA-256, as lowercase hexadecimal digits.
pub(super) type TokenDigest = String;

pub(super) fn digest(token: &str) -> TokenDigest {
    let digest = toolcell_spec::digest(token.as_bytes());
    digest.strip_prefix("sha256:").unwrap_or(&digest).to_owned()
}

#[derive(Clone)]
struct Token {
    digest: TokenDigest,
    name: Arc<str>,
    /// `false` for the number of a line, and the generated token's name.
    is_named: bool,
}

impl Tokens {
    /// Returns the text as well, which is not stored.
    pub fn generate() -> anyhow::Result<(Self, String)> {
        let text = random_name::<32>()
            .map_err(|refusal| anyhow!(refusal.detail.unwrap_or(refusal.message)))?;
        let mut tokens = Self::none();
        tokens.callers.push(Token {
            digest: digest(&text),
            name: token_caller("generated").into(),
            is_named: false,
        });
        Ok((tokens, text))
    }

    /// One per line, `NAME TOKEN` or `TOKEN`. Fails as [`read_private`].
    pub fn read(file: &Path) -> anyhow::Result<Self> {
        let text = read_private(file, "tokens")?;
        Self::parse(&text).with_context(|| format!("cannot parse {}", file.display()))
    }

    fn parse(text: &str) -> anyhow::Result<Self> {
        let lines = text
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        let mut tokens: Vec<Token> = Vec::new();
        let mut known = HashSet::new();
        for (at, line) in lines.enumerate() {
            let named = line.split_once(char::is_whitespace);
            let (name, token) = match named {
                Some((name, token)) => (name.to_owned(), token.trim()),
                None => ((at + 1).to_string(), line),
            };
            ensure!(
                token.len() >= TOKEN_CHARS_MIN,
                "the token of {name} is shorter than {TOKEN_CHARS_MIN} characters"
            );
            ensure!(
                token.bytes().all(|byte| byte.is_ascii_graphic()),
                "the token of {name} has characters that no header holds"
            );
            let digest = digest(token);
            ensure!(
                known.insert(digest.clone()),
                "the token of {name} is that of an earlier line, too: give each caller its own"
            );
            tokens.push(Token {
                digest,
                name: token_caller(&name).into(),
                is_named: named.is_some(),
            });
        }
        ensure!(!tokens.is_empty(), "there is no token");
        // Calls belong to names, so a name equal to a line number would belong to two callers.
        for Token { name, .. } in tokens.iter().filter(|token| !token.is_named) {
            let same = tokens.iter().filter(|token| token.name == *name).count();
            ensure!(
                same == 1,
                "two lines have the name {name}: give the token without a name one"
            );
        }
        Ok(Self {
            callers: tokens,
            ..Self::default()
        })
    }

    /// Adds tokens that approve calls, instead of making them. Fails if a text or a name is for both.
    pub fn with_approvers(mut self, approvers: Self) -> anyhow::Result<Self> {
        let is_caller = |token: &Token| {
            self.callers
                .iter()
                .any(|known| known.digest == token.digest)
        };
        ensure!(
            !approvers.callers.iter().any(is_caller),
            "a token is for a caller and for an approver: a caller cannot approve its own calls"
        );
        if let Some(name) = self
            .name_of_both(&approvers)
            .filter(|_| guard!("approver_names"))
        {
            bail!(
                "cannot use the name {name} for an approver: a caller has it, and a caller cannot approve its own calls; give \
                 each person one role"
            );
        }
        let named = |token: Token| {
            let name = token.name.strip_prefix(TOKEN_CALLER).unwrap_or(&token.name);
            Token {
                name: format!("approver:{name}").into(),
                ..token
            }
        };
        self.approvers = approvers.callers.into_iter().map(named).collect();
        Ok(self)
    }

    /// Adds tokens that read metrics, instead of callers'. Fails if a text is for another role, too.
    pub fn with_measurers(mut self, measurers: Self) -> anyhow::Result<Self> {
        let is_other = |token: &Token| {
            let mut others = self.callers.iter().chain(&self.approvers);
            others.any(|known| known.digest == token.digest)
        };
        ensure!(
            !measurers.callers.iter().any(is_other),
            "a token is for metrics and for a caller or an approver: give each its own"
        );
        self.measurers = Some(measurers.callers);
        Ok(self)
    }

    /// `None` if metrics have no token of their own.
    pub(super) fn may_measure(&self, headers: &HeaderMap) -> Option<bool> {
        let measurers = self.measurers.as_ref()?;
        let given = bearer(headers).map(digest);
        Some(
            measurers
                .iter()
                .any(|known| Some(&known.digest) == given.as_ref()),
        )
    }

    fn name_of_both<'a>(&self, approvers: &'a Self) -> Option<&'a str> {
        let is_same = |one: &Token, other: &Token| {
            one.is_named && other.is_named && one.name.eq_ignore_ascii_case(&other.name)
        };
        let is_caller = |token: &&Token| self.callers.iter().any(|known| is_same(known, token));
        let Token { name, .. } = approvers.callers.iter().find(is_caller)?;
        Some(name.strip_prefix(TOKEN_CALLER).unwrap_or(name))
    }

    /// Requires no token. For loopback only.
    pub fn none() -> Self {
        Self::default()
    }

    pub fn principals(&self) -> Vec<Arc<str>> {
        match self.callers.as_slice() {
            [] => vec![ANYBODY.into()],
            tokens => names(tokens),
        }
    }

    pub(super) fn are_required(&self) -> bool {
        !self.callers.is_empty()
    }

    pub(crate) fn approvers(&self) -> Vec<Arc<str>> {
        names(&self.approvers)
    }

    /// The digests of the tokens of callers or of approvers, and whose they are.
    pub(super) fn of_callers(&self) -> impl Iterator<Item = (&TokenDigest, &Arc<str>)> {
        self.callers
            .iter()
            .map(|token| (&token.digest, &token.name))
    }

    pub(super) fn of_approvers(&self) -> impl Iterator<Item = (&TokenDigest, &Arc<str>)> {
        self.approvers
            .iter()
            .map(|token| (&token.digest, &token.name))
    }
}

/// The only token that a request carries.
pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut given = headers.get_all(AUTHORIZATION).iter();
    let (Some(given), None) = (given.next(), given.next()) else {
        return None;
    };
    let (scheme, token) = given.to_str().ok()?.split_once(' ')?;
    let is_bearer = scheme.eq_ignore_ascii_case("bearer");
    is_bearer.then(|| token.trim())
}

fn names(tokens: &[Token]) -> Vec<Arc<str>> {
    tokens.iter().map(|token| Arc::clone(&token.name)).collect()
}

/// Fails if users other than the owner and this process can access the file.
pub fn read_private(file: &Path, content: &str) -> anyhow::Result<String> {
    let name = file.display();
    let unreadable = || format!("cannot read the {content} in {name}");
    // Once, because the name may lead to another file in a moment: Kubernetes replaces mounted secrets so.
    let open = named_file::open(file).with_context(unreadable)?;
    let reader = foreign_reader(&open).with_context(unreadable)?;
    if let Some(who) = reader.filter(|_| guard!("token_file_mode")) {
        bail!(
            "others can read the {content} in {name}, {who} for one: chmod 600 {name}, or chmod 440 for root's file with a \
             group of this server alone"
        );
    }
    named_file::read_open_text(&open, FILE_BYTES_MAX).with_context(unreadable)
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list()
            .entries(self.principals())
            .entries(self.approvers())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::{ANYBODY, Tokens, bearer, digest};
    use http::header::AUTHORIZATION;
    use http::{HeaderMap, HeaderValue};

    fn whose(tokens: &Tokens, value: &str) -> Option<String> {
        let headers =
            HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_str(value).unwrap())]);
        let given = digest(bearer(&headers)?);
        let mut all = tokens.of_callers().chain(tokens.of_approvers());
        all.find_map(|(known, name)| (*known == given).then(|| name.to_string()))
    }

    #[test]
    fn a_bearer_is_known_by_the_whole_token() {
        let tokens =
            Tokens::parse("# people\nanna 0123456789abcdef\n\nfedcba9876543210\n").unwrap();
        let whose = |value: &str| whose(&tokens, value);
        assert_eq!(whose("Bearer 0123456789abcdef").unwrap(), "token:anna");
        assert_eq!(whose("bearer fedcba9876543210").unwrap(), "token:2");
        for wrong in [
            "Bearer 0123456789abcde",
            "Bearer 0123456789abcdef0",
            "Basic 0123456789abcdef",
            "Bearer",
            "Bearer ",
        ] {
            assert_eq!(whose(wrong), None, "{wrong}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
        assert!(!format!("{tokens:?}").contains("0123456789abcdef"));
    }

    #[test]
    fn an_approver_is_no_caller() {
        let read = |text| Tokens::parse(text).unwrap();
        let tokens = read("anna 0123456789abcdef")
            .with_approvers(read("bert fedcba9876543210"))
            .unwrap();
        let of = |value: &str| whose(&tokens, value);
        assert_eq!(of("Bearer 0123456789abcdef").unwrap(), "token:anna");
        assert_eq!(of("Bearer fedcba9876543210").unwrap(), "approver:bert");
        assert_eq!(of("Bearer fedcba987654321"), None);
        assert_eq!(
            (tokens.principals().len(), &*tokens.approvers()[0]),
            (1, "approver:bert")
        );
        let open = Tokens::none()
            .with_approvers(read("bert fedcba9876543210"))
            .unwrap();
        assert_eq!(
            whose(&open, "Bearer fedcba9876543210").unwrap(),
            "approver:bert"
        );
        assert_eq!(&*open.principals()[0], ANYBODY);
        assert!(!open.are_required() && tokens.are_required());
        assert!(
            read("anna 0123456789abcdef")
                .with_approvers(read("bert 0123456789abcdef"))
                .is_err()
        );
    }

    #[test]
    fn a_person_has_one_role() {
        let read = |text: &str| Tokens::parse(text).unwrap();
        let both = |callers: &str, approvers: &str| read(callers).with_approvers(read(approvers));
        for name in ["anna", "Anna"] {
            let approvers = format!("{name} fedcba9876543210");
            let told = format!(
                "{:#}",
                both("anna 0123456789abcdef", &approvers).unwrap_err()
            );
            assert!(
                told.starts_with(&format!("cannot use the name {name} for an approver")),
                "{told}"
            );
        }
        // The numbers of lines are no names.
        for (callers, approvers) in [
            ("0123456789abcdef", "fedcba9876543210"),
            ("1 0123456789abcdef", "fedcba9876543210"),
            ("0123456789abcdef", "1 fedcba9876543210"),
        ] {
            assert!(both(callers, approvers).is_ok(), "{callers}, {approvers}");
        }
        let generated = Tokens::generate().unwrap().0;
        assert!(
            generated
                .with_approvers(read("generated fedcba9876543210"))
                .is_ok()
        );
    }

    #[test]
    fn each_line_is_a_caller_of_its_own() {
        let same = |text: &str| format!("{:#}", Tokens::parse(text).unwrap_err());
        let told = same("anna 0123456789abcdef\nbert 0123456789abcdef");
        assert!(
            told.contains("the token of bert") && !told.contains("0123456789abcdef"),
            "{told}"
        );
        for text in [
            "2 0123456789abcdef\nfedcba9876543210",
            "0123456789abcdef\n1 fedcba9876543210",
        ] {
            assert!(same(text).contains("two lines have the name"), "{text}");
        }
        assert!(
            Tokens::parse("anna 0123456789abcdef\nanna fedcba9876543210").is_ok(),
            "a token that replaces another"
        );
    }

    #[test]
    fn tokens_that_can_be_guessed_are_refused() {
        assert!(Tokens::parse("short").is_err() && Tokens::parse("# none\n").is_err());
        let one = Tokens::generate().unwrap();
        let other = Tokens::generate().unwrap();
        assert!(one.1.len() == 64 && one.1 != other.1);
        let bearer = format!("Bearer {}", one.1);
        assert_eq!(whose(&one.0, &bearer).unwrap(), "token:generated");
    }
}
