use std::collections::VecDeque;
use std::io;
use std::net::IpAddr;
use std::sync::Mutex;

use toolcell::Resolver;
use toolcell_system::BoxFuture;

/// Answers look-ups from a script, and records the names.
#[derive(Debug, Default)]
pub(crate) struct ScriptedResolver {
    /// One answer per look-up, in order; the last answer repeats.
    answers: Mutex<VecDeque<Vec<IpAddr>>>,
    asked: Mutex<Vec<String>>,
}

impl ScriptedResolver {
    pub(crate) fn answering(answers: &[&[&str]]) -> Self {
        let resolver = Self::default();
        resolver.script(answers);
        resolver
    }

    /// Sets the answers, and forgets the recorded names.
    pub(crate) fn script(&self, answers: &[&[&str]]) {
        let answers = answers
            .iter()
            .map(|answer| answer.iter().map(|ip| ip.parse().unwrap()).collect())
            .collect();
        *self.answers.lock().unwrap() = answers;
        self.asked.lock().unwrap().clear();
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }
}

impl Resolver for ScriptedResolver {
    fn resolve<'a>(&'a self, name: &'a str) -> BoxFuture<'a, io::Result<Vec<IpAddr>>> {
        self.asked.lock().unwrap().push(name.to_owned());
        let mut answers = self.answers.lock().unwrap();
        let answer = if answers.len() > 1 {
            answers.pop_front()
        } else {
            answers.front().cloned()
        };
        Box::pin(std::future::ready(
            answer.ok_or_else(|| io::ErrorKind::NotFound.into()),
        ))
    }
}
