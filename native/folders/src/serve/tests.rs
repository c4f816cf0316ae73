//! A guest's requests, good and hostile, to a server of a real folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::thread::JoinHandle;

use super::*;

/// A client that writes messages byte by byte.
struct Guest {
    socket: UnixStream,
    server: Option<JoinHandle<io::Result<()>>>,
    folder: tempfile::TempDir,
}

/// The number of an attached root.
const ROOT: u32 = 0;

impl Guest {
    /// Connects to a server of `shared` in a folder with a secret beside it.
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let shared = folder.path().join("shared");
        fs::create_dir_all(shared.join("inner")).unwrap();
        fs::write(folder.path().join("secret"), "secret").unwrap();
        fs::write(shared.join("inner/file"), "content").unwrap();
        symlink("../secret", shared.join("link")).unwrap();
        let (socket, theirs) = UnixStream::pair().unwrap();
        let server = std::thread::spawn(move || serve(theirs, &shared));
        let mut guest = Self {
            socket,
            server: Some(server),
            folder,
        };
        let version = guest.request(
            100,
            &[&262_168u32.to_le_bytes()[..], &text("9P2000.L")].concat(),
        );
        assert_eq!(version.0, 101);
        let attach = [
            &ROOT.to_le_bytes()[..],
            &u32::MAX.to_le_bytes(),
            &text(""),
            &text(""),
            &0u32.to_le_bytes(),
        ];
        assert_eq!(guest.request(104, &attach.concat()).0, 105);
        guest
    }

    fn send(&mut self, kind: u8, body: &[u8]) {
        let length = u32::try_from(HEADER_BYTES + body.len()).unwrap();
        let message = [&length.to_le_bytes()[..], &[kind, 1, 0], body].concat();
        self.socket.write_all(&message).unwrap();
    }

    /// Returns the type and the body of the answer.
    fn request(&mut self, kind: u8, body: &[u8]) -> (u8, Vec<u8>) {
        self.send(kind, body);
        let mut answer = Vec::new();
        assert!(read_message(&mut self.socket, &mut answer).unwrap());
        assert_eq!(answer[5..7], [1, 0]);
        (answer[4], answer[HEADER_BYTES..].to_vec())
    }

    fn walk(&mut self, to: u32, names: &[&str]) -> (u8, Vec<u8>) {
        let mut body = [ROOT.to_le_bytes(), to.to_le_bytes()].concat();
        body.extend(u16::try_from(names.len()).unwrap().to_le_bytes());
        for name in names {
            body.extend(text(name));
        }
        self.request(110, &body)
    }

    fn open(&mut self, fid: u32, flags: u32) -> (u8, Vec<u8>) {
        self.request(12, &[fid.to_le_bytes(), flags.to_le_bytes()].concat())
    }

    fn read(&mut self, fid: u32, count: u32) -> (u8, Vec<u8>) {
        let body = [
            &fid.to_le_bytes()[..],
            &0u64.to_le_bytes(),
            &count.to_le_bytes(),
        ];
        self.request(116, &body.concat())
    }

    /// Returns how the server ended after its guest has left.
    fn end(mut self) -> io::Result<()> {
        self.socket.shutdown(std::net::Shutdown::Write).unwrap();
        self.server.take().unwrap().join().unwrap()
    }
}

/// A string of 9p.
fn text(text: &str) -> Vec<u8> {
    let length = u16::try_from(text.len()).unwrap();
    [&length.to_le_bytes()[..], text.as_bytes()].concat()
}

fn error(number: i32) -> (u8, Vec<u8>) {
    (ERROR, number.to_le_bytes().to_vec())
}

#[test]
fn a_file_is_read_through_its_folders() {
    let mut guest = Guest::new();
    assert_eq!(guest.walk(1, &["inner", "file"]).0, 111);
    assert_eq!(guest.open(1, 0).0, 13);
    // A count of 4 GiB costs no more than a message.
    let (kind, body) = guest.read(1, u32::MAX);
    assert_eq!((kind, &body[4..]), (117, &b"content"[..]));
    guest.end().unwrap();
}

