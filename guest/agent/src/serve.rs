//! Selects the code that serves each request.

use std::sync::Arc;

use voidbox_protocol::body::Empty;
use voidbox_protocol::message::Message;

use crate::clock::clock;
use crate::configure::configure;
use crate::disk_freeze;
use crate::exec;
use crate::failure::Failure;
use crate::files;
use crate::guest::Guest;
use crate::request::Request;
use crate::stats::stats;

/// Returns true for messages that open a request.
pub fn is_request(message: &Message) -> bool {
    matches!(
        message,
        Message::ExecRequest(_)
            | Message::ExecFreeze(_)
            | Message::DiskFreeze(_)
            | Message::WriteFile(_)
            | Message::MkdirP(_)
            | Message::ReadFile(_)
            | Message::FileStat(_)
            | Message::TarPut(_)
            | Message::TarGet(_)
            | Message::Stats(_)
            | Message::Clock(_)
            | Message::Configure(_)
    )
}

/// Serves one request on its own thread. Returns its last message, if it was not sent yet.
pub fn serve(
    guest: &Guest,
    request: &Arc<Request>,
    message: &Message,
) -> Result<Option<Message>, Failure> {
    if let Message::Configure(wanted) = message {
        configure(guest, wanted)?;
        return Ok(Some(Message::Configured(Empty {})));
    }
    if !guest.is_configured() {
        return Err(Failure::bad_request(
            "the guest is not configured yet: send Configure first",
        ));
    }
    match message {
        Message::ExecRequest(exec) => {
            let response = exec::run(guest, request, exec)?;
            Ok(Some(Message::ExecResponse(response)))
        }
        Message::ExecFreeze(wanted) => exec::freeze(guest, request, wanted).map(|()| None),
        Message::DiskFreeze(wanted) => disk_freeze::freeze(guest, request, wanted).map(|()| None),
        Message::Stats(_) => Ok(Some(Message::StatsResponse(stats(guest)))),
        Message::Clock(wanted) => Ok(Some(Message::ClockResponse(clock(guest, *wanted)?))),
        _ => serve_file(guest, request, message),
    }
}

fn serve_file(
    guest: &Guest,
    request: &Arc<Request>,
    message: &Message,
) -> Result<Option<Message>, Failure> {
    match message {
        Message::WriteFile(target) => {
            let parent = target
                .path
                .rsplit_once('/')
                .map_or("", |(parent, _)| parent);
            if !parent.is_empty() {
                files::make_for_user(guest, parent)?;
            }
        }
        Message::MkdirP(target) | Message::TarPut(target) => {
            files::make_for_user(guest, &target.path)?;
        }
        _ => {}
    }
    let owner = guest.file_owner();
    files::become_file_user(owner)?;
    let reader = files::Reader::new(owner);
    Ok(Some(match message {
        Message::WriteFile(target) => {
            files::write_file(request, target)?;
            Message::WriteFileResponse(Empty {})
        }
        Message::MkdirP(target) => {
            files::mkdir_p(&target.path)?;
            Message::MkdirPResponse(Empty {})
        }
        Message::FileStat(target) => Message::FileStatResponse(files::file_stat(&target.path)?),
        Message::TarPut(target) => Message::TarPutResponse(files::tar_put(request, &target.path)?),
        Message::ReadFile(target) => {
            files::read_file(request, &target.path, reader)?;
            return Ok(None);
        }
        Message::TarGet(target) => {
            files::tar_get(request, &target.path, reader)?;
            return Ok(None);
        }
        other => {
            return Err(Failure::bad_request(format!(
                "{:?} is not a request",
                other.frame_type()
            )));
        }
    }))
}
