//! The door: programs of the guest, its agent and the keeper, with servers on this machine.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::Vm;

mod destinations;
mod ends;
mod limits;
mod transfers;

const PATIENCE: Duration = Duration::from_secs(60);
const PUBLIC: &str = "93.184.215.14";

/// A server that counts its connections and serves each on a thread.
struct Server {
    port: u16,
    accepted: Arc<AtomicUsize>,
}

impl Server {
    fn new(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let accepted = Arc::new(AtomicUsize::new(0));
        let (count, serve) = (accepted.clone(), Arc::new(serve));
        thread::spawn(move || {
            for stream in listener.incoming() {
                count.fetch_add(1, Ordering::SeqCst);
                let serve = serve.clone();
                thread::spawn(move || serve(stream.unwrap()));
            }
        });
        Self { port, accepted }
    }

    /// Starts a server that returns all bytes, and ends when the client does.
    fn echo() -> Self {
        Self::new(|mut stream| {
            let mut buffer = vec![0; 64 << 10];
            while let Ok(count @ 1..) = stream.read(&mut buffer) {
                if stream.write_all(&buffer[..count]).is_err() {
                    return;
                }
            }
        })
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// A tunnel is there when the kernel has the connection, a moment before this server accepts it.
    fn assert_accepted(&self, count: usize) {
        let end = Instant::now() + PATIENCE;
        while self.accepted() < count && Instant::now() < end {
            thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(self.accepted(), count);
    }
}

/// Starts a VM whose door is open for `a.example`, which resolves to this server.
fn vm(name: &str, server: &Server, change: impl FnOnce(&mut Value)) -> Door {
    vm_with(name, server, json!({}), change)
}

/// Like `vm`, with `extra` in its launch configuration.
fn vm_with(name: &str, server: &Server, mut extra: Value, change: impl FnOnce(&mut Value)) -> Door {
    let mut egress = json!({
        "allow": [{ "kind": "host", "name": "a.example", "ports": [80, 443] }],
        "services": [],
        "testHosts": {
            "a.example": { "addresses": [[PUBLIC]], "dial": format!("127.0.0.1:{}", server.port) },
        },
    });
    change(&mut egress);
    extra["egress"] = egress;
    let vm = Vm::with_agent(name, extra);
    let fence = vm.attach();
    vm.start(
        fence,
        "proxy",
        "echo $http_proxy; echo $NO_PROXY",
        json!({}),
    );
    vm.wait("proxy");
    let output = String::from_utf8(vm.output("proxy", "stdout", 0).rest()).unwrap();
    let (proxy, direct) = output.trim().split_once('\n').unwrap();
    let proxy = proxy.strip_prefix("http://").unwrap().to_owned();
    Door {
        vm,
        proxy,
        direct: direct.to_owned(),
    }
}

struct Door {
    vm: Vm,
    proxy: String,
    direct: String,
}

impl Door {
    fn open(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.proxy).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.set_write_timeout(Some(PATIENCE)).unwrap();
        stream
    }

    /// Sends a head; returns the status, and the connection after the response's head.
    fn ask(&self, head: &str) -> (u16, TcpStream) {
        let mut stream = self.open();
        stream.write_all(head.as_bytes()).unwrap();
        let status = status(&read_head(&mut stream));
        (status, stream)
    }

    fn connect(&self, authority: &str) -> (u16, TcpStream) {
        self.ask(&format!("CONNECT {authority} HTTP/1.1\r\n\r\n"))
    }

    fn tunnel(&self, authority: &str) -> TcpStream {
        let (status, stream) = self.connect(authority);
        assert_eq!(status, 200, "{authority}");
        stream
    }

    /// Returns the notices once there are `count` of them.
    fn notices(&self, count: usize) -> Vec<Value> {
        let mut stream = self.vm.stream("notices", json!({ "offset": 0 }));
        assert_eq!(stream.head["ok"]["offset"], 0);
        (0..count).map(|_| stream.line()).collect()
    }
}

fn read_head(stream: &mut TcpStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") && matches!(stream.read(&mut byte), Ok(1)) {
        head.push(byte[0]);
    }
    String::from_utf8(head).unwrap()
}

fn status(head: &str) -> u16 {
    let word = head.split(' ').nth(1).unwrap_or_else(|| panic!("{head:?}"));
    word.parse().unwrap()
}

fn pattern(count: u64) -> Vec<u8> {
    (0..count).map(|index| (index * 7 % 251) as u8).collect()
}
