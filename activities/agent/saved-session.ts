/** Reads the session file of an agent in a tar of its session folder. */
import { createLineReader } from '../../agents/lines.ts';
import { createSessionReader } from '../../agents/session-files.ts';
import { STREAM_LIMITS } from '../../agents/stream.ts';
import type { AgentCli } from '../../domain/agent/agent-cli.ts';
import { streamTar } from '../../tar/stream.ts';

/**
 * Calls `onLine` for each line that does not exceed the line limit of a stream.
 * @throws Error if the tar is malformed
 */
export async function readSession(
  tar: AsyncIterable<Uint8Array>,
  sessionId: string,
  onLine: (text: string) => void,
): Promise<void> {
  for await (const { kind, path, body } of streamTar(tar, 'utf8')) {
    if (kind !== 'file' || !path.endsWith(`${sessionId}.jsonl`)) continue;
    const lines = createLineReader(STREAM_LIMITS.lineBytes);
    for await (const part of body) for (const { text } of lines.push(part)) if (text !== null) onLine(text);
  }
}

/** Counts the model calls in a session; null if this build finds no calls in its file. */
export async function countTurns(
  tar: AsyncIterable<Uint8Array>,
  sessionId: string,
  cli: AgentCli,
): Promise<number | null> {
  const reader = createSessionReader(cli);
  let turns = 0;
  await readSession(tar, sessionId, (text) => (turns = reader.line(text)?.turns ?? turns));
  return turns === 0 ? null : turns;
}
