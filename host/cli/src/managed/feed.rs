//! The events of a session in order, across broken connections.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::api::{Api, ApiError, Credential};
use super::wire::Event;

const PAUSE_MAX: Duration = Duration::from_secs(10);
/// Before the reader of the connection waits. One can be large.
const NEWS_MAX: usize = 8;

pub(super) enum News {
    /// All events so far: after each connection, because some may have been missed.
    History(Vec<Event>),
    Event(Event),
    /// There is no session, or the key does not open it.
    Refused(ApiError),
}

/// Ends with its owner.
pub(super) struct Feed {
    news: mpsc::Receiver<News>,
    task: JoinHandle<()>,
}

impl Feed {
    pub(super) fn open(api: &Arc<Api>, key: &Credential, session: &str) -> Self {
        let (sender, news) = mpsc::channel(NEWS_MAX);
        let follower = Follower {
            api: Arc::clone(api),
            key: key.clone(),
            session: session.to_owned(),
            sender,
        };
        let task = tokio::spawn(follower.follow());
        Self { news, task }
    }

    /// `None` after a refusal.
    pub(super) async fn next(&mut self) -> Option<News> {
        self.news.recv().await
    }
}

impl Drop for Feed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Follower {
    api: Arc<Api>,
    key: Credential,
    session: String,
    sender: mpsc::Sender<News>,
}

impl Follower {
    async fn follow(self) {
        let mut attempt = 0;
        loop {
            let failed = match self.connect(&mut attempt).await {
                Ok(()) => ApiError::Network("the stream ended".to_owned()),
                Err(error) => error,
            };
            if failed.is_final() {
                let _ = self.sender.send(News::Refused(failed)).await;
                return;
            }
            sleep(failed.pause(attempt, PAUSE_MAX)).await;
            attempt += 1;
        }
    }

    /// The stream is there before the history is read, so that no event is between them.
    async fn connect(&self, attempt: &mut u32) -> Result<(), ApiError> {
        let mut stream = self.api.stream(&self.key, &self.session).await?;
        let history = self.api.history(&self.key, &self.session).await?;
        if self.sender.send(News::History(history)).await.is_err() {
            return Ok(());
        }
        while let Some(event) = stream.next().await? {
            *attempt = 0;
            if self.sender.send(News::Event(event)).await.is_err() {
                break;
            }
        }
        Ok(())
    }
}
