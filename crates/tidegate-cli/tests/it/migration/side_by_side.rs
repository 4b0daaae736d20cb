//! nginx and the proxy of Tidegate, each before the same service, under the same requests.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use super::workshop::Workshop;

/// How long a download takes, as in the trial of the page.
const DOWNLOAD: Duration = Duration::from_secs(1);

/// After this long without an answer a test fails rather than hangs.
const PATIENCE: Duration = Duration::from_secs(20);

/// A service that answers at once, but takes its time for a download. It ends with the process.
pub(super) fn service() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || while answer(&stream).is_some() {});
        }
    });
    address
}

fn answer(mut stream: &TcpStream) -> Option<()> {
    // A second request never comes before the first is answered.
    let mut lines = BufReader::new(stream).lines();
    let first = lines.next()?.ok()?;
    lines.map_while(Result::ok).find(String::is_empty)?;
    if first.contains(" /download/") {
        // Sleeps: a download takes as long as in the trial of the page, whose times are compared.
        std::thread::sleep(DOWNLOAD);
    }
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\nhello\n").ok()
}

/// nginx with these directives in its `http` block, in which `app` is the service.
pub(super) fn nginx(program: &Path, http: &str) -> Workshop {
    let mut workshop = Workshop::new(&[8000]);
    workshop.set_address(3000, &service());
    start_nginx(program, &mut workshop, &format!("upstream app {{ server 127.0.0.1:3000; }}\n{http}"));
    workshop
}

/// Starts nginx with these directives in its `http` block.
pub(super) fn start_nginx(program: &Path, workshop: &mut Workshop, http: &str) {
    workshop.write(
        "nginx.conf",
        &format!(
            "pid nginx.pid; worker_processes 1; error_log logs/error.log notice;\n\
             events {{ }}\n\
             http {{ access_log off; client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path f;\n\
             uwsgi_temp_path u; scgi_temp_path s;\n{http}\n}}\n"
        ),
    );
    workshop.write("logs/error.log", "");
    let mut command = Command::new(program);
    command.args(["-p", ".", "-c", "nginx.conf", "-e", "logs/error.log", "-g", "daemon off;"]);
    workshop.start_gateway(&mut command);
}

/// The proxy of Tidegate with this policy, before the service.
pub(super) fn proxy(policy: &str) -> Workshop {
    let mut workshop = Workshop::new(&[8080, 8000]);
    workshop.set_address(3000, &service());
    workshop.write("proxy.yaml", policy);
    workshop.serve("proxy.yaml");
    workshop
}

/// The answers to requests that were sent at once.
#[derive(Debug)]
pub(super) struct Answers {
    pub(super) statuses: Vec<u16>,
    /// Until the last of them.
    pub(super) took: Duration,
}

impl Answers {
    pub(super) fn admitted(&self) -> usize {
        self.count(200)
    }

    pub(super) fn count(&self, status: u16) -> usize {
        self.statuses.iter().filter(|one| **one == status).count()
    }
}

/// Sends so many requests at once to port 8000 of the page, over connections that are open already.
pub(super) fn at_once(workshop: &Workshop, count: usize, path: &str, header: &str) -> Answers {
    let address = workshop.address(8000);
    let mut streams: Vec<TcpStream> = (0..count).map(|_| TcpStream::connect(address).unwrap()).collect();
    let end = if header.is_empty() { "" } else { "\r\n" };
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n{header}{end}\r\n");
    let began = Instant::now();
    for stream in &mut streams {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
    }
    let statuses = streams
        .into_iter()
        .map(|stream| {
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).unwrap();
            line.get(9..12)
                .and_then(|status| status.parse().ok())
                .unwrap_or_else(|| panic!("no status: {line:?}"))
        })
        .collect();
    Answers { statuses, took: began.elapsed() }
}
