/** `start --session new` and `cleanup --session`. */
import { randomBytes } from 'node:crypto';
import { createSession, startSession } from '../drive/drive.ts';
import { claimNext } from './claims.ts';
import { handshakeOf, outputModeOf } from './flags.ts';
import { UsageError } from './io.ts';
import { basePath, checkSessionId, removeSession, sessionFolder } from './session-folder.ts';
import type { SessionPointer } from './session-lines.ts';
import { createLog, headerLine, resultLine } from './session-log.ts';
import { readStored, type StoredContent, type StoredSession, writeStored } from './session-state.ts';
import { codeHashOf, failureOf, followsRedirects, createWarn, type Outcome, type SkillCall } from './skill-call.ts';

/** The file's line that holds the first prompt. */
const FIRST_RESULT_LINE = 2;
/** The time limit for a process that is still working on the session; cleanup does not remove a session in use. */
const CLEANUP_LIMIT_MS = 5_000;

/** @throws {Error} */
export async function startStored({ definition, flags, inputs, io, refs, subskill }: SkillCall): Promise<Outcome> {
  if (flags.text.session !== 'new')
    throw new UsageError(
      `start takes --session new, which makes an id; "${flags.text.session}" is for advance and cleanup.`,
    );
  const outputMode = outputModeOf(flags);
  const folder = sessionFolder(flags.text['session-dir'], true)!;
  const sessionId = randomBytes(16).toString('hex');
  const [params, handshake, codeHash] = [await inputs.json('params'), handshakeOf(flags), codeHashOf(io)];
  const session = createSession(definition, {
    params,
    session: sessionId,
    handshake,
    refs,
    followRedirects: followsRedirects(definition),
    throws: false,
    warn: createWarn(io),
    ...(codeHash === null ? {} : { codeHash }),
    ...(subskill === undefined ? {} : { subskill }),
  });
  const result = await startSession(session);
  await session.idle();
  const failure = failureOf(result);
  // No client knows this session yet, so a client that wants it starts it again.
  if (failure !== null) return { stdout: '', failure };
  const createdAt = new Date(session.state.startedAtMs).toISOString();
  const header = headerLine({
    sessionId,
    skill: definition.name,
    handshake,
    params: params ?? {},
    createdAt,
    outputMode,
  });
  const reply = { line: resultLine(result), failure };
  const base = basePath(folder, sessionId);
  const first: StoredContent = {
    number: 1,
    claim: 0,
    state: session.state,
    handshake,
    outputMode,
    place: { offset: Buffer.byteLength(header), lines: 1 },
    answered: null,
    reply,
    mayRetry: false,
    underWay: null,
  };
  try {
    writeStored(base, first, 0);
    createLog(`${base}.jsonl`, [header, reply.line]);
  } catch (cause) {
    removeSession(folder, sessionId);
    throw cause;
  }
  const pointer: SessionPointer = { sessionId, file: `${base}.jsonl`, line: FIRST_RESULT_LINE };
  return { stdout: `${JSON.stringify(pointer)}\n`, failure };
}

/**
 * Removes a session and all its files; a missing session counts as removed. @throws {Error} while another process
 * advances it
 */
export async function cleanupStored({ flags }: SkillCall): Promise<Outcome> {
  const id = flags.text.session;
  if (id === undefined) throw new Error('--session is required for cleanup');
  checkSessionId(id);
  const folder = sessionFolder(flags.text['session-dir'], false);
  if (folder === null) return { stdout: '', failure: null };
  const base = basePath(folder, id);
  if (readable(base) !== null) await claimNext(base, () => readable(base) ?? GONE, CLEANUP_LIMIT_MS);
  removeSession(folder, id);
  return { stdout: '', failure: null };
}

const GONE = { number: 0, claim: 0 };

/** A state that cannot be understood is removed like any other. */
function readable(base: string): StoredSession | null {
  try {
    return readStored(base);
  } catch {
    return null;
  }
}
