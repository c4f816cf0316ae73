/**
 * Messages of sessions in a folder of the state folder. One file for each session; its name is a hash, so an id of a
 * session is any text and never a path.
 */
import { createHash } from 'node:crypto';
import { mkdir, open, readdir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { CodedError } from '../../domain/errors/coded-error.ts';
import { errnoOf } from '../../files/errno.ts';
import {
  MESSAGE_LIMITS,
  type MessageLimits,
  type SessionMessage,
  type SessionMessages,
  type SessionName,
} from '../session-messages.ts';
import { keepStateFormat } from '../state-format.ts';

const NEWLINE = 0x0a;

/** One process opens them: it appends one message at a time. */
export function createFileMessages(
  { stateDir }: { readonly stateDir: string },
  limits: MessageLimits = MESSAGE_LIMITS,
): SessionMessages {
  const folder = join(stateDir, 'messages');
  let last: Promise<void> = Promise.resolve();
  const findPath = ({ owner, id }: SessionName): string => {
    const name = createHash('sha256')
      .update(JSON.stringify([owner, id]))
      .digest('hex');
    return join(folder, `${name}.jsonl`);
  };
  const appendNow = async (session: SessionName, message: SessionMessage): Promise<void> => {
    keepStateFormat(stateDir);
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const path = findPath(session);
    const before = cutPartialLine(await readBytes(path));
    const line = Buffer.from(`${JSON.stringify(message)}\n`);
    if (before.byteLength + line.byteLength > limits.sessionBytes)
      throw createFullError(`the session has ${before.byteLength} bytes, at most ${limits.sessionBytes} are kept`);
    if (before.byteLength === 0 && (await listFiles(folder)).length >= limits.sessions)
      throw createFullError(`there are ${limits.sessions} sessions, and no more are kept`);
    const file = await open(path, before.byteLength === 0 ? 'w' : 'r+', 0o600);
    try {
      // The last line of a killed process is cut off.
      await file.truncate(before.byteLength);
      await file.write(line, 0, line.byteLength, before.byteLength);
      await file.sync();
    } finally {
      await file.close();
    }
  };
  return {
    append(session, message) {
      const added = last.then(() => appendNow(session, message));
      last = added.catch(() => undefined);
      return added;
    },
    async read(session) {
      const text = cutPartialLine(await readBytes(findPath(session))).toString('utf8');
      return text
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as SessionMessage);
    },
    async sweep(nowMs) {
      for (const name of await listFiles(folder)) {
        const path = join(folder, name);
        const facts = await stat(path).catch(() => null);
        if (facts !== null && nowMs - facts.mtimeMs > limits.keptMs) await rm(path, { force: true });
      }
    },
  };
}

function cutPartialLine(bytes: Buffer): Buffer {
  return bytes.subarray(0, bytes.lastIndexOf(NEWLINE) + 1);
}

async function readBytes(path: string): Promise<Buffer> {
  try {
    return await readFile(path);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return Buffer.alloc(0);
    throw error;
  }
}

async function listFiles(folder: string): Promise<readonly string[]> {
  try {
    return (await readdir(folder)).filter((name) => name.endsWith('.jsonl'));
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return [];
    throw error;
  }
}

function createFullError(message: string): CodedError {
  return new CodedError('api/messages-full', message);
}
