//! Questions about calls that wait at a worker, and the answers of approvers, each with a key of its own.

use async_nats::jetstream::kv::Operation;
use futures_util::StreamExt;
use serde::{Deserialize, Serialize};

use super::Cluster;
use crate::question::{Seal, digest_of};
use crate::store::Unavailable;

/// A question, as its worker asks it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct OpenApproval {
    /// Id of the call in the worker's records.
    pub invocation_id: String,
    pub worker: String,
    pub caller: Option<String>,
    /// Everything that the approver decides about: the tool, its arguments, what it would be allowed.
    pub prompt: String,
    /// The prompt shows a part of the call only.
    pub cut: bool,
    pub expires_at: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<SealedAnswer>,
    /// Why the worker does not take the latest answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
}

/// An answer to one question, as it was asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ApproverAnswer {
    /// [`OpenApproval::digest`] of the question.
    pub question: String,
    /// An answer of `/v1/approvals`, as JSON.
    pub answer: String,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SealedAnswer {
    /// [`ApproverAnswer`] as JSON.
    pub text: String,
    /// Public nkey of the approver.
    pub key: String,
    pub signature: String,
}

impl OpenApproval {
    /// Of what was asked: an answer to another question, or to this one in other words, does not count.
    pub fn digest(&self) -> String {
        digest_of(&[
            &self.invocation_id,
            &self.worker,
            &self.prompt,
            &self.expires_at,
        ])
    }

    /// The answer to this question, if the holder of its key gave it.
    pub fn answer(&self) -> Option<(&str, ApproverAnswer)> {
        let sealed = self.answer.as_ref()?;
        let seal = Seal {
            key: sealed.key.clone(),
            signature: sealed.signature.clone(),
        };
        if !seal.is_of(sealed.text.as_bytes()) && guard!("cluster_approver_signature") {
            return None;
        }
        let answer: ApproverAnswer = serde_json::from_str(&sealed.text).ok()?;
        let is_of_this = answer.question == self.digest() || !guard!("cluster_approval_binding");
        is_of_this.then_some((sealed.key.as_str(), answer))
    }
}

impl Cluster {
    /// Shows the question to approvers, in place of what was there.
    ///
    /// # Errors
    ///
    /// No server answers.
    pub async fn ask_approvers(&self, asked: &OpenApproval) -> Result<(), Unavailable> {
        let text = serde_json::to_vec(asked).map_err(|error| Unavailable(error.to_string()))?;
        let approvals = &self.resources.approvals;
        let put = approvals.put(&asked.invocation_id, text.into()).await;
        put.map(drop)
            .map_err(|error| Unavailable(error.to_string()))
    }

    /// Waits for the next change of the question that brings an answer.
    pub async fn approver_answered(&self, id: &str) -> Option<OpenApproval> {
        let mut watch = self.resources.approvals.watch_with_history(id).await.ok()?;
        while let Some(Ok(entry)) = watch.next().await {
            if entry.operation != Operation::Put {
                return None;
            }
            if let Ok(asked) = serde_json::from_slice::<OpenApproval>(&entry.value)
                && asked.answer.is_some()
                && asked.refused.is_none()
            {
                return Some(asked);
            }
        }
        None
    }

    /// The question is closed.
    pub async fn close_approval(&self, id: &str) {
        let _ = self.resources.approvals.purge(id).await;
    }

    /// The open questions of all workers.
    ///
    /// # Errors
    ///
    /// No server answers.
    pub async fn approvals(&self) -> Result<Vec<OpenApproval>, Unavailable> {
        let keys = self.resources.approvals.keys().await;
        let mut keys = keys.map_err(|error| Unavailable(error.to_string()))?;
        let mut open = Vec::new();
        while let Some(Ok(key)) = keys.next().await {
            open.extend(self.approval(&key).await?);
        }
        open.sort_by(|one, other| one.invocation_id.cmp(&other.invocation_id));
        Ok(open)
    }

    /// One question.
    ///
    /// # Errors
    ///
    /// No server answers.
    pub async fn approval(&self, id: &str) -> Result<Option<OpenApproval>, Unavailable> {
        let kept = self.resources.approvals.get(id).await;
        let kept = kept.map_err(|error| Unavailable(error.to_string()))?;
        Ok(kept.and_then(|kept| serde_json::from_slice(&kept).ok()))
    }

    /// Answers the question with the key of this process. The worker takes it, or says why not.
    ///
    /// # Errors
    ///
    /// No server answers.
    pub async fn answer_approval(
        &self,
        mut asked: OpenApproval,
        answer: String,
    ) -> Result<(), Unavailable> {
        let failed = |error: &dyn std::fmt::Display| Unavailable(error.to_string());
        let question = asked.digest();
        let text = serde_json::to_string(&ApproverAnswer { question, answer });
        let text = text.map_err(|error| failed(&error))?;
        let seal = Seal::new(&self.key, text.as_bytes()).map_err(|error| failed(&error))?;
        asked.answer = Some(SealedAnswer {
            text,
            key: seal.key,
            signature: seal.signature,
        });
        asked.refused = None;
        self.ask_approvers(&asked).await
    }
}

#[cfg(test)]
mod tests {
    use nkeys::KeyPair;

    use super::*;

    fn asked() -> OpenApproval {
        OpenApproval {
            invocation_id: "01ARZ3NDEKTSV4RRFFQ69G5FAV".to_owned(),
            worker: "one".to_owned(),
            caller: None,
            prompt: "ledger.append wants to write".to_owned(),
            cut: false,
            expires_at: "2030-01-01T00:00:00Z".to_owned(),
            answer: None,
            refused: None,
        }
    }

    fn answered(by: &KeyPair, question: String) -> SealedAnswer {
        let answer = r#"{"approved":true}"#.to_owned();
        let text = serde_json::to_string(&ApproverAnswer { question, answer }).unwrap();
        let seal = Seal::new(by, text.as_bytes()).unwrap();
        SealedAnswer {
            text,
            key: seal.key,
            signature: seal.signature,
        }
    }

    #[test]
    fn an_answer_is_to_one_question_by_the_holder_of_its_key() {
        let (approver, other) = (KeyPair::new_user(), KeyPair::new_user());
        let mut question = asked();
        assert!(question.answer().is_none());
        question.answer = Some(answered(&approver, question.digest()));
        assert_eq!(question.answer().unwrap().0, approver.public_key());
        let mut forged = question.clone();
        forged.answer = Some(SealedAnswer {
            key: approver.public_key(),
            ..answered(&other, question.digest())
        });
        assert!(forged.answer().is_none());
    }

    #[test]
    fn an_answer_to_other_words_does_not_count() {
        let approver = KeyPair::new_user();
        let mut question = asked();
        question.answer = Some(answered(&approver, question.digest()));
        question.prompt.push_str(" another file");
        assert!(question.answer().is_none());
    }
}
