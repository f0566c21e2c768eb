use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A server on this machine that keeps every request, and reflects it in its response. It stops on drop.
pub(crate) struct Mirror {
    port: u16,
    over: Arc<AtomicBool>,
    seen: Arc<Mutex<Vec<String>>>,
}

/// Makes the whole response to a request: status line, headers and body.
type Respond = dyn Fn(&str) -> Vec<u8> + Send + Sync;

impl Mirror {
    /// Answers every request with the request itself.
    pub(crate) fn reflecting() -> Self {
        Self::new(|request| response(&[], request.as_bytes()))
    }

    pub(crate) fn new(respond: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let kept = Arc::clone(&seen);
        let respond: Arc<Respond> = Arc::new(respond);
        let over = Arc::<AtomicBool>::default();
        let ended = Arc::clone(&over);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                if ended.load(Ordering::SeqCst) {
                    return;
                }
                let kept = Arc::clone(&kept);
                let respond = Arc::clone(&respond);
                std::thread::spawn(move || serve(stream.unwrap(), &kept, respond.as_ref()));
            }
        });
        Self { port, over, seen }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// `http://127.0.0.1:PORT`
    pub(crate) fn origin(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// The heads of all requests so far.
    pub(crate) fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

impl Drop for Mirror {
    fn drop(&mut self) {
        self.over.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

/// A response with these headers.
pub(crate) fn response(headers: &[(&str, &str)], body: &[u8]) -> Vec<u8> {
    let mut head = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n",
        body.len()
    );
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    [head.as_bytes(), b"\r\n", body].concat()
}

fn serve(mut stream: TcpStream, seen: &Mutex<Vec<String>>, respond: &Respond) {
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut byte) {
            Ok(1) => head.extend(byte),
            _ => return,
        }
    }
    let head = String::from_utf8_lossy(&head).into_owned();
    seen.lock().unwrap().push(head.clone());
    // The tool may be gone before it has read everything.
    let _ = stream.write_all(&respond(&head));
}