#[test]
fn a_folder_and_its_attributes_are_read() {
    let mut guest = Guest::new();
    assert_eq!(guest.walk(1, &[]).0, 111, "a second number");
    assert_eq!(guest.open(1, 0o200000).0, 13);
    let list = [
        &1u32.to_le_bytes()[..],
        &0u64.to_le_bytes(),
        &4096u32.to_le_bytes(),
    ]
    .concat();
    let (kind, body) = guest.request(40, &list);
    assert_eq!(kind, 41);
    for name in ["inner", "link"] {
        let bytes = name.as_bytes();
        assert!(
            body.windows(bytes.len()).any(|part| part == bytes),
            "{name}"
        );
    }
    let attributes = [&1u32.to_le_bytes()[..], &0x7ffu64.to_le_bytes()].concat();
    assert_eq!(guest.request(24, &attributes).0, 25);
    assert_eq!(
        guest.request(8, &1u32.to_le_bytes()).0,
        9,
        "the file system"
    );
    let sync = [1u32.to_le_bytes(), 0u32.to_le_bytes()].concat();
    assert_eq!(guest.request(50, &sync).0, 51);
    assert_eq!(guest.walk(2, &["link"]).0, 111);
    let (kind, target) = guest.request(22, &2u32.to_le_bytes());
    assert_eq!((kind, target), (23, text("../secret")));
    assert_eq!(guest.request(120, &1u32.to_le_bytes()).0, 121);
    guest.end().unwrap();
}

#[test]
fn no_name_leads_out_of_the_folder() {
    let mut guest = Guest::new();
    for names in [
        &["..", "secret"][..],
        &["inner", "..", "..", "secret"],
        &["../secret"],
        &["/proc/self/mem"],
        &["."],
        &[""],
    ] {
        assert_eq!(guest.walk(2, names), error(libc::EINVAL), "{names:?}");
    }
    assert_eq!(guest.walk(2, &["inner"; 17]), error(libc::EINVAL));
    // A link is the guest's to follow, and it is no folder here.
    assert_eq!(guest.walk(2, &["link"]).0, 111);
    assert_eq!(guest.open(2, 0), error(libc::ELOOP));
    assert_eq!(guest.walk(3, &["link", "x"]).1.len(), 2 + 13, "one step");
    guest.end().unwrap();
}

#[test]
fn nothing_is_written() {
    let mut guest = Guest::new();
    assert_eq!(guest.walk(1, &["inner", "file"]).0, 111);
    for flags in [1, 2, 3, 0o100, 0o1000, 0o2000] {
        assert_eq!(guest.open(1, flags), error(libc::EROFS), "{flags:o}");
    }
    // Every request that could change something: creating, renaming, removing, attributes, links, locks, writing.
    for kind in [
        14, 16, 18, 20, 26, 32, 52, 54, 70, 72, 74, 76, 118, 122, 126, 0, 255,
    ] {
        assert_eq!(guest.request(kind, &[0; 64]), error(libc::EROFS), "{kind}");
    }
    let file = guest.folder.path().join("shared/inner/file");
    assert_eq!(fs::read(file).unwrap(), b"content");
    guest.end().unwrap();
}

#[test]
fn a_pipe_of_the_host_does_not_stop_the_server() {
    let mut guest = Guest::new();
    let pipe = guest.folder.path().join("shared/pipe");
    let path = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
    // SAFETY: the path is a string with its end.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o644) }, 0);
    assert_eq!(guest.walk(1, &["pipe"]).0, 111);
    assert_eq!(guest.open(1, 0).0, 13);
    assert_eq!(guest.walk(2, &["inner", "file"]).0, 111);
    guest.end().unwrap();
}

#[test]
fn a_message_that_the_server_cannot_read_is_an_error_and_one_without_a_length_the_end() {
    let mut guest = Guest::new();
    for (kind, body) in [
        (110, &b""[..]),
        (110, &[0; 9]),
        (110, &[0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 255, 255, b'a']),
        (12, &[0; 3]),
        (116, &[0; 5]),
    ] {
        assert_eq!(guest.request(kind, body), error(libc::EINVAL), "{kind}");
    }
    assert_eq!(guest.walk(1, &["inner"]).0, 111, "the server continues");
    for length in [0u32, 6, u32::try_from(MESSAGE_BYTES).unwrap() + 1, u32::MAX] {
        let mut guest = Guest::new();
        guest.socket.write_all(&length.to_le_bytes()).unwrap();
        let error = guest.end().unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{length}");
    }
}
