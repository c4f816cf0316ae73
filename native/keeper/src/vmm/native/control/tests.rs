//! Messages of a VMM, and a VMM that a test scripts.

use std::io::{IoSliceMut, Read};
use std::mem::MaybeUninit;
use std::time::Duration;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Interest};

use super::*;
use crate::vmm::end::EndKind;
use crate::vmm::lines::MAX_LINE_BYTES;

fn hear(lines: &[&str]) -> Result<Vec<Heard>, String> {
    let mut conversation = Conversation::default();
    conversation.asked.extend([Request::Pause, Request::Resume]);
    lines
        .iter()
        .map(|line| conversation.hear(line.as_bytes()))
        .collect::<Result<_, _>>()
        .map_err(|violation| violation.to_string())
}

const STARTED: &str = r#"{"event":"started"}"#;
const NO_ROOM: &str = r#"{"event":"noRoom","serial":"voidbox-scratch"}"#;
const PAUSED: &str = r#"{"event":"paused"}"#;
const RESUMED: &str = r#"{"event":"resumed"}"#;
const RESET: &str = r#"{"event":"ended","reason":{"kind":"reset"}}"#;

#[test]
fn each_message_has_its_meaning() {
    let heard = hear(&[STARTED, NO_ROOM, PAUSED, RESUMED, RESET]).unwrap();
    assert_eq!(
        heard[..4],
        [
            Heard::Started,
            Heard::Said(Said::NoRoom),
            Heard::Done(Request::Pause),
            Heard::Said(Said::Resumed),
        ]
    );
    assert!(matches!(&heard[4], Heard::Ended(end) if end.kind == EndKind::Reset));
    let refused = hear(&[STARTED, r#"{"event":"refused","why":"not\u001b yet"}"#]).unwrap();
    assert_eq!(refused[1], Heard::Said(Said::Refused("not yet".into())));
}

#[test]
fn a_message_that_this_vmm_never_sends_is_a_violation() {
    let statistics = r#"{"event":"statistics","vm":{},"vcpus":[]}"#;
    let nested = format!(r#"{{"event":"statistics","vm":{}"#, "[".repeat(60_000));
    for lines in [
        &["" as &str][..],
        &["x"],
        &["[]"],
        &["null"],
        &["{}"],
        &[r#"{"event":"hello"}"#],
        &[r#"{"event":"started","more":1}"#],
        &[r#"{"event":"ended"}"#],
        &[r#"{"event":"ended","reason":{"kind":"won"}}"#],
        &[r#"{"event":"ended","reason":{"kind":"reset","rip":"here"}}"#],
        &[NO_ROOM],
        &[PAUSED],
        &[STARTED, STARTED],
        &[STARTED, RESUMED],
        &[STARTED, PAUSED, PAUSED],
        &[STARTED, PAUSED, RESUMED, RESUMED],
        &[STARTED, statistics],
        &[STARTED, r#"{"event":"noRoom"}"#],
        &[STARTED, r#"{"event":"noRoom","serial":7}"#],
        &[STARTED, &nested],
    ] {
        assert!(hear(lines).is_err(), "{lines:?}");
    }
    let unasked = r#"{"event":"refused","why":"x"}"#;
    assert!(hear(&[STARTED, unasked, unasked, unasked]).is_err());
}

/// The VMM's end of the control: the test reads the keeper's lines, and writes those of the VMM.
struct Script(BufReader<UnixStream>);

impl Script {
    async fn next(&mut self) -> String {
        let mut line = String::new();
        self.0.read_line(&mut line).await.unwrap();
        line.trim_end().to_owned()
    }

    /// Returns the next line and the contents of the files that came with it.
    async fn next_with_files(&mut self) -> (String, Vec<String>) {
        let socket = self.0.get_ref();
        let mut bytes = [0; 100];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(4))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = socket.async_io(Interest::READABLE, || {
            let mut parts = [IoSliceMut::new(&mut bytes)];
            Ok(recvmsg(
                socket,
                &mut parts,
                &mut control,
                RecvFlags::empty(),
            )?)
        });
        let count = received.await.unwrap().bytes;
        let line = String::from_utf8(bytes[..count].to_vec()).unwrap();
        let mut texts = Vec::new();
        for message in control.drain() {
            let RecvAncillaryMessage::ScmRights(files) = message else {
                continue;
            };
            for file in files {
                let mut text = String::new();
                std::fs::File::from(file).read_to_string(&mut text).unwrap();
                texts.push(text);
            }
        }
        (line.trim_end().to_owned(), texts)
    }

    async fn say(&mut self, line: &str) {
        self.0
            .write_all(format!("{line}\n").as_bytes())
            .await
            .unwrap();
    }
}

fn with_script(test: impl AsyncFnOnce(Script, NativeControl, LastWords)) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let local = tokio::task::LocalSet::new();
    runtime.block_on(local.run_until(async {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (control, last_words) = begin(ours, "{\"version\":1}").await;
        let mut script = Script(BufReader::new(theirs));
        assert_eq!(script.next().await, "{\"version\":1}");
        let limit = Duration::from_secs(20);
        let done = timeout(limit, test(script, control, last_words)).await;
        done.expect("the conversation ends in time");
    }));
}

#[test]
fn a_request_without_an_answer_is_not_repeated() {
    with_script(async |mut vmm, mut control, _| {
        vmm.say(STARTED).await;
        control.started().await.unwrap();
        for _ in 0..1_000 {
            control.resume().await;
        }
        control.pause().await;
        assert_eq!(vmm.next().await, r#"{"do":"resume"}"#);
        assert_eq!(vmm.next().await, r#"{"do":"pause"}"#);
        vmm.say(r#"{"event":"refused","why":"full"}"#).await;
        assert_eq!(control.said().await.unwrap(), Said::Refused("full".into()));
        control.resume().await;
        assert_eq!(vmm.next().await, r#"{"do":"resume"}"#);
    });
}

#[test]
fn the_reason_of_the_end_is_read_also_if_the_keeper_no_longer_listens() {
    with_script(async |mut vmm, control, last_words| {
        drop(control);
        vmm.say(STARTED).await;
        for _ in 0..2 * MAX_WAITING {
            vmm.say(NO_ROOM).await;
        }
        assert_eq!(last_words.end(), None);
        vmm.say(RESET).await;
        last_words.read().await;
        assert_eq!(last_words.end().unwrap().kind, EndKind::Reset);
    });
}

#[test]
fn a_flood_of_messages_waits_in_the_vmm() {
    with_script(async |vmm, mut control, _| {
        let mut vmm = vmm.0.into_inner();
        vmm.write_all(format!("{STARTED}\n").as_bytes())
            .await
            .unwrap();
        let flood = format!("{NO_ROOM}\n").repeat(100_000);
        let limit = Duration::from_millis(300);
        let sent = timeout(limit, vmm.write_all(flood.as_bytes())).await;
        assert!(sent.is_err(), "the keeper has taken 4 MiB");
        control.started().await.unwrap();
        assert_eq!(control.said().await.unwrap(), Said::NoRoom);
    });
}

#[test]
fn a_line_without_an_end_is_a_violation() {
    with_script(async |vmm, mut control, last_words| {
        let mut vmm = vmm.0.into_inner();
        let long = vec![b' '; MAX_LINE_BYTES + 1];
        vmm.write_all(&long).await.unwrap();
        let violation = control.started().await.unwrap_err();
        assert!(violation.to_string().contains("65536"), "{violation}");
        last_words.read().await;
        assert_eq!(last_words.end(), None);
    });
}

/// A full save with files whose contents name them.
fn full_save(pages: SavedPages) -> FullSave {
    let file = |text: &str| {
        let mut file = tempfile::tempfile().unwrap();
        std::io::Write::write_all(&mut file, text.as_bytes()).unwrap();
        std::io::Seek::rewind(&mut file).unwrap();
        file
    };
    FullSave {
        state: file("state"),
        memory: file("memory"),
        pages,
    }
}

#[test]
fn a_full_save_pauses_the_vm_and_sends_its_two_files() {
    with_script(async |mut vmm, mut control, _| {
        vmm.say(STARTED).await;
        control.started().await.unwrap();
        let id = "0123456789abcdef0123456789abcdef";
        for (pages, line) in [
            (SavedPages::All, r#"{"do":"saveFull"}"#),
            (SavedPages::Changed, r#"{"do":"saveDiff"}"#),
        ] {
            let save = full_save(pages);
            let answers = async {
                assert_eq!(vmm.next().await, r#"{"do":"pause"}"#);
                vmm.say(PAUSED).await;
                let (got, files) = vmm.next_with_files().await;
                assert_eq!(
                    (got.as_str(), &files[..]),
                    (line, &["state".into(), "memory".into()][..])
                );
                vmm.say(&format!(r#"{{"event":"saved","id":"{id}"}}"#))
                    .await;
            };
            let (saved, ()) = tokio::join!(control.save_full(&save), answers);
            assert_eq!(saved.unwrap(), id);
        }
    });
}

#[test]
fn a_full_save_that_is_refused_says_why() {
    with_script(async |mut vmm, mut control, _| {
        vmm.say(STARTED).await;
        control.started().await.unwrap();
        let save = full_save(SavedPages::All);
        let answers = async {
            vmm.next().await;
            vmm.say(PAUSED).await;
            vmm.next_with_files().await;
            vmm.say(r#"{"event":"refused","why":"no space"}"#).await;
        };
        let (saved, ()) = tokio::join!(control.save_full(&save), answers);
        assert_eq!(saved.unwrap_err(), "no space");
    });
}

#[test]
fn a_state_without_a_proper_id_is_a_violation() {
    for answer in [
        r#"{"event":"saved"}"#,
        r#"{"event":"saved","id":""}"#,
        r#"{"event":"saved","id":"0123456789ABCDEF0123456789ABCDEF"}"#,
        r#"{"event":"saved","id":"../3456789abcdef0123456789abcdef0"}"#,
    ] {
        let mut conversation = Conversation::default();
        conversation.hear(STARTED.as_bytes()).unwrap();
        conversation.asked.push_back(Request::SaveFull);
        assert!(conversation.hear(answer.as_bytes()).is_err(), "{answer}");
    }
    let unasked = r#"{"event":"saved","id":"0123456789abcdef0123456789abcdef"}"#;
    assert!(hear(&[STARTED, unasked]).is_err());
}

#[test]
fn a_vmm_that_ends_without_a_reason_has_ended_all_the_same() {
    with_script(async |mut vmm, mut control, last_words| {
        vmm.say(STARTED).await;
        control.started().await.unwrap();
        drop(vmm);
        assert_eq!(control.said().await.unwrap(), Said::Ended);
        last_words.read().await;
        assert_eq!(last_words.end(), None);
    });
}
