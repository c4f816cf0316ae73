//! Moves bytes between a tunnel and its connection, in both directions at once, until one side ends it.

use std::cell::Cell;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::{Instant, sleep_until};

use super::limits::Usage;
use super::tunnel::{GivenUp, Tunnel};

/// A sender waits until this part of the window is free, so that pieces are large. A guest grants more before it has
/// used that much.
const LEAST_ROOM: usize = 2;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Both sides have ended their bytes.
    Clean,
    /// One of the sides broke.
    Reset,
    Idle,
    /// The VM has used up the bytes of all its connections.
    Limit,
}

impl How {
    pub fn as_str(self) -> &'static str {
        match self {
            How::Clean => "clean",
            How::Reset => "reset",
            How::Idle => "idle",
            How::Limit => "limit",
        }
    }
}

pub struct Ended {
    pub how: How,
    /// Bytes that the guest sent.
    pub sent_bytes: u64,
    pub received_bytes: u64,
}

struct Progress<'a> {
    usage: &'a Usage,
    sent_bytes: Cell<u64>,
    received_bytes: Cell<u64>,
    last: Cell<Instant>,
}

impl Progress<'_> {
    fn count(&self, counter: &Cell<u64>, bytes: usize) -> Result<(), How> {
        counter.set(counter.get() + bytes as u64);
        self.last.set(Instant::now());
        match self.usage.count(bytes) {
            true => Ok(()),
            false => Err(How::Limit),
        }
    }

    /// Returns once no byte has moved for too long.
    async fn idle(&self) {
        let limit = Duration::from_millis(self.usage.limits.idle_ms);
        loop {
            let due = self.last.get() + limit;
            sleep_until(due).await;
            if self.last.get() + limit <= Instant::now() {
                return;
            }
        }
    }
}

impl From<GivenUp> for How {
    fn from(_: GivenUp) -> Self {
        How::Reset
    }
}

/// Returns once the connection is over. The caller must cancel a tunnel that did not end cleanly.
pub async fn run(tunnel: &Tunnel, mut stream: TcpStream, usage: &Usage) -> Ended {
    let progress = Progress {
        usage,
        sent_bytes: Cell::new(0),
        received_bytes: Cell::new(0),
        last: Cell::new(Instant::now()),
    };
    let how = {
        let (mut reader, mut writer) = stream.split();
        let both = async {
            tokio::try_join!(
                upload(tunnel, &mut writer, &progress),
                download(tunnel, &mut reader, &progress),
            )
        };
        tokio::select! {
            both = both => both.map_or_else(|how| how, |_| How::Clean),
            () = tunnel.given_up() => How::Reset,
            () = progress.idle() => How::Idle,
        }
    };
    if how != How::Clean {
        reset_on_close(&stream);
    }
    Ended {
        how,
        sent_bytes: progress.sent_bytes.get(),
        received_bytes: progress.received_bytes.get(),
    }
}

/// Makes the close a reset: otherwise the other end would take a broken connection's bytes for the whole.
fn reset_on_close(stream: &TcpStream) {
    let linger = libc::linger {
        l_onoff: 1,
        l_linger: 0,
    };
    let size = libc::socklen_t::try_from(size_of::<libc::linger>()).unwrap_or(0);
    // SAFETY: the option's value lives across the call, and the call passes its size.
    unsafe {
        libc::setsockopt(
            std::os::fd::AsRawFd::as_raw_fd(stream),
            libc::SOL_SOCKET,
            libc::SO_LINGER,
            (&raw const linger).cast(),
            size,
        );
    }
}

async fn upload(
    tunnel: &Tunnel,
    writer: &mut WriteHalf<'_>,
    progress: &Progress<'_>,
) -> Result<(), How> {
    let mut buffer = Vec::new();
    loop {
        tunnel.receive(&mut buffer).await?;
        if buffer.is_empty() {
            return writer.shutdown().await.map_err(|_| How::Reset);
        }
        progress.count(&progress.sent_bytes, buffer.len())?;
        writer.write_all(&buffer).await.map_err(|_| How::Reset)?;
        progress.last.set(Instant::now());
        tunnel.consumed(buffer.len());
    }
}

async fn download(
    tunnel: &Tunnel,
    reader: &mut ReadHalf<'_>,
    progress: &Progress<'_>,
) -> Result<(), How> {
    let mut buffer = vec![0u8; tunnel.piece_bytes()];
    loop {
        let room = tunnel
            .room(tunnel.window_bytes() / LEAST_ROOM)
            .await?
            .min(buffer.len());
        let count = match reader.read(&mut buffer[..room]).await {
            Ok(0) => return Ok(tunnel.end().await?),
            Ok(count) => count,
            Err(_) => return Err(How::Reset),
        };
        progress.count(&progress.received_bytes, count)?;
        tunnel.send(&buffer[..count]).await?;
    }
}
