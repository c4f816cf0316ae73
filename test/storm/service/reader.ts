/** A client that follows a run, and resumes its stream with the id of the last event that it has. */
import type { IncomingMessage } from 'node:http';
import { awaitAnswer, type Door, isAccepted, repeatUntil, sendTo, type Service } from './client.ts';

export interface ReadEvent {
  /** The field `id` of the stream. */
  readonly streamId: string;
  readonly seq: number;
  readonly id: string;
}

export interface Reading {
  readonly events: readonly ReadEvent[];
  /** The state that the event `end` has. */
  readonly state: string;
  /** Connections until the end of the stream. */
  readonly connections: number;
}

/** @throws UnexpectedAnswer */
export async function readRun(service: Service, door: Door, runId: string, endAtMs: number): Promise<Reading> {
  const events: ReadEvent[] = [];
  let connections = 0;
  const what = `a reader of ${runId} (${door})`;
  const state = await repeatUntil(what, endAtMs, async () => {
    connections += 1;
    const last = events.at(-1);
    const resumed = last === undefined ? {} : { 'last-event-id': last.streamId };
    const headers = { accept: 'text/event-stream', ...resumed };
    const sent = sendTo(service, door, `runs/${encodeURIComponent(runId)}/events`, { headers });
    const answer = await awaitAnswer(sent);
    if (!(await isAccepted(answer, [200], what))) return null;
    return await readStream(answer, (event) => void events.push(event));
  });
  return { events, state, connections };
}

/** @returns the state of the run; null: the stream ended before the run */
async function readStream(answer: IncomingMessage, onEvent: (event: ReadEvent) => void): Promise<string | null> {
  let text = '';
  answer.setEncoding('utf8');
  for await (const part of answer) {
    const blocks = (text + (part as string)).split('\n\n');
    text = blocks.pop()!;
    for (const block of blocks) {
      const data = /^data: (.*)$/m.exec(block)?.[1];
      if (data === undefined) continue;
      const value = JSON.parse(data) as { readonly seq: number; readonly id: string; readonly state: string };
      if (/^event: end$/m.test(block)) return value.state;
      if (/^event: problem$/m.test(block)) continue;
      onEvent({ streamId: /^id: (.*)$/m.exec(block)?.[1] ?? '', seq: value.seq, id: value.id });
    }
  }
  return null;
}
