//! The options of `curl` that are there.

/// The options of one command line.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Options {
    pub(crate) url: String,
    pub(crate) method: Option<String>,
    pub(crate) headers: Vec<(String, String)>,
    /// The pieces of the body, joined with `&`.
    pub(crate) data: Vec<Data>,
    pub(crate) output: Option<String>,
    pub(crate) is_silent: bool,
    pub(crate) shows_errors: bool,
    pub(crate) fails: bool,
    pub(crate) follows: bool,
    pub(crate) shows_head: bool,
    pub(crate) is_head: bool,
}

#[derive(Debug, PartialEq)]
pub(crate) enum Data {
    Text(String),
    /// A file, or standard input for `-`. Line breaks are kept only if the flag is set.
    File(String, bool),
}

const VALUED: &str = "XHdoA";

pub(crate) fn parse(words: &[String]) -> Result<Options, String> {
    let mut options = Options::default();
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if let Some(long) = word.strip_prefix("--").filter(|long| !long.is_empty()) {
            let (name, inline) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (long, None),
            };
            let short = short_of(name).ok_or_else(|| unsupported(word))?;
            let mut value = || inline.clone().or_else(|| words.next().cloned());
            options.apply(short, &mut value, word)?;
        } else if let Some(letters) = word.strip_prefix('-').filter(|rest| !rest.is_empty()) {
            options.letters(letters, &mut || words.next().cloned(), word)?;
        } else if options.url.is_empty() {
            options.url.clone_from(word);
        } else {
            return Err("more than one URL is not supported: call curl for each".to_owned());
        }
    }
    if options.url.is_empty() {
        return Err("no URL specified".to_owned());
    }
    if !options.url.contains("://") {
        options.url = format!("http://{}", options.url);
    }
    Ok(options)
}

fn unsupported(word: &str) -> String {
    format!(
        "option {word} is not supported; there are -s -S -f -L -i -I -o -X -H -A -d, --data-raw, --data-binary and --json"
    )
}

/// One letter for each option; those with no letter of their own in curl get a digit.
fn short_of(name: &str) -> Option<char> {
    Some(match name {
        "silent" => 's',
        "show-error" => 'S',
        "fail" => 'f',
        "location" => 'L',
        "include" => 'i',
        "head" => 'I',
        "output" => 'o',
        "request" => 'X',
        "header" => 'H',
        "user-agent" => 'A',
        "data" | "data-ascii" => 'd',
        "data-raw" => '1',
        "data-binary" => '2',
        "json" => '3',
        _ => return None,
    })
}

impl Options {
    /// Letters behind one `-`: the value of the last one can be in the same word.
    fn letters(
        &mut self,
        letters: &str,
        next: &mut dyn FnMut() -> Option<String>,
        word: &str,
    ) -> Result<(), String> {
        for (at, letter) in letters.char_indices() {
            let rest = letters.get(at + letter.len_utf8()..).unwrap_or_default();
            if VALUED.contains(letter) && !rest.is_empty() {
                return self.apply(letter, &mut || Some(rest.to_owned()), word);
            }
            if letter.is_ascii_digit() {
                return Err(unsupported(word));
            }
            self.apply(letter, next, word)?;
        }
        Ok(())
    }

    fn apply(
        &mut self,
        letter: char,
        next: &mut dyn FnMut() -> Option<String>,
        word: &str,
    ) -> Result<(), String> {
        let mut value = || next().ok_or_else(|| format!("option {word} requires parameter"));
        match letter {
            's' => self.is_silent = true,
            'S' => self.shows_errors = true,
            'f' => self.fails = true,
            'L' => self.follows = true,
            'i' => self.shows_head = true,
            'I' => self.is_head = true,
            'o' => self.output = Some(value()?),
            'X' => self.method = Some(value()?),
            'A' => self.headers.push(("user-agent".to_owned(), value()?)),
            'H' => self.header(&value()?)?,
            'd' => self.data.push(data(value()?, false)),
            '1' => self.data.push(Data::Text(value()?)),
            '2' => self.data.push(data(value()?, true)),
            '3' => {
                self.data.push(data(value()?, true));
                for name in ["content-type", "accept"] {
                    self.headers
                        .push((name.to_owned(), "application/json".to_owned()));
                }
            }
            _ => return Err(unsupported(word)),
        }
        Ok(())
    }

    fn header(&mut self, text: &str) -> Result<(), String> {
        let (name, value) = text
            .split_once(':')
            .ok_or_else(|| format!("the header `{text}` has no colon"))?;
        self.headers
            .push((name.trim().to_owned(), value.trim().to_owned()));
        Ok(())
    }

    pub(crate) fn method(&self) -> &str {
        match &self.method {
            Some(method) => method,
            None if self.is_head => "HEAD",
            None if self.data.is_empty() => "GET",
            None => "POST",
        }
    }
}

fn data(value: String, keeps_lines: bool) -> Data {
    match value.strip_prefix('@') {
        Some(path) => Data::File(path.to_owned(), keeps_lines),
        None => Data::Text(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<Options, String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        parse(&words)
    }

    #[test]
    fn letters_can_stand_together() {
        let options = of("-fsSLo out.json https://a.test/x").unwrap();
        assert!(options.fails && options.is_silent && options.shows_errors && options.follows);
        assert_eq!(options.output.as_deref(), Some("out.json"));
        assert_eq!(
            (options.method(), options.url.as_str()),
            ("GET", "https://a.test/x")
        );
    }

    #[test]
    fn data_makes_a_post() {
        let options = of("a.test -d x=1 -d @f --data-binary=@- -HA:b --header C:d").unwrap();
        assert_eq!(
            (options.method(), options.url.as_str()),
            ("POST", "http://a.test")
        );
        let file = |path: &str, keeps| Data::File(path.to_owned(), keeps);
        assert_eq!(
            options.data,
            [
                Data::Text("x=1".to_owned()),
                file("f", false),
                file("-", true)
            ]
        );
        assert_eq!(options.headers.len(), 2);
        assert_eq!(of("-X PUT -d a a.test").unwrap().method(), "PUT");
        assert_eq!(of("-I a.test").unwrap().method(), "HEAD");
    }

    #[test]
    fn what_is_not_there_is_said() {
        for line in [
            "-k https://a.test",
            "--insecure https://a.test",
            "-1 https://a.test",
        ] {
            assert!(
                of(line)
                    .unwrap_err()
                    .contains("is not supported; there are"),
                "{line}"
            );
        }
        assert_eq!(of("-s").unwrap_err(), "no URL specified");
        assert!(
            of("https://a.test -o")
                .unwrap_err()
                .ends_with("requires parameter")
        );
        assert!(
            of("https://a.test https://b.test")
                .unwrap_err()
                .contains("more than one URL")
        );
    }
}
