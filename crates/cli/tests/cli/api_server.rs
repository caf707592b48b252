//! Something that answers as an API server does, for the tool as a process: canned answers, and a record of what was asked.

use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use tempfile::TempDir;

/// A request that came in: method, path without query, query, body.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) query: String,
    pub(crate) body: Value,
}

type Answers = Arc<Mutex<BTreeMap<String, Vec<(u16, Value)>>>>;

/// The server, which ends with the process.
pub(crate) struct ApiServer {
    answers: Answers,
    asked: Arc<Mutex<Vec<Asked>>>,
    folder: TempDir,
    port: u16,
}

impl ApiServer {
    /// Knows nothing: every path is a 404.
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (answers, asked) = (Answers::default(), Arc::<Mutex<Vec<Asked>>>::default());
        let (known, record) = (answers.clone(), asked.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (known, record) = (known.clone(), record.clone());
                std::thread::spawn(move || while serve(&stream, &known, &record).is_some() {});
            }
        });
        Self { answers, asked, folder: tempfile::tempdir().unwrap(), port }
    }

    /// What `METHOD path` is answered; of several answers each is given once, and the last one from then on.
    pub(crate) fn answer(&self, request: &str, answers: Vec<(u16, Value)>) -> &Self {
        self.answers.lock().unwrap().insert(request.to_owned(), answers);
        self
    }

    /// What a path holds.
    pub(crate) fn holds(&self, path: &str, object: Value) -> &Self {
        self.answer(&format!("GET {path}"), vec![(200, object)])
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// The requests that would have changed something.
    pub(crate) fn writes(&self) -> Vec<Asked> {
        self.asked().into_iter().filter(|asked| asked.method != "GET").collect()
    }

    /// A kubeconfig that names it.
    pub(crate) fn kubeconfig(&self) -> String {
        write_kubeconfig(&self.folder.path().join("kubeconfig"), self.port)
    }
}

/// A kubeconfig of a server at that port of this machine.
pub(crate) fn write_kubeconfig(path: &Path, port: u16) -> String {
    let text = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "here",
        "clusters": [{ "name": "here", "cluster": { "server": format!("http://127.0.0.1:{port}") } }],
        "contexts": [{ "name": "here", "context": { "cluster": "here", "user": "me", "namespace": "capi" } }],
        "users": [{ "name": "me", "user": { "token": "a-secret-token" } }],
    });
    std::fs::write(path, text.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

/// Answers one request; none: the connection has ended.
fn serve(stream: &TcpStream, answers: &Answers, record: &Mutex<Vec<Asked>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let mut words = line.split_whitespace();
    let (method, uri) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        if header.trim().is_empty() {
            break;
        }
        if let Some(value) = header.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (path, query) = uri.split_once('?').unwrap_or((&uri, ""));
    let body = serde_json::from_slice(&body).unwrap_or_default();
    let (code, object) = answer(answers, &format!("{method} {path}"));
    let asked = Asked { method, path: path.to_owned(), query: query.to_owned(), body };
    record.lock().unwrap().push(asked);
    let text = object.to_string();
    let mut stream = stream;
    let head = format!(
        "HTTP/1.1 {code} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        text.len()
    );
    stream.write_all((head + &text).as_bytes()).ok()
}

fn answer(answers: &Answers, request: &str) -> (u16, Value) {
    let mut answers = answers.lock().unwrap();
    match answers.get_mut(request) {
        Some(answers) if answers.len() > 1 => answers.remove(0),
        Some(answers) => answers[0].clone(),
        None => status(404, "NotFound", &format!("{request}: there is no such thing")),
    }
}

/// An API server's refusal.
pub(crate) fn status(code: u16, reason: &str, message: &str) -> (u16, Value) {
    let object = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code,
    });
    (code, object)
}

/// A list of objects.
pub(crate) fn list(items: &[Value]) -> Value {
    json!({ "kind": "List", "apiVersion": "v1", "metadata": { "resourceVersion": "1" }, "items": items })
}
