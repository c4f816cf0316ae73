/** Messages of sessions. Each caller has sessions of its own. */
import type { SessionMessage, SessionMessages, SessionName } from '../../store/session-messages.ts';
import type { Caller } from '../access/authenticate.ts';
import type { Machine } from '../machine.ts';

export interface MessageTools {
  readonly messages: SessionMessages;
  readonly machine: Pick<Machine, 'now'>;
}

export interface SessionRef {
  readonly id: string;
  readonly caller: Caller;
}

export async function readMessages(
  session: SessionRef,
  { messages }: MessageTools,
): Promise<readonly SessionMessage[]> {
  return await messages.read(toName(session));
}

/** @throws CodedError `api/messages-full` */
export async function appendMessage(
  session: SessionRef,
  { role, content }: Pick<SessionMessage, 'role' | 'content'>,
  { messages, machine }: MessageTools,
): Promise<SessionMessage> {
  const message = { ts_ms: machine.now().getTime(), role, content };
  await messages.append(toName(session), message);
  return message;
}

function toName({ id, caller }: SessionRef): SessionName {
  return { owner: caller.kind === 'owner' ? 'owner' : `token ${caller.token.name}`, id };
}
