//! A TCP proxy before ZooKeeper that can cut, refuse and swallow.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// The proxy; it ends with the test's runtime.
#[derive(Clone)]
pub struct Proxy {
    address: String,
    state: Arc<State>,
}

struct State {
    /// Rises with each cut: connections of an older number end.
    cuts: watch::Sender<u64>,
    refuses: AtomicBool,
    swallows_next_answer: AtomicBool,
    swallowed: AtomicU64,
    largest_request: AtomicU64,
}

impl Proxy {
    /// A proxy before `server`, on the same loopback address.
    pub async fn before(server: &str) -> Proxy {
        let (host, _) = server.rsplit_once(':').unwrap();
        let listener = TcpListener::bind((host, 0)).await.unwrap();
        let proxy = Proxy {
            address: listener.local_addr().unwrap().to_string(),
            state: Arc::new(State {
                cuts: watch::channel(0).0,
                refuses: AtomicBool::new(false),
                swallows_next_answer: AtomicBool::new(false),
                swallowed: AtomicU64::new(0),
                largest_request: AtomicU64::new(u64::MAX),
            }),
        };
        let state = Arc::clone(&proxy.state);
        let server = server.to_owned();
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                if !state.refuses.load(Ordering::SeqCst) {
                    tokio::spawn(serve(client, server.clone(), Arc::clone(&state)));
                }
            }
        });
        proxy
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Cuts all connections.
    pub fn cut(&self) {
        self.state.cuts.send_modify(|cuts| *cuts += 1);
    }

    /// Cuts all connections and takes no new ones.
    pub fn go_down(&self) {
        self.state.refuses.store(true, Ordering::SeqCst);
        self.cut();
    }

    /// Takes connections again.
    pub fn come_up(&self) {
        self.state.refuses.store(false, Ordering::SeqCst);
    }

    /// The next bytes from the server are dropped and the connection cut: what they answered was performed.
    pub fn swallow_next_answer(&self) {
        self.state
            .swallows_next_answer
            .store(true, Ordering::SeqCst);
    }

    /// Cuts the connection over a request of more bytes, as a server with a small `jute.maxbuffer` does.
    pub fn refuse_requests_above(&self, bytes: u64) {
        self.state.largest_request.store(bytes, Ordering::SeqCst);
    }

    /// How many answers were swallowed.
    pub fn swallowed(&self) -> u64 {
        self.state.swallowed.load(Ordering::SeqCst)
    }
}

async fn serve(mut client: TcpStream, server: String, state: Arc<State>) {
    let mut cuts = state.cuts.subscribe();
    let Ok(mut server) = TcpStream::connect(&server).await else {
        return;
    };
    client.set_nodelay(true).unwrap();
    server.set_nodelay(true).unwrap();
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let upstream = async {
        let mut buffer = vec![0; 64 * 1024];
        let mut frames = Frames::default();
        loop {
            match from_client.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(bytes) => {
                    if frames.largest_in(&buffer[..bytes])
                        > state.largest_request.load(Ordering::SeqCst)
                    {
                        return;
                    }
                    to_server.write_all(&buffer[..bytes]).await.ok()
                }
            };
        }
    };
    let downstream = async {
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match from_server.read(&mut buffer).await {
                Ok(0) | Err(_) => return,
                Ok(_) if state.swallows_next_answer.swap(false, Ordering::SeqCst) => {
                    state.swallowed.fetch_add(1, Ordering::SeqCst);
                    return;
                }
                Ok(bytes) => to_client.write_all(&buffer[..bytes]).await.ok(),
            };
        }
    };
    tokio::select! {
        () = upstream => {}
        () = downstream => {}
        _ = cuts.changed() => {}
    }
}

/// Finds the lengths that requests begin with in what flows by.
#[derive(Default)]
struct Frames {
    prefix: Vec<u8>,
    left_of_frame: usize,
}

impl Frames {
    fn largest_in(&mut self, mut bytes: &[u8]) -> u64 {
        let mut largest = 0;
        while !bytes.is_empty() {
            if self.left_of_frame > 0 {
                let skipped = self.left_of_frame.min(bytes.len());
                self.left_of_frame -= skipped;
                bytes = &bytes[skipped..];
                continue;
            }
            self.prefix.push(bytes[0]);
            bytes = &bytes[1..];
            if let Ok(length) = <[u8; 4]>::try_from(self.prefix.as_slice()) {
                self.left_of_frame = u32::from_be_bytes(length) as usize;
                largest = largest.max(self.left_of_frame as u64);
                self.prefix.clear();
            }
        }
        largest
    }
}
